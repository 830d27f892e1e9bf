//! One running replica: log, state, checkpoints and openraft, opened in order and stopped in
//! order.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openraft::Instant as RaftInstant;
use openraft::SnapshotPolicy;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;
use seqd_state::ClusterMs;
use seqd_wal::Wal;
use tokio::time::Instant;

use crate::handle::{Phase, Stop};
use crate::latency::Latency;
use crate::local::Local;
use crate::storage::checkpointer::{Checkpointer, Exported, Healer, Workshop, every_50_ms};
use crate::storage::folder::{self, Identity};
use crate::storage::machine::{Applied, Machine};
use crate::storage::opening::{Healed, Storage};
use crate::types::{Member, TypeConfig, Vote};
use crate::wire::network::Network;
use seqd_store::checkpoint::{self, Place};
use seqd_store::first_error::FirstError;

/// openraft's handle.
pub(crate) type OpenRaft = openraft::Raft<TypeConfig, Machine>;

/// Entries in one replication message.
const PAYLOAD_ENTRIES: u64 = 1024;

/// Entries kept behind a snapshot, so that a follower that was away briefly is served from the
/// log.
const KEPT_BEHIND_SNAPSHOT: u64 = 10_000;

/// How long a stop may make the next start quicker: with two million rows it takes two seconds.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);

/// A replica that runs.
pub(crate) struct Replica {
    pub(crate) node: u64,
    pub(crate) raft: OpenRaft,
    pub(crate) applied: Arc<Applied>,
    pub(crate) wal: Wal,
    pub(crate) commits: Latency,
    pub(crate) healed: Healed,
    checkpointer: Checkpointer,
    place: Place,
    recovered: AtomicBool,
    leader_heard: Mutex<Option<Instant>>,
    election_max: Duration,
}

/// Leadership that may propose: its own blank entry is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leading {
    /// The term.
    pub(crate) term: u64,
    base: ClusterMs,
    since: Instant,
}

impl Leading {
    /// The cluster's clock under this leadership.
    pub(crate) fn cluster_ms(&self) -> ClusterMs {
        let elapsed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        ClusterMs(self.base.0.saturating_add(elapsed))
    }
}

impl Replica {
    /// Starts openraft on an opened storage.
    pub(crate) async fn start(
        local: &Arc<Local>,
        identity: &Identity,
        storage: Storage,
    ) -> Result<Arc<Self>, Stop> {
        let Storage {
            wal,
            log,
            place,
            loaded,
            mark,
            purge_floor,
            healed,
            ..
        } = storage;
        let position = loaded.position;
        let applied = Arc::new(Applied::new(loaded.state, position, loaded.membership));
        let failed = Arc::downgrade(local);
        let checkpointer = Checkpointer::start(Workshop {
            applied: Arc::clone(&applied),
            store: loaded.store,
            log: Box::new(wal.clone()),
            place: place.clone(),
            mark,
            pace: every_50_ms(),
            lost: FirstError::default(),
            snapshots: local.folder.snapshots(),
            written: position,
            on_failure: Box::new(move |error| {
                if let Some(local) = failed.upgrade() {
                    local.stop(folder::disk_failure(
                        "the checkpoint was not written",
                        &error,
                    ));
                }
            }),
        })
        .map_err(|e| folder::invariant(format!("cannot start the checkpoint thread: {e}")))?;
        let machine = Machine {
            applied: Arc::clone(&applied),
            checkpointer: checkpointer.clone(),
            purge_floor,
        };
        let network = Network {
            local: Arc::clone(local),
            synced: log.synced(),
            healer: Healer::new(checkpointer.clone()),
        };
        let config = Arc::new(config(local).map_err(folder::invariant)?);
        let raft = OpenRaft::new(identity.node, config, network, log, machine)
            .await
            .map_err(|e| fatal(&e, &wal))?;
        Ok(Arc::new(Self {
            node: identity.node,
            raft,
            applied,
            wal,
            commits: Latency::default(),
            healed,
            checkpointer,
            place,
            recovered: AtomicBool::new(false),
            leader_heard: Mutex::new(None),
            election_max: local.settings.election.1,
        }))
    }

    /// Whether this replica has a vote or an entry.
    pub(crate) fn has_history(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.vote.leader_id.term > 0 || metrics.last_log_index.is_some()
    }

    /// Founds the cluster: the first entry of the log is its membership.
    pub(crate) async fn found(&self, members: BTreeMap<u64, Member>) -> Result<(), Stop> {
        self.raft
            .initialize(members)
            .await
            .map_err(|e| folder::invariant(format!("the cluster could not be founded: {e}")))
    }

    /// Watches openraft; a replica that fails ends the node.
    pub(crate) async fn watch(&self, local: &Local) {
        let raft = self.raft.clone();
        let mut metrics = raft.server_metrics();
        let recovery = async {
            if raft.wait_for_recovery(None).await.is_ok() {
                self.recovered.store(true, Ordering::Release);
            }
            std::future::pending::<()>().await;
        };
        let running = async { while metrics.changed().await.is_ok() {} };
        tokio::select! { () = recovery => {}, () = running => {} }
        let state = self.raft.metrics().borrow_watched().running_state.clone();
        if let Err(error) = state
            && !matches!(error, Fatal::Stopped)
        {
            local.stop(fatal(&error, &self.wal));
        }
    }

