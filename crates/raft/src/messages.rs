//! The messages of peers, requests and replies.
//!
//! An [envelope](seqd_peers::wire::envelope) precedes each message. The messages of the
//! [handshake](seqd_peers::wire::hello) have none.

#[cfg(any(test, fuzzing))]
pub mod fuzz;

use seqd_peers::levels::LevelRange;
use seqd_peers::table::Row;
use seqd_state::ClusterMs;
use seqd_state::codec::Versioned;
use seqd_state::codec::frame::Frame;
use serde::{Deserialize, Serialize};

use crate::handle::{ChangeOfMembers, MemberError, MemberStatus, ProposeError, Report};
use crate::records::{EntryRecord, LogIdRecord, StoredMembershipRecord, VoteRecord};

// The kinds are 70 to 95. A message that changes its shape takes its line out of the table and
// implements `Versioned` by hand, with the versions that it had.
seqd_peers::kinds! {
    #[cfg(test)]
    pub(crate) const KINDS;
    AppendRequest = 70,
    AppendReply = 71,
    BallotRequest = 72,
    BallotReply = 73,
    TransferRequest = 74,
    TransferReply = 75,
    SnapshotHead = 76,
    SnapshotReply = 77,
    Forward = 78,
    ForwardReply = 79,
    ReadIndex = 80,
    ReadIndexReply = 81,
    ChangeRequest = 82,
    ChangeReply = 83,
    Ping = 84,
    Watch = 85,
    AskSnapshotKept = 91,
    SnapshotKept = 92,
    SnapshotRest = 93,
    Stopping = 94,
}

/// Whether a message carries what every replica must take: a node that cannot read it must not go
/// on.
pub(crate) fn replicates<M: Versioned>() -> bool {
    const KINDS: [u8; 3] = [AppendRequest::KIND, SnapshotHead::KIND, SnapshotRest::KIND];
    KINDS.contains(&M::KIND)
}

