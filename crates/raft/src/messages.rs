//! The messages of peers, requests and replies.
//!
//! An [envelope](seqd_peers::wire::envelope) precedes each message. The messages of the
//! [handshake](seqd_peers::wire::hello) have none.

#[cfg(any(test, fuzzing))]
pub mod fuzz;

use seqd_peers::levels::LevelRange;
use seqd_peers::table::Row;
use seqd_state::codec::Versioned;
use seqd_state::codec::frame::Frame;
use seqd_state::{ClusterMs, Draw, Drawn};
use serde::{Deserialize, Serialize};

use crate::handle::{ChangeOfMembers, MemberError, MemberStatus, NodeReport, ProposeError};
use crate::records::{EntryRecord, LogIdRecord, StoredMembershipRecord, VoteRecord};

// The kinds are 68 to 95, and 111. A message whose form changes is removed from the table and
// implements `Versioned` by hand, with its earlier versions.
seqd_peers::kinds! {
    #[cfg(test)]
    pub(crate) const KINDS;
    DrawRequest = 68,
    DrawReply = 69,
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
    Promise = 95,
    Facts = 111,
}

/// Returns whether a message carries data that every replica must accept. A node that cannot read
/// such a message must stop.
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
    /// The last entry that the sender itself has synced, once its vote is synced.
    pub(crate) synced: Option<LogIdRecord>,
    /// The sender's table of the positions that nodes have acknowledged; with heartbeats only.
    pub(crate) acknowledged: Vec<Row>,
    /// The time since a quorum last acknowledged the leader; `None` if it was just elected.
    pub(crate) without_quorum_ms: Option<u64>,
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

/// The head before a snapshot's bytes.
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

/// Requests the length and checksum of the kept part of an incomplete snapshot.
#[derive(Serialize, Deserialize)]
pub(crate) struct AskSnapshotKept;

/// The kept first bytes of a snapshot: their number and CRC-32C. These identify the snapshot.
#[derive(Serialize, Deserialize)]
pub(crate) struct SnapshotKept {
    pub(crate) bytes: u64,
    pub(crate) crc: u32,
}

/// The head before the remaining bytes of a snapshot whose first bytes are kept.
#[derive(Serialize, Deserialize)]
pub(crate) struct SnapshotRest {
    pub(crate) head: SnapshotHead,
    /// The number of kept bytes.
    pub(crate) from: u64,
}

/// A group of commands for the leader, with the time left until their deadline.
#[derive(Serialize, Deserialize)]
pub(crate) struct Forward {
    pub(crate) commands: Vec<Frame>,
    pub(crate) timeout_ms: u64,
}

/// The outcomes, one for each command, or a refusal. They are frames, so that an outcome of a newer
/// program is distinguished from a damaged reply.
#[derive(Serialize, Deserialize)]
pub(crate) struct ForwardReply(pub(crate) Result<Vec<Frame>, ForwardRefusal>);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ForwardRefusal {
    /// The receiver does not lead. Nothing was done.
    NotLeader,
    /// The error that a proposal made at the receiver would get.
    Propose(ProposeError),
}

impl From<ProposeError> for ForwardRefusal {
    fn from(error: ProposeError) -> Self {
        Self::Propose(error)
    }
}

impl ForwardRefusal {
    /// The refusal of a peer's request. A node that stops or was removed is not the leader that the
    /// peer looks for; the reasons for its end do not concern the peer's client.
    pub(crate) fn of_peer(self) -> Self {
        match self {
            Self::Propose(ProposeError::Stopping | ProposeError::NodeRemoved) => Self::NotLeader,
            refused => refused,
        }
    }
}

/// The highest term for which a node may have voted. A leader sends the term in which it leads, and
/// a voter that answers with a higher term no longer follows it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Promise {
    pub(crate) term: u64,
}

/// Draws for the leader, with the time left until their deadline.
#[derive(Serialize, Deserialize)]
pub(crate) struct DrawRequest {
    pub(crate) draws: Vec<Draw>,
    /// The sender's promise after the last of these requests arrived.
    pub(crate) promised: Promise,
    pub(crate) timeout_ms: u64,
    /// True if the draws wait for an extension of their windows.
    pub(crate) waits: bool,
}

/// One response for each draw, or the reason why nothing was drawn.
#[derive(Serialize, Deserialize)]
pub(crate) struct DrawReply(pub(crate) Result<Vec<DrawResponse>, ForwardRefusal>);

#[derive(Serialize, Deserialize)]
pub(crate) enum DrawResponse {
    Drawn(Drawn),
    Refused(Frame),
    /// The timestamps are this far ahead of the clock.
    Ahead {
        ms: u64,
    },
    ClockUnknown,
    Failed(ProposeError),
    /// The window is too short, and the draw does not wait.
    Short,
}

