//! What can be asked of worker leases, and what becomes of it.

use seqd_idgen::{Tick, WallMs, WorkerId};
use serde::{Deserialize, Serialize};

use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::newtypes::{LeaseId, NodeId};

/// A change of the worker leases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum WorkerCommand {
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
}

impl FrameTable for WorkerCommand {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0201), // TakeLease
        row(0x0202), // ExtendLease
        row(0x0203), // ReleaseLease
    ];
}

/// Who asks for a worker, of which layout, and until when.
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

/// What became of a [`WorkerCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerOutcome {
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
}

impl FrameTable for WorkerOutcome {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0241), // LeaseTaken
        row(0x0242), // LeaseExtended
        row(0x0243), // LeaseReleased
    ];
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

/// Who holds a worker, for answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The lease.
    pub lease: LeaseId,
    /// Who took it.
    pub owner: String,
    /// The member that took it for itself.
    pub node: Option<NodeId>,
    /// The first tick that the holder may mint.
    #[serde(with = "crate::foreign::tick")]
    pub from_tick: Tick,
    /// The first tick that it may not.
    #[serde(with = "crate::foreign::tick")]
    pub fence: Tick,
}

/// Why a [`WorkerCommand`] changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum WorkerRefusal {
    /// There is no such layout.
    #[error("there is no layout {layout}")]
    UnknownLayout {
        /// The name as asked.
        layout: String,
    },
    /// The layout has no such datacenter, or none at all.
    #[error(
        "layout {layout} has {datacenters} datacenters, so there is no datacenter {datacenter}"
    )]
    UnknownDatacenter {
        /// The layout.
        layout: String,
        /// The datacenter as asked.
        datacenter: u32,
        /// How many datacenters the layout has.
        datacenters: u32,
    },
    /// The leader's clock is before the layout's epoch.
    #[error(
        "the leader's clock ({} ms) is before the epoch of layout {layout} ({epoch_ms} ms)",
        .wall_ms.0
    )]
    BeforeLayoutEpoch {
        /// The layout.
        layout: String,
        /// The layout's epoch, in Unix milliseconds.
        epoch_ms: u64,
        /// The entry's wall clock.
        #[serde(with = "crate::foreign::wall_ms")]
        wall_ms: WallMs,
    },
    /// The layout's time field is full.
    #[error("the time field of layout {layout} is full since {} ms; it decodes only", .since.0)]
    LayoutExhausted {
        /// The layout.
        layout: String,
        /// When it became full.
        #[serde(with = "crate::foreign::wall_ms")]
        since: WallMs,
    },
    /// Every worker is leased, or its fence lies ahead.
    #[error("no worker of layout {layout} is free; the next may be in {retry_after_ms} ms")]
    WorkersExhausted {
        /// The layout.
        layout: String,
        /// The datacenter that was asked for.
        datacenter: Option<u32>,
        /// How long until the first worker is free, if nobody extends its lease.
        retry_after_ms: u64,
    },
    /// The asked fence is further ahead than a sound clock can ask.
    #[error(
        "fence {asked} is above the limit {limit}: the asker's clock runs ahead of the leader's"
    )]
    FenceTooFar {
        /// The fence as asked.
        #[serde(with = "crate::foreign::tick")]
        asked: Tick,
        /// The highest one allowed.
        #[serde(with = "crate::foreign::tick")]
        limit: Tick,
    },
    /// The asked fence leaves no tick to mint.
    #[error("fence {asked} leaves no tick to mint from {from_tick}: the asker's clock is behind")]
    FenceTooLow {
        /// The fence as asked.
        #[serde(with = "crate::foreign::tick")]
        asked: Tick,
        /// The first tick that the lease could have minted.
        #[serde(with = "crate::foreign::tick")]
        from_tick: Tick,
    },
    /// The lease is not the worker's latest, or it was released.
    #[error(
        "lease {lease} does not hold worker {} of layout {layout}{}",
        .worker.0,
        held_by(.holder)
    )]
    LeaseLost {
        /// The layout.
        layout: String,
        /// The worker.
        #[serde(with = "crate::foreign::worker_id")]
        worker: WorkerId,
        /// The lease as asked.
        lease: LeaseId,
        /// Who holds the worker, if anyone does.
        holder: Option<Box<Holder>>,
    },
    /// The last tick of a release lies outside the lease's window.
    #[error("last tick {last_tick} is outside the lease's window from {from_tick} to {fence}")]
    ReleaseOutsideWindow {
        /// The last tick as said.
        #[serde(with = "crate::foreign::tick")]
        last_tick: Tick,
        /// The window's first tick.
        #[serde(with = "crate::foreign::tick")]
        from_tick: Tick,
        /// The first tick after the window.
        #[serde(with = "crate::foreign::tick")]
        fence: Tick,
    },
    /// The cluster was restored, and windows begin only past all that were granted before.
    #[error(
        "this cluster was restored: windows of layout {layout} begin in {retry_after_ms} ms, past \
         all that were granted before"
    )]
    WindowsBeginLater {
        /// The layout.
        layout: String,
        /// When the first window begins.
        #[serde(with = "crate::foreign::wall_ms")]
        until: WallMs,
        /// How long that is from the entry's wall clock.
        retry_after_ms: u64,
    },
}

impl FrameTable for WorkerRefusal {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0281), // UnknownLayout
        row(0x0282), // UnknownDatacenter
        row(0x0283), // BeforeLayoutEpoch
        row(0x0284), // LayoutExhausted
        row(0x0285), // WorkersExhausted
        row(0x0286), // FenceTooFar
        row(0x0287), // FenceTooLow
        row(0x0288), // LeaseLost
        row(0x0289), // ReleaseOutsideWindow
        row(0x028a), // WindowsBeginLater
    ];
}

fn held_by(holder: &Option<Box<Holder>>) -> String {
    match holder {
        Some(holder) => format!("; lease {} of {} does", holder.lease, holder.owner),
        None => "; it was released or never taken".to_owned(),
    }
}
