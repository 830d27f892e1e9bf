//! Commands, outcomes and refusals of the cluster itself.

use seqd_idgen::WallMs;
use serde::{Deserialize, Serialize};

use super::secret::SecretKey;
use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::level::{Level, LogPosition};
use crate::newtypes::NodeId;

/// The maximum number of founders: more voters than such a Raft group is designed for.
pub(crate) const MAX_FOUNDERS: usize = 16;

/// The highest ID of a founder. The counter starts above the founders' IDs, and this limit leaves
/// nearly all of its range.
pub(crate) const MAX_FOUNDER_ID: NodeId = NodeId(u32::MAX as u64);

/// The longest window: a day. A fence further ahead would keep a worker unavailable for longer than
/// is acceptable after a node has crashed.
pub(crate) const MAX_WINDOW_MS: u64 = 86_400_000;

/// The largest skew between peers' clocks: an hour. A fence may lie two skews above the window.
pub(crate) const MAX_PEER_SKEW_MS: u64 = 3_600_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ClusterCommand {
    /// Founds the cluster. The first command of a log; refused later unless it is equal.
    Found(Found),
    AllocateNodeId(AllocateNodeId),
    /// Registers the start of a node. Leases are granted only to the latest registered start.
    RegisterStart {
        node: NodeId,
        /// Incremented by each start.
        boot: u64,
        /// Random per start, to distinguish two processes with the same boot number.
        nonce: u64,
    },
    /// Marks a member as removed. Its ID is never reused; its leases expire.
    MarkRemoved {
        node: NodeId,
    },
    /// Records the start time of a restored cluster, once its first leader's clock is confirmed.
    StampRestoration {
        #[serde(with = "crate::foreign::WallMsDef")]
        wall_ms: WallMs,
    },
    /// Raises the level by one, to a level that every member supports.
    RaiseLevel {
        to: Level,
        membership: LogPosition,
    },
    /// Stores the secret, unless the cluster has one.
    KeepSecret {
        key: SecretKey,
    },
    /// Orders a member to give up the workers with which it minted ahead of the clock.
    ResetWorkers {
        node: NodeId,
    },
    /// Grants the leader timestamps up to a millisecond. Only a leader proposes it, under its own
    /// term.
    RaiseTimestamps {
        #[serde(with = "crate::foreign::WallMsDef")]
        upto: WallMs,
    },
    /// Returns the timestamps beyond a millisecond. Only a leader that no longer draws proposes it.
    ReturnTimestamps {
        /// The bound that this leader was granted.
        #[serde(with = "crate::foreign::WallMsDef")]
        granted: WallMs,
        #[serde(with = "crate::foreign::WallMsDef")]
        used: WallMs,
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
        row(0x0107), // KeepSecret
        row(0x0108), // ResetWorkers
        row(0x0109), // RaiseTimestamps
        row(0x010a), // ReturnTimestamps
    ];
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub cluster_id: String,
    /// The lifetime of a lease, and the distance by which its fence may be ahead, in milliseconds.
    pub window_ms: u64,
    /// The maximum difference between the clocks of two members, in milliseconds.
    pub max_peer_skew_ms: u64,
    pub founders: Vec<(NodeId, String)>,
}

/// Allocates the ID of a joining node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocateNodeId {
    pub name: String,
    pub peer: String,
    pub http: String,
    /// The nonce of the joining process: a repeated command with the same nonce gets the same ID.
    pub nonce: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterOutcome {
    /// Founded by this command or an equal earlier one.
    Founded,
    NodeIdAllocated {
        node: NodeId,
    },
    StartRegistered {
        node: NodeId,
        boot: u64,
    },
    MarkedRemoved {
        node: NodeId,
    },
    RestorationStamped {
        /// The time stamped by this command or by an earlier one.
        #[serde(with = "crate::foreign::WallMsDef")]
        wall_ms: WallMs,
    },
    LevelRaised {
        level: Level,
    },
    /// Stored by this command or an earlier one.
    SecretKept,
    WorkersReset {
        node: NodeId,
        /// The number of this reset, larger than that of any earlier reset.
        number: u64,
    },
    TimestampsBounded {
        /// The bound before this command: every timestamp up to it may have been issued.
        #[serde(with = "crate::foreign::WallMsDef")]
        before: WallMs,
        #[serde(with = "crate::foreign::WallMsDef")]
        upto: WallMs,
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
        row(0x0147), // SecretKept
        row(0x0148), // WorkersReset
        row(0x0149), // TimestampsBounded
    ];
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ClusterRefusal {
    #[error("the cluster is not founded yet")]
    NotFounded,
    #[error("the cluster {cluster_id} is already founded")]
    AlreadyFounded { cluster_id: String },
    #[error("{0}")]
    InvalidFounding(FoundingError),
    #[error("node {node} is not known")]
    UnknownNode { node: NodeId },
    #[error("node {node} was removed from the cluster")]
    NodeRemoved { node: NodeId },
    #[error("the name {name} belongs to node {node}")]
    NodeNameTaken { name: String, node: NodeId },
    #[error("this start of node {node} is not the registered one{}", registered_boot(.registered))]
    StaleStart {
        node: NodeId,
        /// The registered start's boot number, if there is one.
        registered: Option<u64>,
    },
    #[error(
        "this cluster was restored and its leader has not set the start time yet: the leader \
         waits until its clock is past the backup's time ({} ms) and agrees with the other \
         voters' clocks",
        .backup_wall_ms.0
    )]
    RestorationNotStamped {
        #[serde(with = "crate::foreign::WallMsDef")]
        backup_wall_ms: WallMs,
    },
    #[error("the restored cluster cannot begin at {} ms: allowed are {} to {} ms", .wall_ms.0, .from.0, .to.0)]
    StampOutOfRange {
        #[serde(with = "crate::foreign::WallMsDef")]
        wall_ms: WallMs,
        #[serde(with = "crate::foreign::WallMsDef")]
        from: WallMs,
        #[serde(with = "crate::foreign::WallMsDef")]
        to: WallMs,
    },
    #[error("this cluster was not restored")]
    NotRestored,
    #[error(
        "the levels were collected from the members of {asked}, but the members changed{}",
        changed_at(.membership)
    )]
    MembershipChanged {
        asked: LogPosition,
        membership: Option<LogPosition>,
    },
    #[error("the cluster is at level {level}, so it cannot be raised to {to}")]
    LevelOutOfOrder { to: Level, level: Level },
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum FoundingError {
    #[error("a cluster is founded by 1 to {MAX_FOUNDERS} members")]
    FounderCount,
    #[error("founders must have different names, and different IDs from 1 to {MAX_FOUNDER_ID}")]
    Founders,
    #[error("the window must be 1 to {MAX_WINDOW_MS} ms")]
    Window,
    #[error("the peers' skew must be at most {MAX_PEER_SKEW_MS} ms")]
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