/// Requests from the leader the index that a linearizable read must have applied.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReadIndex {
    /// The sender's promise after the read arrived.
    pub(crate) promised: Promise,
    pub(crate) timeout_ms: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ReadIndexReply(pub(crate) Result<ReadPoint, ForwardRefusal>);

/// The index for which a linearizable read waits, and the time of the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadPoint {
    pub(crate) index: u64,
    /// The leader's cluster clock. The clock of the applied entries may be a second behind it.
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
    /// Checks the change without making it. It has a type of its own, because nesting to any depth
    /// would overflow the stack when read.
    TryOut(ChangeOfMembers),
    /// Gives a member new addresses. An address that is `None` does not change.
    Update {
        name: String,
        peer: Option<String>,
        http: Option<String>,
    },
    /// Begins or ends the drain of the receiver, which has this name.
    Drain {
        name: String,
        drains: bool,
    },
    /// Makes a voter a learner.
    Demote {
        name: String,
    },
}

impl MemberChange {
    /// The change, and whether it is a dry run.
    pub(crate) fn split(self) -> (ChangeOfMembers, bool) {
        let change = match self {
            Self::Add { name, peer, http } => ChangeOfMembers::Add { name, peer, http },
            Self::Promote { name } => ChangeOfMembers::Promote { name },
            Self::Remove { name } => ChangeOfMembers::Remove { name },
            Self::MoveLeader { to } => ChangeOfMembers::MoveLeader { to },
            Self::Update { name, peer, http } => ChangeOfMembers::Update { name, peer, http },
            Self::Drain { name, drains } => ChangeOfMembers::Drain { name, drains },
            Self::Demote { name } => ChangeOfMembers::Demote { name },
            Self::TryOut(change) => return (change, true),
        };
        (change, false)
    }
}

impl From<ChangeOfMembers> for MemberChange {
    fn from(change: ChangeOfMembers) -> Self {
        match change {
            ChangeOfMembers::Add { name, peer, http } => Self::Add { name, peer, http },
            ChangeOfMembers::Promote { name } => Self::Promote { name },
            ChangeOfMembers::Remove { name } => Self::Remove { name },
            ChangeOfMembers::MoveLeader { to } => Self::MoveLeader { to },
            ChangeOfMembers::Update { name, peer, http } => Self::Update { name, peer, http },
            ChangeOfMembers::Drain { name, drains } => Self::Drain { name, drains },
            ChangeOfMembers::Demote { name } => Self::Demote { name },
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ChangeRequest {
    pub(crate) change: MemberChange,
    pub(crate) timeout_ms: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Changed {
    /// The status after the change; for a removed member, the status before it.
    Member(Box<MemberStatus>),
    Leader(String),
    /// The result of a dry run: the change is possible. For a move of leadership, the name of the
    /// new leader.
    Fits(Option<String>),
}

#[derive(Serialize, Deserialize)]
pub(crate) enum ChangeRefusal {
    NotLeader,
    Member(MemberError),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ChangeReply(pub(crate) Result<Changed, ChangeRefusal>);

/// Requests that the leader withhold the answer while it serves. The answer is the same message.
#[derive(Serialize, Deserialize)]
pub(crate) struct Watch;

/// The progress of a node's clean stop. A stopping node sends it to each member, and the answer is
/// the receiver's own. The variants are ordered; a start only ever advances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Stopping {
    /// The node is not stopping.
    #[default]
    No,
    /// The node is stopping and has yet to return its leases and ranges, or leads and has yet to
    /// return its windows.
    Holds,
    /// The node is stopping and no longer needs the other nodes.
    GaveBack,
}

/// Requests a node's facts for a diagnosis. The answer is the same message with the facts, as JSON
/// of the API.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) json: Vec<u8>,
}

/// Sent to each member every second. The answer is the same message from the receiver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ping {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) applied: u64,
    /// The number of committed entries that the sender has yet to apply, by its own count.
    pub(crate) behind: u64,
    pub(crate) report: NodeReport,
    /// The sender's wall clock when it wrote this message, Unix milliseconds.
    pub(crate) wall_ms: u64,
    /// The sender's table of the positions that nodes have acknowledged.
    pub(crate) acknowledged: Vec<Row>,
    /// True if the sender's disk hangs. The sender must not lead meanwhile.
    pub(crate) disk_hangs: bool,
    /// True if the sender's disk has only its reserve left.
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
        assert!(
            kinds
                .iter()
                .all(|kind| (68..=95).contains(kind) || (111..=113).contains(kind))
        );
    }
}
