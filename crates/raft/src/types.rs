//! The types with which openraft is instantiated.
//!
//! An entry's payload is shared (`Arc`) by the log's cache, the replication streams and the state
//! machine. None of these types is stored or sent itself; `records` has the mirror structs for
//! that.

use std::fmt;
use std::sync::Arc;

use openraft::impls::leader_id_std;
use openraft::vote::RaftLeaderId;
use seqd_state::{EncodedEntry, Entry as StateEntry, EntryError, Level, Outcome};
pub(crate) use seqd_store::records::Member;

use crate::platform;

openraft::declare_raft_types!(
    /// seqd's instance of openraft: one leader per term, as in the Raft paper.
    pub(crate) TypeConfig:
        D = Proposal,
        R = Answer,
        NodeId = u64,
        Node = Member,
        Term = u64,
        LeaderId = leader_id_std::LeaderId<u64, u64>,
        AsyncRuntime = platform::Runtime,
);

pub(crate) type Vote = openraft::alias::VoteOf<TypeConfig>;
pub(crate) type LogId = openraft::alias::LogIdOf<TypeConfig>;
pub(crate) type Entry = openraft::alias::EntryOf<TypeConfig>;
pub(crate) type Payload = openraft::alias::EntryPayloadOf<TypeConfig>;
pub(crate) type StoredMembership = openraft::alias::StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = openraft::alias::SnapshotMetaOf<TypeConfig>;
pub(crate) type Membership = openraft::Membership<u64, Member>;

/// The payload of a log entry: a stamped group of commands.
#[derive(Clone)]
pub(crate) struct Proposal(pub(crate) Arc<EncodedEntry>);

impl Proposal {
    /// Encodes the entry for a cluster at this level.
    pub(crate) fn new(entry: StateEntry, level: Level) -> Result<Self, EntryError> {
        EncodedEntry::new(entry, level).map(|entry| Self(Arc::new(entry)))
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} commands", self.0.commands.len())
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl PartialEq for Proposal {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// The result of applying an entry: an outcome for each of its commands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer(pub(crate) Vec<Outcome>);

pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(
        leader_id_std::LeaderId { term, voted_for: 0 }.to_committed(),
        index,
    )
}

/// The position up to which a log or a snapshot reaches, ordered by index first. A snapshot may
/// cover an uncommitted tail of a later term. Ordered by term first, as log IDs are, that tail
/// would appear to reach farther.
pub(crate) fn reach(id: Option<LogId>) -> Option<(u64, u64)> {
    id.map(|id| (id.index(), **id.committed_leader_id()))
}

/// The log ID that reaches farther.
pub(crate) fn farther(one: Option<LogId>, other: Option<LogId>) -> Option<LogId> {
    std::cmp::max_by_key(one, other, |id| reach(*id))
}

pub(crate) fn vote(term: u64, node: u64, committed: bool) -> Vote {
    Vote {
        leader_id: leader_id_std::LeaderId {
            term,
            voted_for: node,
        },
        committed,
    }
}