#[derive(Serialize, Deserialize)]
pub(crate) struct AppendRequest {
    pub(crate) vote: VoteRecord,
    pub(crate) prev: Option<LogIdRecord>,
    pub(crate) entries: Vec<EntryRecord>,
    pub(crate) commit: Option<LogIdRecord>,
    /// The last entry that the sender itself has synced, once its vote is.
    pub(crate) synced: Option<LogIdRecord>,
    /// What the sender knows that the nodes have acknowledged; with heartbeats only.
    pub(crate) acknowledged: Vec<Row>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum AppendReply {
    Success,
    Partial(Option<LogIdRecord>),
    Conflict,
    HigherVote(VoteRecord),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct BallotRequest {
    pub(crate) vote: VoteRecord,
    pub(crate) last: Option<LogIdRecord>,
    pub(crate) leadership_transfer: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct BallotReply {
    pub(crate) vote: VoteRecord,
    pub(crate) granted: bool,
    pub(crate) last: Option<LogIdRecord>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct TransferRequest {
    pub(crate) from: VoteRecord,
    pub(crate) to: u64,
    pub(crate) last: Option<LogIdRecord>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum TransferReply {
    Accepted,
    VoteChanged {
        expected: VoteRecord,
        actual: VoteRecord,
    },
    LogNotFlushed {
        expected: Option<LogIdRecord>,
        actual: Option<LogIdRecord>,
    },
}

/// What comes before a snapshot's bytes.
#[derive(Serialize, Deserialize)]
pub(crate) struct SnapshotHead {
    pub(crate) vote: VoteRecord,
    pub(crate) last: Option<LogIdRecord>,
    pub(crate) membership: StoredMembershipRecord,
    pub(crate) len: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SnapshotReply {
    pub(crate) vote: VoteRecord,
}

/// Asks what is kept of a snapshot that did not arrive whole.
#[derive(Serialize, Deserialize)]
pub(crate) struct AskSnapshotKept;

/// Its first bytes: so many, with this CRC-32C. Which snapshot it is of follows from them.
#[derive(Serialize, Deserialize)]
pub(crate) struct SnapshotKept {
    pub(crate) bytes: u64,
    pub(crate) crc: u32,
}

/// As a head, before the bytes that follow those that are kept.
#[derive(Serialize, Deserialize)]
pub(crate) struct SnapshotRest {
    pub(crate) head: SnapshotHead,
    /// How many bytes are kept.
    pub(crate) from: u64,
}

/// A group of commands for the leader, with the time that is left for it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Forward {
    pub(crate) commands: Vec<Frame>,
    pub(crate) timeout_ms: u64,
}

/// Outcomes, one for each command; or why not. They are frames, so that one that only a newer
/// program knows is distinguished from a damaged reply.
#[derive(Serialize, Deserialize)]
pub(crate) struct ForwardReply(pub(crate) Result<Vec<Frame>, ForwardRefusal>);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ForwardRefusal {
    /// It does not lead; nothing was done.
    NotLeader,
    /// As for a proposal made there.
    Propose(ProposeError),
}

/// Asks the leader up to which index a linearizable read must have applied.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReadIndex {
    pub(crate) timeout_ms: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ReadIndexReply(pub(crate) Result<ReadPoint, ForwardRefusal>);

/// What a linearizable read waits for, and when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadPoint {
    pub(crate) index: u64,
    /// The leader's cluster clock: that of the applied entries may be a second behind it.
    pub(crate) cluster_ms: ClusterMs,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum MemberChange {
    Add {
        name: String,
        peer: String,
        http: Option<String>,
    },
    Promote {
        name: String,
    },
    Remove {
        name: String,
    },
    MoveLeader {
        to: Option<String>,
    },
    /// Checks the change, and makes none. Of a type of its own: one within another to any depth
    /// could not be read within a stack.
    TryOut(ChangeOfMembers),
    /// Gives a member new addresses; those that are `None` stay as they are.
    Update {
        name: String,
        peer: Option<String>,
        http: Option<String>,
    },
}

impl MemberChange {
    /// The change, and whether it is only tried out.
    pub(crate) fn split(self) -> (ChangeOfMembers, bool) {
        let change = match self {
            Self::Add { name, peer, http } => ChangeOfMembers::Add { name, peer, http },
            Self::Promote { name } => ChangeOfMembers::Promote { name },
            Self::Remove { name } => ChangeOfMembers::Remove { name },
            Self::MoveLeader { to } => ChangeOfMembers::MoveLeader { to },
            Self::Update { name, peer, http } => ChangeOfMembers::Update { name, peer, http },
            Self::TryOut(change) => return (change, true),
        };
        (change, false)
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ChangeRequest {
    pub(crate) change: MemberChange,
    pub(crate) timeout_ms: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Changed {
    /// As it is after the change; of one that was removed, as it was before.
    Member(Box<MemberStatus>),
    Leader(String),
    /// Nothing: it could be made. Of leadership, to whom.
    Fits(Option<String>),
}

#[derive(Serialize, Deserialize)]
pub(crate) enum ChangeRefusal {
    NotLeader,
    Member(MemberError),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ChangeReply(pub(crate) Result<Changed, ChangeRefusal>);

/// Asks the leader to keep the answer back for as long as it serves; answered with the same.
#[derive(Serialize, Deserialize)]
pub(crate) struct Watch;

/// How far a node is with a clean stop. One that stops sends it to each member, and is answered
/// with the receiver's own. In order: a start only goes on to a later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Stopping {
    /// It does not stop.
    #[default]
    No,
    /// It stops, and has yet to give back what it holds.
    Holds,
    /// It stops, and needs the others no longer.
    GaveBack,
}

/// Sent to each member each second, and answered with the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ping {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) applied: u64,
    /// How many committed entries, as far as the sender knows, it has yet to apply.
    pub(crate) behind: u64,
    pub(crate) report: Report,
    /// The sender's wall clock as it wrote this, Unix milliseconds.
    pub(crate) wall_ms: u64,
    /// What the sender knows that the nodes have acknowledged.
    pub(crate) acknowledged: Vec<Row>,
    /// Whether its disk hangs: it must not lead.
    pub(crate) disk_hangs: bool,
    /// Whether only the reserve of its disk is left.
    pub(crate) disk_low: bool,
    pub(crate) levels: LevelRange,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use seqd_peers::wire::hello;

    use super::*;

    #[test]
    fn no_two_messages_share_a_kind() {
        let all = KINDS.iter().chain(hello::KINDS);
        let kinds: BTreeSet<u8> = all.copied().collect();
        assert_eq!(kinds.len(), KINDS.len() + hello::KINDS.len());
        assert!(kinds.iter().all(|kind| (70..=95).contains(kind)));
    }
}
