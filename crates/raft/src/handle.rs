//! What the rest of seqd sees of consensus: one handle, and no openraft or sled type in it.
//!
//! Any node's handle takes any proposal: what needs the leader is forwarded inside, in groups,
//! with the caller's deadline. A refusal says whether the proposal may have taken effect.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use seqd_disk::Disk;
use seqd_state::idgen::WallClock;
use seqd_state::{Digest, NodeId};
pub(crate) use seqd_store::stop::{Stop, StopReason};
use serde::{Deserialize, Serialize};

use crate::levels::LevelRange;
use crate::net::Listen;

/// Everything that a replica needs to start. The listener is bound by the caller.
pub struct Options {
    /// This node's name, unique in the cluster.
    pub name: String,
    /// The folder that this node owns; created if missing.
    pub data_dir: PathBuf,
    /// The bound listener of the peers' port.
    pub listener: Box<dyn Listen>,
    /// This node's own peer address, `HOST:PORT`, as the others reach it.
    pub peer_advertise: String,
    /// This node's client address, `http://HOST:PORT`, as shown to people.
    pub http_advertise: String,
    /// The configured peers, this node among them if it is a founder.
    pub peers: Vec<Peer>,
    /// Time between heartbeats; also the time that one append may take.
    pub heartbeat: Duration,
    /// Shortest and longest election timeout.
    pub election: (Duration, Duration),
    /// Entries between two snapshots.
    pub snapshot_every: u64,
    /// Length of a minting window, milliseconds. Replicated at founding.
    pub window_ms: u64,
    /// Largest tolerated difference of two peers' clocks, milliseconds. Replicated at founding.
    pub max_peer_skew_ms: u64,
    /// The version of this binary, told to peers.
    pub version: String,
    /// The levels that the program speaks: [`LevelRange::OWN`], except in tests.
    pub levels: LevelRange,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// The disk that `data_dir` is on.
    pub disk: Arc<dyn Disk>,
}

/// One configured peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The peer's name.
    pub name: String,
    /// Its peer address, `HOST:PORT`.
    pub addr: String,
}

/// Where a node is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has not joined a cluster yet, or has not shown itself to a peer yet.
    Waiting {
        /// Why, with a reason for each peer.
        reason: String,
    },
    /// Its Raft runs.
    Running,
    /// It is over; the reason says with what exit code.
    Stopped(Stop),
}

impl Phase {
    /// Whether the node's Raft runs.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running)
    }
}

/// Why a proposal or a linearizable read was not answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ProposeError {
    /// Certainly not done: no leader, or the leader has no quorum.
    #[error("{detail}")]
    NoQuorum {
        /// What is missing.
        detail: String,
    },
    /// It was proposed, and its fate is not known.
    #[error("{detail}")]
    OutcomeUnknown {
        /// What happened.
        detail: String,
    },
    /// Certainly not done: a queue is full.
    #[error("too many proposals are waiting ({limit})")]
    Overloaded {
        /// The limit that was met.
        limit: usize,
    },
    /// Certainly not done: this node is stopping.
    #[error("this node is stopping")]
    Stopping,
    /// Certainly not done: this node was removed from the cluster.
    #[error("this node was removed from the cluster")]
    NodeRemoved,
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

/// Why a change of membership was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum MemberError {
    /// No member has that name.
    #[error("no member is named {name}; members: {known}")]
    NotFound {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The name or the address is taken.
    #[error("{detail}")]
    AlreadyExists {
        /// By whom.
        detail: String,
    },
    /// The change would leave the cluster without a quorum.
    #[error("{detail}")]
    Unsafe {
        /// What would be lost.
        detail: String,
    },
    /// Another change is being carried out.
    #[error("another change of membership is being carried out")]
    InProgress,
    /// The learner has not caught up.
    #[error("{detail}")]
    LearnerLagging {
        /// By how much.
        detail: String,
    },
    /// The change does not fit: a new node that is not an empty one of that name, a leader that
    /// has no vote, one member too many.
    #[error("{detail}")]
    Unfit {
        /// What it answered, and what to do.
        detail: String,
    },
    /// As for any proposal.
    #[error(transparent)]
    Propose(#[from] ProposeError),
}

/// The part that a node plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// It leads.
    Leader,
    /// It votes and follows.
    Follower,
    /// It follows without a vote.
    Learner,
}

/// What a node tells its peers about itself once a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The workers that it holds, by layout.
    pub workers: BTreeMap<String, u32>,
    /// Whether it serves everything.
    pub ready: bool,
    /// Whether it is being drained.
    pub draining: bool,
}

/// The cluster as one node sees it.
#[derive(Clone, Debug)]
pub struct Status {
    /// The cluster's ID; `None` before founding.
    pub cluster_id: Option<String>,
    /// This node's name.
    pub name: String,
    /// This node's ID; `None` before it has one.
    pub node_id: Option<NodeId>,
    /// This node's part.
    pub role: Role,
    /// The current term.
    pub term: u64,
    /// The leader that this node follows.
    pub leader: Option<NodeId>,
    /// Whether this node hears its leader, or, leading, is heard by a quorum, within an election.
    pub has_quorum_contact: bool,
    /// Whether this node's disk hangs: it does not lead meanwhile.
    pub disk_hangs: bool,
    /// Whether this node has applied all that was committed when it started.
    pub caught_up: bool,
    /// Index of the last applied entry of this node; 0 before any.
    pub applied: u64,
    /// Digest of this node's state at `applied`.
    pub digest: Digest,
    /// Index of this node's last log entry.
    pub last_log: u64,
    /// The voters, and how many of them this node reaches, itself included.
    pub voters: usize,
    /// See `voters`.
    pub reachable: usize,
    /// All members, by name.
    pub members: Vec<MemberStatus>,
    /// Times the leader changed, seen by this node.
    pub leader_changes: u64,
    /// Proposals that wait on this node.
    pub proposals_pending: usize,
    /// The cluster's level, as far as this node has applied it.
    pub level: u32,
}

/// One member as this node sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its name.
    pub name: String,
    /// Its ID.
    pub id: NodeId,
    /// Its part.
    pub role: Role,
    /// Its client address.
    pub http: String,
    /// Its peer address.
    pub peer: String,
    /// Whether it answered within the last three seconds.
    pub reachable: bool,
    /// The index that it has applied, as last heard.
    pub applied: Option<u64>,
    /// What it last reported of itself.
    pub report: Option<Report>,
    /// Its binary's version, as last heard.
    pub version: Option<String>,
    /// Its wall clock minus this node's, milliseconds; `None` while unknown.
    pub clock_offset_ms: Option<i64>,
    /// The levels that its program speaks, as last heard.
    pub levels: Option<LevelRange>,
}

/// Counters and gauges of the log and the checkpoints, for metrics.
#[derive(Clone, Debug, Default)]
pub struct StorageStats {
    /// `fdatasync` calls of the log.
    pub fsyncs: u64,
    /// Sum of their durations, seconds.
    pub fsync_seconds: f64,
    /// Cumulative counts of `fdatasync` durations: (upper bound in seconds, count).
    pub fsync_buckets: Vec<(f64, u64)>,
    /// Bytes of the log on disk.
    pub wal_bytes: u64,
    /// Bytes of kept snapshots.
    pub snapshot_bytes: u64,
    /// Bytes of the checkpoint folder.
    pub checkpoint_bytes: u64,
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
