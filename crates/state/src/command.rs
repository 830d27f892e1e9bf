//! What can be asked of the replicated state.
//!
//! A command carries everything that `apply` needs; the time comes with its entry. What `apply`
//! does with a known command never changes: another meaning is another command. Variants and
//! fields are only ever appended, since they are read back from logs of older versions.

use seqd_idgen::{Tick, WallMs, WorkerId};
use serde::{Deserialize, Serialize};

use crate::newtypes::{GrantToken, LeaseId, NodeId, Revision, SequenceName};
use crate::sequences::SequenceDefinition;
use crate::cluster::settings::Found;

/// The most requests in one [`Command::StrictNext`].
///
/// It is the most that one round gathers: with 128-byte names they are under a megabyte, which is
/// one message to a peer, and they apply in about a millisecond.
pub const MAX_REQUESTS_PER_STRICT_NEXT: usize = 4096;

/// The most values in one strict request: as many as the HTTP interface hands out at once.
pub const MAX_STRICT_COUNT: u64 = 1_000_000;

/// The most indices in one segment grant.
///
/// No buffer needs more, and a client that asks for too much cannot take a noticeable part of a
/// 64-bit sequence with it: 2^63 values are nine billion such grants.
pub const MAX_GRANT_SIZE: u64 = 1_000_000_000;

/// One change of the replicated state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
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
    /// Asks for a worker that nobody else can mint with.
    TakeLease(TakeLease),
    /// Raises the fence of a lease and keeps it live.
    ExtendLease {
        /// The worker's layout.
        layout: String,
        /// The worker, datacenter bits included.
        #[serde(with = "crate::foreign::worker_id")]
        worker: WorkerId,
        /// The lease that is extended.
        lease: LeaseId,
        /// The first tick that may not be minted. A lower one than recorded changes nothing.
        #[serde(with = "crate::foreign::tick")]
        fence: Tick,
    },
    /// Ends a lease.
    ReleaseLease {
        /// The worker's layout.
        layout: String,
        /// The worker, datacenter bits included.
        #[serde(with = "crate::foreign::worker_id")]
        worker: WorkerId,
        /// The lease that is released.
        lease: LeaseId,
        /// The last tick that was minted, from a generator that is closed. Without it the fence
        /// stays where it is.
        #[serde(with = "crate::foreign::option_tick")]
        last_tick: Option<Tick>,
    },
    /// Makes a sequence, or says that an equal one exists.
    CreateSequence {
        /// Its name.
        name: SequenceName,
        /// What it counts, and how it is served.
        definition: SequenceDefinition,
    },
    /// Ends a sequence. Its definition and mark stay, for a sequence of the same name.
    DeleteSequence {
        /// Its name.
        name: SequenceName,
        /// Refused unless the definition still has this revision.
        if_revision: Option<Revision>,
    },
    /// Takes a range of a segment sequence.
    GrantSegment {
        /// The sequence.
        name: SequenceName,
        /// How many indices. Fewer are granted where a pass ends.
        size: u64,
        /// The latest token that the asker holds: the range then extends its run.
        after: Option<GrantToken>,
    },
    /// Gives the unused end of a run back.
    ReturnTail {
        /// The sequence.
        name: SequenceName,
        /// The run's latest token.
        token: GrantToken,
        /// The first index that was not and will not be used.
        first_unused: u64,
    },
    /// Moves a sequence forward.
    Advance {
        /// The sequence.
        name: SequenceName,
        /// The next value is the first at or beyond this one.
        to: i64,
    },
    /// Takes values of strict sequences, each request for itself.
    StrictNext {
        /// The requests, in the order in which they are served.
        requests: Vec<NextRequest>,
    },
    /// Says when a restored cluster began, once: its first leader's clock is known to be right.
    StampRestoration {
        /// The leader's wall clock.
        #[serde(with = "crate::foreign::wall_ms")]
        wall_ms: WallMs,
    },
}

/// What a joining node is called and where it is found. See [`Command::AllocateNodeId`].
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

/// Who asks for a worker, of which layout, and until when. See [`Command::TakeLease`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeLease {
    /// The layout's name.
    pub layout: String,
    /// Who will mint. A later lease of the same owner prefers the same worker.
    pub owner: String,
    /// The member that asks for itself; `None` for an external generator.
    pub node: Option<NodeId>,
    /// The boot number of that member's start; 0 and without meaning for an external generator.
    pub boot: u64,
    /// The first tick that may not be minted.
    #[serde(with = "crate::foreign::tick")]
    pub fence: Tick,
    /// Only workers of this datacenter. `None` is any worker.
    pub datacenter: Option<u32>,
}

/// One request of a [`Command::StrictNext`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextRequest {
    /// The sequence.
    pub name: SequenceName,
    /// How many values: all of them or none.
    pub count: u64,
}
