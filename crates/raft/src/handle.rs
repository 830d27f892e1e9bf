//! The types of consensus that the rest of seqd uses, without any type of openraft or sled.
//!
//! Any node's handle accepts any proposal. A proposal that needs the leader is forwarded
//! internally, in groups, with the caller's deadline. An error shows whether the proposal may have
//! taken effect.

use std::collections::{BTreeMap, BTreeSet};
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

/// The input of a replica's start. The caller binds the listener.
pub struct Options {
    /// The folder of this node; created if missing.
    pub data_dir: PathBuf,
    /// The disk that holds `data_dir`.
    pub disk: Arc<dyn Disk>,
    pub listener: Box<dyn Listen>,
    /// Carries this node's messages to its peers: [`crate::peer_transport`], except in simulations.
    pub transport: Arc<dyn Transport>,
    pub settings: Settings,
}

/// A node's configuration, and the properties of its program.
pub struct Settings {
    /// Unique in the cluster.
    pub name: String,
    /// This node's own peer address, `HOST:PORT`, at which the other nodes reach it.
    pub peer_advertise: String,
    /// True if the peer address was configured; otherwise it is derived from the listening address
    /// and the host's name.
    pub peer_is_configured: bool,
    /// This node's client address, `http://HOST:PORT`, as shown to people.
    pub http_advertise: String,
    /// The configured peers, including this node if it is a founder.
    pub peers: Vec<Peer>,
    /// Time for which an empty node listens for members of an existing cluster before it founds a
    /// cluster or takes part in the founding.
    pub found_after: Duration,
    /// Time between heartbeats.
    pub heartbeat: Duration,
    /// Shortest and longest election timeout.
    pub election: (Duration, Duration),
    /// Entries between two snapshots.
    pub snapshot_every: u64,
    /// Length of a minting window, milliseconds. Replicated at the bootstrap.
    pub window_ms: u64,
    /// Largest tolerated difference between the clocks of two peers, milliseconds. Replicated at
    /// the bootstrap.
    pub max_peer_skew_ms: u64,
    pub version: String,
    /// One tenant's share of the requests that may wait at this node.
    pub tenant_share: Share,
    /// The levels that the program supports: [`LevelRange::OWN`], except in tests.
    pub levels: LevelRange,
    pub clock: Arc<dyn WallClock>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub name: String,
    /// The peer address, `HOST:PORT`.
    pub addr: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The node has not joined a cluster yet, or no peer has admitted it yet.
    Waiting {
        /// The reason, with a reason for each peer.
        reason: String,
    },
    Running,
    /// The node has stopped; the reason has the exit code.
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
    /// The request was proposed, and its outcome is not known.
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
    /// Certainly not done: the proposal exceeds the limits of an entry. A retry fails again.
    #[error("{detail}")]
    TooLarge { detail: String },
    /// Certainly not done: the waiting proposals have too many bytes.
    #[error("proposals of {limit_bytes} bytes are waiting, which is the maximum")]
    OverloadedBytes { limit_bytes: usize },
    /// Certainly not done: a disk has only its reserve left.
    #[error("{detail}")]
    NoRoom { detail: String },
}

impl ProposeError {
    /// The error if there is no leader with a quorum.
    pub(crate) fn no_leader() -> Self {
        Self::NoQuorum {
            detail: "this cluster has no leader with a quorum".to_owned(),
        }
    }

    /// The error if the request was proposed and its outcome is not known.
    pub(crate) fn unknown(detail: impl Into<String>) -> Self {
        Self::OutcomeUnknown {
            detail: detail.into(),
        }
    }
}

/// A change of the members.
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
    /// Gives a member new addresses. An address that is `None` does not change.
    Update {
        name: String,
        peer: Option<String>,
        http: Option<String>,
    },
    /// Begins or ends the drain of a member, which performs it itself.
    Drain {
        name: String,
        drains: bool,
    },
    /// Makes a voter a learner.
    Demote {
        name: String,
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
    #[error("another membership change is in progress")]
    InProgress,
    #[error("{detail}")]
    LearnerLagging { detail: String },
    /// The change does not fit: a new node that is not empty or has another name, a leader without
    /// a vote, or one member too many.
    #[error("{detail}")]
    Unfit { detail: String },
    /// Fails like any other proposal.
    #[error(transparent)]
    Propose(#[from] ProposeError),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Leader,
    #[default]
    Follower,
    /// A member that replicates the log without a vote.
    Learner,
}

/// The part of a node's pings that reports its own state; sent to its peers once a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The first worker that the node holds, by layout.
    pub workers: BTreeMap<String, u32>,
    /// The further workers that the node holds, by layout, if there are any.
    pub more_workers: BTreeMap<String, Vec<u32>>,
    /// The number of IDs that the node minted within the last second.
    pub ids_per_second: u64,
    /// True if the node serves every operation.
    pub ready: bool,
    /// True if the node is being drained.
    pub draining: bool,
}

