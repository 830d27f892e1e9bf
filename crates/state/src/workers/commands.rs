//! Commands, outcomes and refusals of worker leases.

use seqd_idgen::{Tick, WallMs, WorkerId};
use serde::{Deserialize, Serialize};

use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::newtypes::{LeaseId, NodeId};
use crate::tenant::Tenant;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum WorkerCommand {
    TakeLease(TakeLease),
    /// Raises the fence of a lease and keeps the lease live.
    ExtendLease {
        layout: String,
        #[serde(with = "crate::foreign::WorkerIdDef")]
        worker: WorkerId,
        lease: LeaseId,
        /// The first tick that may not be minted. The recorded fence is never lowered.
        #[serde(with = "crate::foreign::TickDef")]
        fence: Tick,
    },
    ReleaseLease {
        layout: String,
        #[serde(with = "crate::foreign::WorkerIdDef")]
        worker: WorkerId,
        lease: LeaseId,
        /// The last minted tick, from a closed generator. Without it the fence does not change.
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeLease {
    pub layout: String,
    /// The tenant to which the lease is charged.
    pub tenant: Tenant,
    /// A later lease of the same owner prefers the same worker.
    pub owner: String,
    /// `None` for an external generator.
    pub node: Option<NodeId>,
    /// The boot number of that member's start; ignored for an external generator.
    pub boot: u64,
    /// The first tick that may not be minted.
    #[serde(with = "crate::foreign::TickDef")]
    pub fence: Tick,
    /// `None` for a worker of any datacenter.
    pub datacenter: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerOutcome {
    LeaseTaken(LeaseGrant),
    LeaseExtended {
        /// The requested fence, or the recorded one if that is higher.
        #[serde(with = "crate::foreign::TickDef")]
        fence: Tick,
    },
    LeaseReleased {
        /// The first tick that a later holder may mint.
        #[serde(with = "crate::foreign::TickDef")]
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

/// A worker lease: only its holder may mint the ticks from `from_tick` up to, but excluding,
/// `fence`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseGrant {
    pub layout: String,
    #[serde(with = "crate::foreign::WorkerIdDef")]
    pub worker: WorkerId,
    pub lease: LeaseId,
    #[serde(with = "crate::foreign::TickDef")]
    pub from_tick: Tick,
    #[serde(with = "crate::foreign::TickDef")]
    pub fence: Tick,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub lease: LeaseId,
    pub owner: String,
    pub node: Option<NodeId>,
    #[serde(with = "crate::foreign::TickDef")]
    pub from_tick: Tick,
    #[serde(with = "crate::foreign::TickDef")]
    pub fence: Tick,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum WorkerRefusal {
    #[error("there is no layout {layout}")]
    UnknownLayout { layout: String },
    #[error(
        "layout {layout} has {datacenters} datacenters, so there is no datacenter {datacenter}"
    )]
    UnknownDatacenter {
        layout: String,
        datacenter: u32,
        datacenters: u32,
    },
    #[error(
        "the leader's clock ({} ms) is before the epoch of layout {layout} ({epoch_ms} ms)",
        .wall_ms.0
    )]
    BeforeLayoutEpoch {
        layout: String,
        /// The layout's epoch, in Unix milliseconds.
        epoch_ms: u64,
        #[serde(with = "crate::foreign::WallMsDef")]
        wall_ms: WallMs,
    },
    #[error(
        "the time field of layout {layout} has been full since {} ms; its IDs can only be decoded",
        .since.0
    )]
    LayoutExhausted {
        layout: String,
        #[serde(with = "crate::foreign::WallMsDef")]
        since: WallMs,
    },
    #[error(
        "no worker of layout {layout} is free{}; one may be free in {retry_after_ms} ms",
        kept_back(*.reserved)
    )]
    WorkersExhausted {
        layout: String,
        datacenter: Option<u32>,
        retry_after_ms: u64,
        /// The number of workers that are reserved for the nodes; 0 if all workers are taken.
        reserved: u32,
    },
    #[error(
        "fence {asked} is above the limit {limit}: the caller's clock runs ahead of the leader's"
    )]
    FenceTooFar {
        #[serde(with = "crate::foreign::TickDef")]
        asked: Tick,
        #[serde(with = "crate::foreign::TickDef")]
        limit: Tick,
    },
    #[error("fence {asked} leaves no tick to mint from {from_tick}: the caller's clock is behind")]
    FenceTooLow {
        #[serde(with = "crate::foreign::TickDef")]
        asked: Tick,
        #[serde(with = "crate::foreign::TickDef")]
        from_tick: Tick,
    },
    #[error(
        "lease {lease} does not hold worker {} of layout {layout}{}",
        .worker.0,
        held_by(.holder)
    )]
    LeaseLost {
        layout: String,
        #[serde(with = "crate::foreign::WorkerIdDef")]
        worker: WorkerId,
        lease: LeaseId,
        holder: Option<Box<Holder>>,
    },
    #[error("last tick {last_tick} is outside the lease's window from {from_tick} to {fence}")]
    ReleaseOutsideWindow {
        #[serde(with = "crate::foreign::TickDef")]
        last_tick: Tick,
        #[serde(with = "crate::foreign::TickDef")]
        from_tick: Tick,
        #[serde(with = "crate::foreign::TickDef")]
        fence: Tick,
    },
    #[error(
        "this cluster was restored: windows of layout {layout} begin in {retry_after_ms} ms, \
         after all windows that were granted earlier"
    )]
    WindowsBeginLater {
        layout: String,
        #[serde(with = "crate::foreign::WallMsDef")]
        until: WallMs,
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

fn kept_back(reserved: u32) -> String {
    match reserved {
        0 => String::new(),
        reserved => format!(" for clients, because {reserved} are reserved for the nodes"),
    }
}

fn held_by(holder: &Option<Box<Holder>>) -> String {
    match holder {
        Some(holder) => format!("; lease {} of {} does", holder.lease, holder.owner),
        None => "; it was released, has ended or was never taken".to_owned(),
    }
}
