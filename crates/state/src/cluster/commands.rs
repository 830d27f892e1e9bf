//! What can be asked of the cluster itself, and what becomes of it.

use seqd_idgen::WallMs;
use serde::{Deserialize, Serialize};

use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::level::{Level, LogPosition};
use crate::newtypes::NodeId;

/// The most founders: more voters than a Raft group of this kind is meant for.
pub const MAX_FOUNDERS: usize = 16;

/// The highest ID of a founder. Everything that the counter gives lies above the founders' IDs, and
/// this leaves it nearly all of its numbers.
pub const MAX_FOUNDER_ID: NodeId = NodeId(u32::MAX as u64);

/// The longest window: a day. A fence further ahead would keep a worker out of use for longer than
/// anyone waits for a crashed node.
pub const MAX_WINDOW_MS: u64 = 86_400_000;

/// The largest skew between peers' clocks that can be agreed: an hour. Twice of it lies between a
/// fence that is asked for and one that is refused.
pub const MAX_PEER_SKEW_MS: u64 = 3_600_000;

/// A change of the cluster itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ClusterCommand {
    /// Begins the cluster. The first command of a log, and refused after that unless it is equal.
    Found(Found),
    /// Gives a node that will join its ID.
    AllocateNodeId(AllocateNodeId),
    /// A process of a member starts: leases are granted to the latest start alone.
    RegisterStart {
        /// The member.
        node: NodeId,
        /// Its boot number, which each start raises.
        boot: u64,
        /// Drawn at the start, so that two processes with one boot number are told apart.
        nonce: u64,
    },
    /// A member was removed. Its ID is never used again; its leases run out by themselves.
    MarkRemoved {
        /// The former member.
        node: NodeId,
    },
    /// Records when a restored cluster began, once its first leader's clock is known to be right.
    StampRestoration {
        /// The leader's wall clock.
        #[serde(with = "crate::foreign::wall_ms")]
        wall_ms: WallMs,
    },
    /// Raises the level by one: every member can read what it brings.
    RaiseLevel {
        /// The new level.
        to: Level,
        /// The membership whose members were asked.
        membership: LogPosition,
    },
    /// [`ClusterCommand::RegisterStart`] in version 2.
    #[cfg(any(test, feature = "test-next-level"))]
    RegisterStartV2 {
        /// The member.
        node: NodeId,
        /// Its boot number, which each start raises.
        boot: u64,
        /// Drawn at the start, so that two processes with one boot number are told apart.
        nonce: u64,
        /// The wall clock of the start, in Unix milliseconds.
        started: u64,
    },
}

impl FrameTable for ClusterCommand {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0101), // Found
        row(0x0102), // AllocateNodeId
        row(0x0103), // RegisterStart
        row(0x0104), // MarkRemoved
        row(0x0105), // StampRestoration
        row(0x0106), // RaiseLevel
        #[cfg(any(test, feature = "test-next-level"))]
        row(0x0103).version(2).since(Level::NEXT), // RegisterStartV2
    ];
}

/// Begins the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The cluster's ID.
    pub cluster_id: String,
    /// How long a lease lives and how far ahead its fence is.
    pub window_ms: u64,
    /// How far the clocks of two members may be apart.
    pub max_peer_skew_ms: u64,
    /// The first members: IDs and names.
    pub founders: Vec<(NodeId, String)>,
}

/// What a joining node is called and where it is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocateNodeId {
    /// The member's name.
    pub name: String,
    /// Its peer address.
    pub peer: String,
    /// Its client URL.
    pub http: String,
    /// Drawn by the caller: a repeated command with the same nonce gets the same ID.
    pub nonce: u64,
}

/// What became of a [`ClusterCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterOutcome {
    /// The cluster has begun, by this command or by an equal one before it.
    Founded,
    /// The joining node's ID.
    NodeIdAllocated {
        /// The ID.
        node: NodeId,
    },
    /// This start is the member's registered one.
    StartRegistered {
        /// The member.
        node: NodeId,
        /// Its boot number.
        boot: u64,
    },
    /// The member counts as removed.
    MarkedRemoved {
        /// The former member.
        node: NodeId,
    },
    /// It is known when the restored cluster began.
    RestorationStamped {
        /// The time, by this command or by the one before it.
        #[serde(with = "crate::foreign::wall_ms")]
        wall_ms: WallMs,
    },
    /// The cluster is at this level.
    LevelRaised {
        /// The level.
        level: Level,
    },
}

impl FrameTable for ClusterOutcome {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0141), // Founded
        row(0x0142), // NodeIdAllocated
        row(0x0143), // StartRegistered
        row(0x0144), // MarkedRemoved
        row(0x0145), // RestorationStamped
        row(0x0146), // LevelRaised
    ];
}

