//! The promises that a leader requests while it confirms its leadership: the term of this node's
//! vote, and the voters that this node's log names.
//!
//! Invariants:
//! - The term is raised before a vote is stored, and openraft sends a vote, or requests votes for
//!   this node, only after it is stored. A node therefore has registered a term before another node
//!   can lead in it with this node's vote.
//! - The voters of a membership are registered before another node can receive its entry.

use std::sync::atomic::{AtomicU64, Ordering};

use openraft::entry::RaftEntry;
use seqd_guards::is_out;
use seqd_net::Lock;

use crate::quorum::Configs;
use crate::types::{Entry, LogId, Payload, Vote};

#[derive(Debug, Default)]
pub(crate) struct Promised {
    term: AtomicU64,
    /// The entry of the last membership that was appended in this start, and its voters.
    appended: Lock<Option<(LogId, Configs)>>,
}

impl Promised {
    /// `stored` is the vote on the disk.
    pub(crate) fn new(stored: Option<Vote>) -> Self {
        Self {
            term: AtomicU64::new(stored.map_or(0, |vote| vote.leader_id.term)),
            appended: Lock::default(),
        }
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
            *self.appended.lock() = Some((entry.log_id(), configs));
        }
    }

    /// The voters of the last membership that the leader of this term, this node, has appended
    /// after this index; `None` if there is none. A membership of an earlier term does not count:
    /// the leader has applied it, or a truncation or a snapshot has removed its entry.
    pub(crate) fn voters_of(&self, term: u64, applied: Option<u64>) -> Option<Configs> {
        let appended = self.appended.lock();
        let (_, configs) = appended.as_ref().filter(|(id, _)| {
            let is_of_term = id.committed_leader_id().term == term || is_out!(VotersOfTerm);
            is_of_term && applied.is_none_or(|applied| id.index() > applied)
        })?;
        Some(configs.clone())
    }
}
