//! How openraft is configured, and what its end means for the process.

use std::time::Duration;

use openraft::SnapshotPolicy;
use openraft::errors::Fatal;
use seqd_wal::Wal;

use crate::handle::{Settings, Stop};
use crate::storage::failure::StorageFailure;
use crate::types::TypeConfig;

const PAYLOAD_ENTRIES: u64 = 1024;

/// What openraft demands to be more than the distance of two snapshots, and uses for nothing else.
const LEAST_LAG: u64 = 20_000;

pub(crate) fn config(settings: &Settings) -> Result<openraft::Config, String> {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let every = settings.snapshot_every;
    openraft::Config {
        cluster_name: "seqd".to_owned(),
        // What one heartbeat may take until openraft gives it up, which it demands to be less than
        // the shortest timeout. How often heartbeats are sent is `tasks::heartbeats`.
        heartbeat_interval: ms(settings.election.0).saturating_sub(1),
        // What a vote may take.
        election_timeout_min: ms(settings.election.0),
        // The lease of a leader.
        election_timeout_max: ms(leader_lease(settings)),
        // `tasks::elections` decides when to run for leader.
        enable_elect: false,
        // A snapshot of the largest state that one node should hold, on a slow network.
        install_snapshot_timeout: 600_000,
        max_payload_entries: PAYLOAD_ENTRIES,
        replication_lag_threshold: every.saturating_mul(2).max(LEAST_LAG),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(every),
        // What of the log goes is up to `tasks::purge`.
        max_in_snapshot_log_to_keep: u64::MAX,
        enable_pre_vote: Some(true),
        // A leader that was started again is elected again: the clock of the cluster runs from
        // its own blank entry, and nothing of an earlier process is taken over.
        enable_leader_restore: Some(false),
        ..openraft::Config::default()
    }
    .validate()
    .map_err(|e| format!("the Raft settings are not usable: {e}"))
}

/// How long a voter keeps to its leader after it was last heard of: in the middle of the election
/// timeouts, so that all voters have had their turn to run for leader before the longest is over.
pub(crate) fn leader_lease(settings: &Settings) -> Duration {
    let (shortest, longest) = settings.election;
    ((shortest + longest) / 2).max(shortest + Duration::from_millis(1))
}

/// What a failure of openraft means for the process: the cause that its storage met, and where there
/// is none, a fault of the program.
pub(crate) fn fatal(error: &Fatal<TypeConfig>, wal: &Wal, storage: &StorageFailure) -> Stop {
    if let Some(failure) = wal.failed() {
        return Stop::from(&failure);
    }
    match (error, storage.first()) {
        (Fatal::StorageError(_), Some(stop)) => stop,
        (error, _) => Stop::invariant(format!("Raft ended: {error}")),
    }
}