/// The largest number of committed entries that a ready node may still have to apply. A healthy
/// node has a few groups in flight. A thousand entries are less than a second of full load, which
/// bounds the wait of a linearizable read at that node.
pub const MAY_BE_BEHIND: u64 = 1_000;

impl Status {
    /// The number of committed entries that this node has yet to apply.
    #[must_use]
    pub fn behind(&self) -> u64 {
        self.committed.saturating_sub(self.applied)
    }

    /// The member that this node follows, or this node if it leads.
    #[must_use]
    pub fn leader_member(&self) -> Option<&MemberStatus> {
        let mut members = self.members.iter();
        members.find(|member| Some(member.id) == self.leader)
    }
}

#[derive(Clone, Debug, Default)]
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
    /// True if a quorum was in contact with the leader, and the leader with this node, within an
    /// election timeout.
    pub has_quorum_contact: bool,
    /// True if this node leads, or the leader recently answered a ping of this node. Contact is
    /// proved by the leader's messages, which may arrive although this node cannot reach the
    /// leader.
    pub reaches_leader: bool,
    /// Time since the last such contact, or since the start; `None` while there is contact.
    pub out_of_contact_for: Option<Duration>,
    /// True if this node's disk hangs. The node does not lead meanwhile.
    pub disk_hangs: bool,
    /// True if this node's disk has only its reserve left. The node refuses clients' writes
    /// meanwhile.
    pub disk_low: bool,
    /// True if this node has applied all entries that were committed when it started, and has at
    /// most [`MAY_BE_BEHIND`] committed entries to apply.
    pub caught_up: bool,
    /// Index of the last applied entry of this node; 0 before the first.
    pub applied: u64,
    /// Commit index, as the leader last sent it to this node.
    pub committed: u64,
    /// The last entry that was purged from the log. A follower that lacks it receives a snapshot.
    pub purged: u64,
    pub digest: Digest,
    pub last_log: u64,
    /// The number of voters. While a change of voters is under way, this and `reachable` count the
    /// former or the new voters, whichever can lose the fewest.
    pub voters: usize,
    /// The number of voters that this node reaches, including itself.
    pub reachable: usize,
    /// The former and the new voters of a change of voters that is under way. It needs a majority
    /// of both.
    pub voter_change: Option<[BTreeSet<NodeId>; 2]>,
    /// All members, by name.
    pub members: Vec<MemberStatus>,
    /// The number of leader changes that this node has observed.
    pub leader_changes: u64,
    pub proposals_pending: usize,
    /// The cluster's level that this node has applied.
    pub level: u32,
    /// The agreement of a majority of the voters' clocks; `None` if this node is the only voter and
    /// there is no other clock to compare.
    pub agreement: Option<Agreement>,
    /// The comparison of each member's clock with the majority.
    pub clocks: BTreeMap<NodeId, MemberClock>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberStatus {
    pub name: String,
    pub id: NodeId,
    pub role: Role,
    pub http: String,
    pub peer: String,
    /// True if the member answered within the last three seconds.
    pub reachable: bool,
    /// The index of the member's last applied entry, as last received.
    pub applied: Option<u64>,
    /// The number of committed entries that the member then had yet to apply, by its own count.
    pub behind: Option<u64>,
    /// The member's last report.
    pub report: Option<NodeReport>,
    /// The version of the member's binary, as last received.
    pub version: Option<String>,
    /// The member's wall clock minus this node's, milliseconds; `None` while unknown.
    pub clock_offset_ms: Option<i64>,
    /// The levels that the member's program supports, as last received.
    pub levels: Option<LevelRange>,
}

/// The link between this node and a member, in both directions.
#[derive(Clone, Debug)]
pub struct LinkStatus {
    pub name: String,
    /// Time until the member answered this node's last ping; `None` if no recent ping was answered.
    pub round_trip: Option<Duration>,
    /// The error of this node's latest ping, if it failed.
    pub error: Option<String>,
    /// True if a ping of the member arrived recently.
    pub receives: bool,
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
    /// Free bytes of the file system, as of the last check; `reserve_bytes` of them are the
    /// reserve.
    pub free_bytes: u64,
    pub reserve_bytes: u64,
    /// The size of the file system, as of the last check; `None` before the first.
    pub total_bytes: Option<u64>,
    /// Age of the log write in flight, seconds; 0 if there is none.
    pub stalled_seconds: f64,
    /// The number of times that the checkpoint was set aside and rebuilt since the start.
    pub checkpoint_rebuilds: u64,
    /// Damaged snapshots that were set aside, at the start or later.
    pub snapshots_set_aside: u64,
    /// Torn tails of the log that were cut off at the start.
    pub torn_tails: u64,
    /// Cumulative counts of commit durations: (upper bound in seconds, count).
    pub commit_buckets: Vec<(f64, u64)>,
    /// Commits measured and the sum of their durations, seconds.
    pub commits: (u64, f64),
}
