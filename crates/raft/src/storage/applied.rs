//! The replicated state in memory and its applied index. The state machine applies to it, readers
//! read it, and the checkpointer copies its changes to the store.

use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use openraft::entry::RaftEntry;
use seqd_peers::watched::Watched;
use seqd_state::idgen::WallMs;
use seqd_state::{ClusterMs, State};
use seqd_store::checkpoint::{Change, Checkpoint};
use seqd_store::snapshot_file::{Received, SnapshotFile};
use tokio::time::Instant;

use crate::records::{self, ToRecord};
use crate::turns::Turns;
use crate::types::{Answer, LogId, Payload, StoredMembership, TypeConfig};

/// openraft's snapshot type with this crate's handle.
pub(crate) type Snapshot = openraft::alias::SnapshotOf<TypeConfig, SnapshotHandle>;

/// A snapshot's file: kept, or received and not in place yet.
pub(crate) enum SnapshotHandle {
    /// Built here, or installed.
    Kept(SnapshotFile),
    /// Received from a leader and verified. It gets its name inside install.
    Received(Box<Received>),
}

impl SnapshotHandle {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Kept(file) => &file.path,
            Self::Received(file) => file.path(),
        }
    }

    /// Index and term of the last entry that the snapshot contains.
    pub(crate) fn position(&self) -> (u64, u64) {
        match self {
            Self::Kept(file) => (file.index, file.term),
            Self::Received(file) => file.position(),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Kept(file) => file.len,
            Self::Received(file) => file.len_bytes(),
        }
    }
}

pub(crate) struct Core {
    pub(crate) state: State,
    pub(crate) applied: Option<LogId>,
    pub(crate) membership: StoredMembership,
    /// The last leader's blank entry. That leader's cluster clock starts at it.
    pub(crate) blank: Option<Blank>,
    /// The wall-clock time of the last stamped entry that this process applied.
    pub(crate) stamped: Option<WallMs>,
}

/// A leader's first entry of its term, as applied here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blank {
    pub(crate) term: u64,
    pub(crate) cluster_ms: ClusterMs,
    /// The wall-clock time of the last stamped entry before it; `None` if this process has applied
    /// none.
    pub(crate) stamped: Option<WallMs>,
    pub(crate) at: Instant,
}

/// The state machine's data that readers and the checkpointer share.
pub(crate) struct Applied {
    core: RwLock<Core>,
    pub(crate) index: Watched<u64>,
    /// Notified when another membership was applied.
    pub(crate) membership_changed: tokio::sync::Notify,
    /// The requests that wait at this node.
    pub(crate) turns: Arc<Turns>,
}

impl Applied {
    pub(crate) fn new(state: State, applied: Option<LogId>, membership: StoredMembership) -> Self {
        let index = Watched::new(applied.map_or(0, |id| id.index()));
        let core = Core {
            state,
            applied,
            membership,
            blank: None,
            stamped: None,
        };
        Self {
            core: RwLock::new(core),
            index,
            membership_changed: tokio::sync::Notify::new(),
            turns: Arc::default(),
        }
    }

    /// Locks the state for reading. Hold the guard briefly, because `apply` waits meanwhile.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Core> {
        self.core.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for applying entries and for draining changes.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Core> {
        self.core.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a state that was replaced.
    pub(crate) fn publish(&self) {
        let index = self.read().applied.map_or(0, |id| id.index());
        self.index.set(index);
        self.turns.wake_all();
        self.membership_changed.notify_waiters();
    }

    /// Takes the changes since the last call, and the position that they lead to.
    pub(crate) fn take_changes(&self) -> io::Result<(Vec<Change>, Checkpoint)> {
        let (id, membership, changes) = {
            let mut core = self.write();
            (
                core.applied,
                core.membership.clone(),
                core.state.drain_changes(),
            )
        };
        let log_id = id.map(|id| records::encode(&id.record())).transpose()?;
        let position = Checkpoint {
            index: id.map_or(0, |id| id.index()),
            log_id: log_id.unwrap_or_default(),
            membership: records::encode(&membership.record())?,
            digest: changes.digest.0,
        };
        Ok((changes.rows, position))
    }

    pub(crate) fn apply(&self, entry: &crate::types::Entry) -> Answer {
        let mut core = self.write();
        let answer = match &entry.payload {
            Payload::Blank => {
                let term = **entry.log_id().committed_leader_id();
                let cluster_ms = core.state.cluster_ms();
                core.blank = Some(Blank {
                    term,
                    cluster_ms,
                    stamped: core.stamped,
                    at: Instant::now(),
                });
                Answer::default()
            }
            Payload::Normal(proposal) => {
                let membership = records::position_of(&core.membership);
                core.stamped = Some(proposal.0.stamp.wall_ms);
                let outcomes = core.state.apply(&proposal.0, membership);
                self.turns.wake(core.state.ended_waits());
                Answer(outcomes)
            }
            Payload::Membership(membership) => {
                core.membership = StoredMembership::new(Some(entry.log_id()), membership.clone());
                self.membership_changed.notify_waiters();
                Answer::default()
            }
        };
        core.applied = Some(entry.log_id());
        #[cfg(test)]
        observe(&core);
        answer
    }
}

/// In a simulation, compares this node's state with that of the other nodes.
#[cfg(test)]
fn observe(core: &Core) {
    use crate::platform::scope;
    if let (Some(scope), Some(id)) = (scope::current(), core.applied) {
        scope.applied(scope::Applied {
            index: id.index(),
            term: **id.committed_leader_id(),
            digest: core.state.digest().0,
        });
        let leases = core.state.leases().map(|lease| scope::Window {
            worker: lease.worker.0,
            lease: lease.record.lease.0,
            from: lease.record.from_tick.0,
            fence: lease.record.fence.0,
        });
        scope.granted(&leases.collect::<Vec<_>>());
    }
}
