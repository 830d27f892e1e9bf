//! The types of consensus that the rest of seqd uses: no type of openraft or sled is among them.
//!
//! Any node's handle takes any proposal: what needs the leader is forwarded inside, in groups,
//! with the caller's deadline. A refusal distinguishes whether the proposal may have taken effect.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use seqd_disk::Disk;
use seqd_net::Listen;
use seqd_peers::levels::LevelRange;
use seqd_peers::wire::transport::Transport;
use seqd_state::idgen::{Agreement, WallClock};
use seqd_state::{Digest, NodeId, Share};
pub(crate) use seqd_store::stop::{Stop, StopReason};
use serde::{Deserialize, Serialize};

use crate::clocks::MemberClock;

/// Everything that a replica needs to start. The listener is bound by the caller.
pub struct Options {
    /// The folder that this node owns; created if missing.
    pub data_dir: PathBuf,
    /// The disk that `data_dir` is on.
    pub disk: Arc<dyn Disk>,
    pub listener: Box<dyn Listen>,
    /// Carries this node's messages to its peers: [`crate::peer_transport`], except in simulations.
    pub transport: Arc<dyn Transport>,
    pub settings: Settings,
}

/// A node's configuration, and what its program is.
pub struct Settings {
    /// Unique in the cluster.
    pub name: String,
    /// This node's own peer address, `HOST:PORT`, as the others reach it.
    pub peer_advertise: String,
    /// Whether the peer address was configured; otherwise it is derived from the listening address
    /// and the host's name.
    pub peer_is_configured: bool,
    /// This node's client address, `http://HOST:PORT`, as shown to people.
    pub http_advertise: String,
    /// The configured peers, this node among them if it is a founder.
    pub peers: Vec<Peer>,
    /// Time between heartbeats.
    pub heartbeat: Duration,
    /// Shortest and longest election timeout.
    pub election: (Duration, Duration),
    /// Entries between two snapshots.
    pub snapshot_every: u64,
    /// Length of a minting window, milliseconds. Replicated at the bootstrap.
    pub window_ms: u64,
    /// Largest tolerated difference of two peers' clocks, milliseconds. Replicated at the
    /// bootstrap.
    pub max_peer_skew_ms: u64,
    pub version: String,
    /// The part of what may wait at this node that one tenant may hold.
    pub tenant_share: Share,
    /// The levels that the program supports: [`LevelRange::OWN`], except in tests.
    pub levels: LevelRange,
    pub clock: Arc<dyn WallClock>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub name: String,
    /// Its peer address, `HOST:PORT`.
    pub addr: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has not joined a cluster yet, or has not shown itself to a peer yet.
    Waiting {
        /// Why, with a reason for each peer.
        reason: String,
    },
    Running,
    /// It has ended; the reason has the exit code.
    Stopped(Stop),
}

impl Phase {
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ProposeError {
    /// Certainly not done: no leader, or the leader has no quorum.
    #[error("{detail}")]
    NoQuorum { detail: String },
    /// It was proposed, and its fate is not known.
    #[error("{detail}")]
    OutcomeUnknown { detail: String },
    /// Certainly not done: a queue is full.
    #[error("too many proposals are waiting ({limit})")]
    Overloaded { limit: usize },
    /// Certainly not done: this node is stopping.
    #[error("this node is stopping")]
    Stopping,
    /// Certainly not done: this node was removed from the cluster.
    #[error("this node was removed from the cluster")]
    NodeRemoved,
    /// Certainly not done: a command needs a higher level of the cluster.
    #[error("{detail}")]
    AboveLevel { detail: String },
    /// Certainly not done: more than one entry may have, however often it is repeated.
    #[error("{detail}")]
    TooLarge { detail: String },
    /// Certainly not done: what waits has too many bytes.
    #[error("proposals of {limit_bytes} bytes are waiting, which is the most")]
    OverloadedBytes { limit_bytes: usize },
    /// Certainly not done: only the reserve of a disk is left.
    #[error("{detail}")]
    NoRoom { detail: String },
}

impl ProposeError {
    /// There is no leader with a quorum.
    pub(crate) fn no_leader() -> Self {
        Self::NoQuorum {
            detail: "this cluster has no leader with a quorum".to_owned(),
        }
    }

