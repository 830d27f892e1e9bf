//! The configuration of openraft, and the stop reason after it has failed.

use std::time::Duration;

use openraft::SnapshotPolicy;
use openraft::errors::Fatal;
use seqd_wal::Wal;

use crate::handle::{Settings, Stop};
use crate::storage::failure::StorageFailure;
use crate::types::TypeConfig;

const PAYLOAD_ENTRIES: u64 = 1024;

/// openraft requires this to be more than the distance between two snapshots, and uses it for
/// nothing else.
const LEAST_LAG: u64 = 20_000;

pub(crate) fn config(settings: &Settings) -> Result<openraft::Config, String> {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let every = settings.snapshot_every;
    openraft::Config {
        cluster_name: "seqd".to_owned(),
        // The time limit of one heartbeat, which openraft requires to be less than the shortest
        // timeout. `tasks::heartbeats` sets the interval of heartbeats.
        heartbeat_interval: ms(settings.election.0).saturating_sub(1),
        // The time limit of a vote.
        election_timeout_min: ms(settings.election.0),
        // The lease of a leader.
        election_timeout_max: ms(leader_lease(settings)),
        // `tasks::elections` decides when to run for leader.
        enable_elect: false,
        // Enough for a snapshot of the largest supported state on a slow network.
        install_snapshot_timeout: 600_000,
        max_payload_entries: PAYLOAD_ENTRIES,
        replication_lag_threshold: every.saturating_mul(2).max(LEAST_LAG),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(every),
        // `tasks::purge` decides which part of the log is purged.
        max_in_snapshot_log_to_keep: u64::MAX,
        enable_pre_vote: Some(true),
        // A leader that restarts must be elected again: the cluster's clock runs from its own blank
        // entry, and nothing of an earlier process may be reused.
        enable_leader_restore: Some(false),
        ..openraft::Config::default()
    }
    .validate()
    .map_err(|e| format!("the Raft settings are not usable: {e}"))
}

/// Time for which a voter keeps to its leader after the leader's last message. It is the middle of
/// the election timeouts, so that all voters have had their turn to run for leader before the
/// longest timeout ends.
pub(crate) fn leader_lease(settings: &Settings) -> Duration {
    let (shortest, longest) = settings.election;
    ((shortest + longest) / 2).max(shortest + Duration::from_millis(1))
}

/// The stop reason after a failure of openraft: the cause that its storage recorded, or, without
/// one, a fault of the program.
pub(crate) fn fatal(error: &Fatal<TypeConfig>, wal: &Wal, storage: &StorageFailure) -> Stop {
    if let Some(failure) = wal.failed() {
        return Stop::from(&failure);
    }
    match (error, storage.first()) {
        (Fatal::StorageError(_), Some(stop)) => stop,
        (error, _) => Stop::invariant(format!("Raft ended: {error}")),
    }
}
