//! How openraft is configured, and what its end means for the process.

use std::time::Duration;

use openraft::SnapshotPolicy;
use openraft::errors::Fatal;
use seqd_wal::Wal;

use crate::context::Settings;
use crate::handle::Stop;
use crate::storage::folder;
use crate::types::TypeConfig;

/// Entries in one replication message.
const PAYLOAD_ENTRIES: u64 = 1024;

/// Entries kept behind a snapshot, so that a follower that was away briefly is served from the
/// log.
const KEPT_BEHIND_SNAPSHOT: u64 = 10_000;

pub(crate) fn config(settings: &Settings) -> Result<openraft::Config, String> {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let every = settings.snapshot_every;
    openraft::Config {
        cluster_name: "seqd".to_owned(),
        heartbeat_interval: ms(settings.heartbeat),
        election_timeout_min: ms(settings.election.0),
        election_timeout_max: ms(settings.election.1),
        // A snapshot of the largest state that one node should hold, on a slow network.
        install_snapshot_timeout: 600_000,
        max_payload_entries: PAYLOAD_ENTRIES,
        replication_lag_threshold: every.saturating_mul(2).max(KEPT_BEHIND_SNAPSHOT * 2),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(every),
        max_in_snapshot_log_to_keep: KEPT_BEHIND_SNAPSHOT,
        purge_batch_size: 1024,
        enable_pre_vote: Some(true),
        // A leader that was started again is elected again: the clock of the cluster runs from
        // its own blank entry, and nothing of an earlier process is taken over.
        enable_leader_restore: Some(false),
        ..openraft::Config::default()
    }
    .validate()
    .map_err(|e| format!("the Raft settings are not usable: {e}"))
}

/// What a failure of openraft means for the process.
pub(crate) fn fatal(error: &Fatal<TypeConfig>, wal: &Wal) -> Stop {
    if let Some(failure) = wal.failed() {
        return folder::disk_failure("the log could not be written", &failure.to_io_error());
    }
    match error {
        Fatal::StorageError(error) => {
            let text = error.to_string();
            let full = text.contains("No space left on device");
            Stop {
                exit: 10,
                code: if full { "disk-full" } else { "fsync-failed" },
                message: format!(
                    "the storage failed: {text}; check the disk and start the node again"
                ),
            }
        }
        Fatal::Panicked | Fatal::Stopped => folder::invariant(format!("Raft ended: {error}")),
    }
}