    /// It was proposed, and its fate is not known.
    pub(crate) fn unknown(detail: impl Into<String>) -> Self {
        Self::OutcomeUnknown {
            detail: detail.into(),
        }
    }
}

/// A change that is to be tried out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ChangeOfMembers {
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
    /// Gives a member new addresses; those that are `None` stay as they are.
    Update {
        name: String,
        peer: Option<String>,
        http: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum MemberError {
    #[error("no member is named {name}; members: {known}")]
    NotFound { name: String, known: String },
    /// The name or the address is taken.
    #[error("{detail}")]
    AlreadyExists { detail: String },
    /// The change would leave the cluster without a quorum.
    #[error("{detail}")]
    Unsafe { detail: String },
    #[error("another change of membership is being carried out")]
    InProgress,
    #[error("{detail}")]
    LearnerLagging { detail: String },
    /// The change does not fit: a new node that is not an empty one of that name, a leader that
    /// has no vote, one member too many.
    #[error("{detail}")]
    Unfit { detail: String },
    /// As for any proposal.
    #[error(transparent)]
    Propose(#[from] ProposeError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Leader,
    Follower,
    /// It follows without a vote.
    Learner,
}

/// What a node sends its peers about itself once a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The first worker that it holds, by layout.
    pub workers: BTreeMap<String, u32>,
    /// The workers that it holds beyond the first, by layout, where there are any.
    pub more_workers: BTreeMap<String, Vec<u32>>,
    /// IDs that it minted within the last second.
    pub ids_per_second: u64,
    /// Whether it serves everything.
    pub ready: bool,
    /// Whether it is being drained.
    pub draining: bool,
}

/// The most committed entries that a node which serves everything has yet to apply. A healthy one
/// has a few of the groups that are on their way; a thousand are less than a second of full load,
/// so a linearizable read there waits no longer than that.
pub const MAY_BE_BEHIND: u64 = 1_000;

impl Status {
    /// How many committed entries this node has yet to apply.
    #[must_use]
    pub fn behind(&self) -> u64 {
        self.committed.saturating_sub(self.applied)
    }
}

#[derive(Clone, Debug)]
pub struct Status {
    /// The cluster's ID; `None` before the bootstrap.
    pub cluster_id: Option<String>,
    pub name: String,
    /// This node's ID; `None` before it has one.
    pub node_id: Option<NodeId>,
    pub role: Role,
    pub term: u64,
    /// The leader that this node follows.
    pub leader: Option<NodeId>,
    /// Whether its leader, or for a leader a quorum, was in touch within an election timeout.
    pub has_quorum_contact: bool,
    /// Whether this node's disk hangs: it does not lead meanwhile.
    pub disk_hangs: bool,
    /// Whether only the reserve of this node's disk is left: it refuses writes of clients meanwhile.
    pub disk_low: bool,
    /// Whether this node has applied all that was committed when it started, and is no further
    /// behind than [`MAY_BE_BEHIND`].
    pub caught_up: bool,
    /// Index of the last applied entry of this node; 0 before any.
    pub applied: u64,
    /// Index up to which entries are committed, as the leader last named it to this node.
    pub committed: u64,
    /// The last entry that the log has no longer: who lacks it is sent a snapshot.
    pub purged: u64,
    pub digest: Digest,
    pub last_log: u64,
    /// The voters, and how many of them this node reaches, itself included.
    pub voters: usize,
    /// See `voters`.
    pub reachable: usize,
    /// All members, by name.
    pub members: Vec<MemberStatus>,
    /// Times the leader changed, seen by this node.
    pub leader_changes: u64,
    pub proposals_pending: usize,
    /// The cluster's level, as far as this node has applied it.
    pub level: u32,
    /// Whether a majority of the voters' clocks agrees; `None` where this node is the only voter and has
    /// no other clock to ask.
    pub agreement: Option<Agreement>,
    /// How each member's clock compares with the majority.
    pub clocks: BTreeMap<NodeId, MemberClock>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberStatus {
    pub name: String,
    pub id: NodeId,
    pub role: Role,
    pub http: String,
    pub peer: String,
    /// Whether it answered within the last three seconds.
    pub reachable: bool,
    /// The index that it has applied, as last received.
    pub applied: Option<u64>,
    /// How many committed entries it had yet to apply then, as far as it knew.
    pub behind: Option<u64>,
    /// What it last reported of itself.
    pub report: Option<Report>,
    /// Its binary's version, as last received.
    pub version: Option<String>,
    /// Its wall clock minus this node's, milliseconds; `None` while unknown.
    pub clock_offset_ms: Option<i64>,
    /// The levels that its program supports, as last received.
    pub levels: Option<LevelRange>,
}

#[derive(Clone, Debug, Default)]
pub struct StorageStats {
    /// `fdatasync` calls of the log.
    pub fsyncs: u64,
    pub fsync_seconds: f64,
    /// Cumulative counts of `fdatasync` durations: (upper bound in seconds, count).
    pub fsync_buckets: Vec<(f64, u64)>,
    pub wal_bytes: u64,
    pub snapshot_bytes: u64,
    pub checkpoint_bytes: u64,
    /// Free bytes of the file system, and how many of them are the reserve, as of the last look.
    pub free_bytes: u64,
    pub reserve_bytes: u64,
    /// For how long the write of the log that is under way has been, seconds; 0 while none is.
    pub stalled_seconds: f64,
    /// Times that the checkpoint was set aside and rebuilt since the start.
    pub checkpoint_rebuilds: u64,
    /// Snapshots that were found damaged and set aside, at the start or since.
    pub snapshots_set_aside: u64,
    /// Torn tails of the log that were cut off at the start.
    pub torn_tails: u64,
    /// Cumulative counts of commit durations: (upper bound in seconds, count).
    pub commit_buckets: Vec<(f64, u64)>,
    /// Commits measured and the sum of their durations, seconds.
    pub commits: (u64, f64),
}
