//! The promises that a leader requests while it confirms its leadership: the term of this node's
//! vote, and the voters that this node's log names.
//!
//! Invariants:
//! - The term is raised before a vote is stored, and openraft sends a vote, or requests votes for
//!   this node, only after it is stored. A node therefore has registered a term before another node
//!   can lead in it with this node's vote.
//! - The voters of a membership are registered before another node can receive its entry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use openraft::entry::RaftEntry;
use seqd_guards::is_out;

use crate::quorum::Configs;
use crate::types::{Entry, Payload, Vote};

#[derive(Debug, Default)]
pub(crate) struct Promised {
    term: AtomicU64,
    /// The index of the last membership that was appended in this start, and its voters.
    appended: Mutex<Option<(u64, Configs)>>,
}

impl Promised {
    /// `stored` is the vote on the disk.
    pub(crate) fn new(stored: Option<Vote>) -> Self {
        Self {
            term: AtomicU64::new(stored.map_or(0, |vote| vote.leader_id.term)),
            appended: Mutex::default(),
        }
    }

    fn appended(&self) -> MutexGuard<'_, Option<(u64, Configs)>> {
        self.appended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a vote that is about to be stored.
    pub(crate) fn vote(&self, vote: &Vote) {
        if !is_out!(PromiseRegistered) {
            self.term.fetch_max(vote.leader_id.term, Ordering::SeqCst);
        }
    }

    /// The highest term for which this node may have voted.
    pub(crate) fn term(&self) -> u64 {
        self.term.load(Ordering::SeqCst)
    }

    /// Registers an entry that is about to be appended.
    pub(crate) fn append(&self, entry: &Entry) {
        if let Payload::Membership(membership) = &entry.payload {
            let configs = membership.get_joint_config().clone();
            *self.appended() = Some((entry.index(), configs));
        }
    }

    /// Removes a membership whose entry is cut off. A leader needs no membership from before its
    /// leadership, because it has applied all of them.
    pub(crate) fn truncate_after(&self, last: Option<u64>) {
        self.appended()
            .take_if(|(index, _)| last.is_none_or(|last| *index > last));
    }

    /// The voters of the last membership after this index; `None` if there is none.
    pub(crate) fn voters_after(&self, applied: Option<u64>) -> Option<Configs> {
        let appended = self.appended();
        let (_, configs) = appended
            .as_ref()
            .filter(|(index, _)| applied.is_none_or(|applied| *index > applied))?;
        Some(configs.clone())
    }
}
