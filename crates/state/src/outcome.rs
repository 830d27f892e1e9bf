//! What became of a command: one outcome for each, the same on every replica.

use seqd_idgen::{Tick, WallMs, WorkerId};
use serde::{Deserialize, Serialize};

use crate::codec::Versioned;
use crate::newtypes::{Epoch, GrantToken, LeaseId, NodeId, Revision};
use crate::refusal::Refusal;

/// What became of a command. Variants and fields are only ever appended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Nothing changed.
    Refused(Refusal),
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
    /// A worker was leased.
    LeaseTaken(LeaseGrant),
    /// The lease lives on.
    LeaseExtended {
        /// The recorded fence: the asked one, or the one before if that was higher.
        #[serde(with = "crate::foreign::tick")]
        fence: Tick,
    },
    /// The lease ended.
    LeaseReleased {
        /// The first tick that a later holder may mint.
        #[serde(with = "crate::foreign::tick")]
        fence: Tick,
    },
    /// The sequence exists.
    SequenceCreated {
        /// Whether this command made it; `false` if an equal one was there.
        created: bool,
        /// The revision of its definition.
        revision: Revision,
        /// Its epoch.
        epoch: Epoch,
    },
    /// The sequence is gone.
    SequenceDeleted {
        /// Its epoch after that: granted ranges of a lower one are void.
        epoch: Epoch,
    },
    /// A range was granted.
    SegmentGranted(SegmentGrant),
    /// The unused end of a run was taken back.
    TailReturned {
        /// The next index that will be granted.
        next_index: u64,
        /// How many indices came back.
        returned: u64,
    },
    /// The sequence moved forward, or stays where it is.
    Advanced {
        /// The next value that will be granted.
        next: i64,
        /// Its index.
        next_index: u64,
        /// The sequence's epoch after that: granted ranges of a lower one are void.
        epoch: Epoch,
    },
    /// What became of each request, in their order.
    StrictNext(Vec<Result<NextGrant, Refusal>>),
    /// It is known when the restored cluster began.
    RestorationStamped {
        /// The time, by this command or by the one before it.
        #[serde(with = "crate::foreign::wall_ms")]
        wall_ms: WallMs,
    },
}

/// A worker lease: the ticks from `from_tick` up to, but without, `fence` are the holder's alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseGrant {
    /// The layout.
    pub layout: String,
    /// The worker, datacenter bits included.
    #[serde(with = "crate::foreign::worker_id")]
    pub worker: WorkerId,
    /// The lease, for extends and the release.
    pub lease: LeaseId,
    /// The first tick that may be minted.
    #[serde(with = "crate::foreign::tick")]
    pub from_tick: Tick,
    /// The first tick that may not.
    #[serde(with = "crate::foreign::tick")]
    pub fence: Tick,
}

/// A granted range of a segment sequence. It lies within one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentGrant {
    /// The grant's token: proves the run at the next refill and at a return.
    pub token: GrantToken,
    /// The sequence's epoch: the range is void once the record has another one.
    pub epoch: Epoch,
    /// The first index of the run that this range is the end of.
    pub run_start: u64,
    /// The first index of the range.
    pub first_index: u64,
    /// How many indices: as many as asked, or fewer where the pass ends.
    pub count: u64,
    /// The value at the first index.
    pub first: i64,
    /// The value at the last index.
    pub last: i64,
    /// The distance from one value to the next.
    pub increment: i64,
}

/// The values given to one strict request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextGrant {
    /// The first index.
    pub first_index: u64,
    /// How many values, over all ranges.
    pub count: u64,
    /// The distance from one value to the next within a range.
    pub increment: i64,
    /// The values: one range, or several if a cycling sequence began again.
    pub ranges: Vec<ValueRange>,
}

/// Values at one distance from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueRange {
    /// The first value.
    pub first: i64,
    /// The last value; below the first where the sequence descends.
    pub last: i64,
    /// How many values.
    pub count: u64,
}

/// The outcomes of one entry, as bytes for those who wait on another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes(
    /// One for each command, in their order.
    pub Vec<Outcome>,
);

impl Versioned for Outcomes {
    const KIND: u8 = 2;
    const VERSION: u8 = 1;
    /// Larger than an entry: a strict request may be answered with several ranges.
    const MAX_BYTES: usize = 64 << 20;
}