/// Why a [`ClusterCommand`] changed nothing, or a command that depends on the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ClusterRefusal {
    /// The cluster has not begun.
    #[error("the cluster is not founded yet")]
    NotFounded,
    /// The cluster has begun, and not as this command says.
    #[error("the cluster {cluster_id} is founded already")]
    AlreadyFounded {
        /// The cluster that there is.
        cluster_id: String,
    },
    /// The cluster cannot begin as asked.
    #[error("{0}")]
    InvalidFounding(FoundingError),
    /// No member ever had this ID.
    #[error("node {node} is not known")]
    UnknownNode {
        /// The ID.
        node: NodeId,
    },
    /// The member was removed; its ID is never used again.
    #[error("node {node} was removed from the cluster")]
    NodeRemoved {
        /// The former member.
        node: NodeId,
    },
    /// Another member has this name.
    #[error("the name {name} belongs to node {node}")]
    NodeNameTaken {
        /// The name.
        name: String,
        /// Who has it.
        node: NodeId,
    },
    /// Another start of this member is the registered one.
    #[error("this start of node {node} is not the registered one{}", registered_boot(.registered))]
    StaleStart {
        /// The member.
        node: NodeId,
        /// The registered start's boot number; `None` if no start was ever registered.
        registered: Option<u64>,
    },
    /// The cluster was restored, and no leader has said yet when it began.
    #[error(
        "this cluster was restored and its leader has not said yet when it began: it waits until \
         its clock is past the backup's ({} ms) and agrees with the other voters'",
        .backup_wall_ms.0
    )]
    RestorationNotStamped {
        /// The wall clock of the backup's last entry.
        #[serde(with = "crate::foreign::wall_ms")]
        backup_wall_ms: WallMs,
    },
    /// A time that a restored cluster cannot have begun at.
    #[error("the restored cluster cannot begin at {} ms: it is {} to {} ms", .wall_ms.0, .from.0, .to.0)]
    StampOutOfRange {
        /// The time as said.
        #[serde(with = "crate::foreign::wall_ms")]
        wall_ms: WallMs,
        /// The earliest one.
        #[serde(with = "crate::foreign::wall_ms")]
        from: WallMs,
        /// The latest one.
        #[serde(with = "crate::foreign::wall_ms")]
        to: WallMs,
    },
    /// The cluster was founded, not restored.
    #[error("this cluster was not restored")]
    NotRestored,
    /// The members that were asked about a level are not those that there are.
    #[error(
        "the level was asked of the members of {asked}, and they changed{}",
        changed_at(.membership)
    )]
    MembershipChanged {
        /// The membership that was asked.
        asked: LogPosition,
        /// The applied one.
        membership: Option<LogPosition>,
    },
    /// Levels are raised one by one.
    #[error("the cluster is at level {level}, so it cannot be raised to {to}")]
    LevelOutOfOrder {
        /// The level as asked.
        to: Level,
        /// The cluster's.
        level: Level,
    },
}

impl FrameTable for ClusterRefusal {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0181), // NotFounded
        row(0x0182), // AlreadyFounded
        row(0x0183), // InvalidFounding
        row(0x0184), // UnknownNode
        row(0x0185), // NodeRemoved
        row(0x0186), // NodeNameTaken
        row(0x0187), // StaleStart
        row(0x0188), // RestorationNotStamped
        row(0x0189), // StampOutOfRange
        row(0x018a), // NotRestored
        row(0x018b), // MembershipChanged
        row(0x018c), // LevelOutOfOrder
    ];
}

/// Why a cluster cannot begin as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum FoundingError {
    /// No founder or too many.
    #[error("a cluster is founded by 1 to {MAX_FOUNDERS} members")]
    FounderCount,
    /// An ID out of range, or one ID or name for two founders.
    #[error("founders have different names and different IDs from 1 to {MAX_FOUNDER_ID}")]
    Founders,
    /// The window is 0 or too long.
    #[error("the window is 1 to {MAX_WINDOW_MS} ms")]
    Window,
    /// The skew is too large.
    #[error("the peers' skew is at most {MAX_PEER_SKEW_MS} ms")]
    PeerSkew,
}

fn registered_boot(registered: &Option<u64>) -> String {
    match registered {
        Some(boot) => format!(", boot {boot} is"),
        None => ": none is registered".to_owned(),
    }
}

fn changed_at(membership: &Option<LogPosition>) -> String {
    match membership {
        Some(membership) => format!(" at {membership}"),
        None => String::new(),
    }
}