    /// Whether all that was committed at the start is applied.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.recovered.load(Ordering::Acquire)
    }

    /// Leadership, if this replica has it and its blank entry is applied.
    pub(crate) fn leading(&self) -> Option<Leading> {
        let leader = self.raft.as_leader().ok()?;
        let term = *leader.to_committed_leader_id();
        let blank = self.applied.read().blank?;
        (blank.term == term).then_some(Leading {
            term,
            base: blank.cluster_ms,
            since: blank.at,
        })
    }

    /// The leader that this replica follows.
    pub(crate) fn leader(&self) -> Option<u64> {
        self.raft.metrics().borrow_watched().current_leader
    }

    /// The leader, while it and a quorum are known to be in touch.
    pub(crate) fn live_leader(&self) -> Option<u64> {
        self.leader().filter(|_| self.has_quorum_contact())
    }

    /// Whether a quorum was in touch with this leader within an election, or, following, whether
    /// the leader was.
    pub(crate) fn has_quorum_contact(&self) -> bool {
        let recent = |silent: Duration| silent < self.election_max;
        let Ok(leader) = self.raft.as_leader() else {
            return self.leader().is_some() && self.silent_for().is_some_and(recent);
        };
        if self.applied.read().membership.voter_ids().eq([self.node]) {
            return true;
        }
        let acked = leader
            .last_quorum_acked()
            .map(|at| RaftInstant::elapsed(&at));
        // Its own first entry was applied because a quorum had it.
        let began = self.leading().map(|leading| leading.since.elapsed());
        acked.into_iter().chain(began).any(recent)
    }

    fn leader_heard_at(&self) -> Option<Instant> {
        *self
            .leader_heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// How long ago this replica last heard a leader, or as leader a quorum; `None` if never.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        let acked = self
            .raft
            .as_leader()
            .ok()
            .and_then(|leader| leader.last_quorum_acked());
        let acked = acked.map(|at| RaftInstant::elapsed(&at));
        let heard = self.leader_heard_at().map(|at| at.elapsed());
        acked.into_iter().chain(heard).min()
    }

    /// Records that a leader's append was accepted.
    pub(crate) fn hear_leader(&self) {
        *self
            .leader_heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether a node was a member and is not one any more.
    pub(crate) fn is_removed(&self, node: u64) -> bool {
        let core = self.applied.read();
        core.membership.get_node(&node).is_none() && core.state.is_removed(seqd_state::NodeId(node))
    }

    /// A member's record, by ID.
    pub(crate) fn member(&self, node: u64) -> Option<Member> {
        self.applied.read().membership.get_node(&node).cloned()
    }

    /// All members, by ID.
    pub(crate) fn members(&self) -> BTreeMap<u64, Member> {
        let core = self.applied.read();
        core.membership
            .nodes()
            .map(|(id, member)| (*id, member.clone()))
            .collect()
    }

    /// Bytes of the checkpoint on the disk.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        self.checkpointer.disk_bytes()
    }

    /// Snapshots that were found damaged and set aside, at the start or since.
    pub(crate) fn snapshots_set_aside(&self) -> u64 {
        self.healed.snapshots_set_aside + self.checkpointer.set_aside()
    }

    /// Takes a snapshot for somebody outside of the cluster.
    pub(crate) async fn export(&self) -> io::Result<Exported> {
        self.checkpointer.export().await
    }

    /// Stops openraft, writes the last checkpoint, drains the log.
    pub(crate) async fn stop(&self) -> io::Result<()> {
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!(%error, "openraft did not stop cleanly");
        }
        self.checkpointer.stop().await?;
        let wal = self.wal.clone();
        tokio::task::spawn_blocking(move || wal.close())
            .await
            .map_err(io::Error::other)?
    }

    /// The very last of a clean stop, for the next start's sake; whether nobody uses the folder any
    /// more.
    pub(crate) async fn settle(&self) -> bool {
        let place = self.place.clone();
        let settle = move || checkpoint::settle(&place, SETTLE_LIMIT);
        let settled = tokio::task::spawn_blocking(settle).await;
        let settled = settled.map_err(io::Error::other).and_then(|done| done);
        if let Err(error) = &settled {
            tracing::info!(%error, "the next start of a large state may take a little longer");
        }
        !settled.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
    }
}

fn config(local: &Local) -> Result<openraft::Config, String> {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let settings = &local.settings;
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
fn fatal(error: &Fatal<TypeConfig>, wal: &Wal) -> Stop {
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

/// The vote that a replica has stored.
pub(crate) fn current_vote(raft: &OpenRaft) -> Vote {
    raft.metrics().borrow_watched().vote
}

impl Phase {
    /// Whether the node's Raft runs.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running)
    }
}
