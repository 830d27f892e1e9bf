//! Worker leases.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::{Decimal, Flag, Lenient, OptionalDecimal};
use crate::wire::Layout;

/// One worker and the latest lease on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// The layout that the worker belongs to.
    pub layout: String,
    /// The worker within its datacenter.
    pub worker: u32,
    /// The datacenter; null where the layout has none.
    pub datacenter: Option<u32>,
    /// The whole field, datacenter bits included.
    pub id: u32,
    /// The owner of the lease.
    pub owner: String,
    /// The node, if a node of the cluster is the owner.
    #[serde(default)]
    pub node: Option<String>,
    /// The lease.
    #[serde(with = "Decimal")]
    pub lease: u64,
    /// The first tick of the lease.
    #[serde(with = "Decimal")]
    pub from_tick: u64,
    /// The first tick after the lease.
    #[serde(with = "Decimal")]
    pub fence_tick: u64,
    /// The start of the fence's tick, RFC 3339.
    pub fence_time: String,
    /// Whether the lease is live: not released and not run out.
    #[serde(default)]
    pub live: bool,
}

requests! {
    /// Which workers are wanted.
    WorkersQuery {
        /// Only workers of this layout.
        layout: String,
        /// Only owners that begin with this.
        prefix: String,
        /// The leases that are over and whose workers were granted again, in place of the latest
        /// ones: in the order in which they were granted.
        past: bool as "Flag",
        /// Items on a page.
        limit: u32 as "Lenient",
        /// `next_cursor` of the page before.
        cursor: String,
    }
}

requests! {
    /// A worker that a generator outside the cluster asks for.
    LeaseRequest {
        /// The layout; `default` by default.
        layout: String,
        /// Who asks: a host, pod or service name, 1 to 255 bytes without control characters. After
        /// a clean stop the same name gets the same worker again, where that is free.
        owner: String,
        /// The datacenter, for a layout that has some; any by default.
        datacenter: u32 as "Lenient",
    }

    /// A later fence for a lease.
    RenewRequest {
        /// The owner, as in the request for the lease.
        owner: String,
        /// The lease, as it was answered.
        lease: u128 as "OptionalDecimal",
    }

    /// A lease that comes back.
    ReleaseRequest {
        /// The owner, as in the request for the lease.
        owner: String,
        /// The lease, as it was answered.
        lease: u128 as "OptionalDecimal",
        /// The last tick in which an ID was made, one before `from_tick` if there was none, by a
        /// generator that makes no more. Without it the worker stays taken up to its fence.
        last_tick: u64 as "OptionalDecimal",
    }
}

/// A worker that belongs to the caller, who alone may make IDs with it in the ticks from `from_tick`
/// up to, but without, `fence_tick`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    /// The worker within its datacenter.
    pub worker: u32,
    /// The datacenter; null where the layout has none.
    pub datacenter: Option<u32>,
    /// The whole field, datacenter bits included: what goes into an ID.
    pub id: u32,
    /// Who holds it.
    pub owner: String,
    /// Its name, with which it is renewed and released: an integer of 128 bits that nobody else can
    /// guess.
    #[serde(with = "Decimal")]
    pub lease: u128,
    /// The first tick of the caller.
    #[serde(with = "Decimal")]
    pub from_tick: u64,
    /// The first tick that is not the caller's any more.
    #[serde(with = "Decimal")]
    pub fence_tick: u64,
    /// The start of the fence's tick, RFC 3339.
    pub fence_time: String,
    /// When to renew it, in milliseconds from now: at a third of its window.
    pub renew_after_ms: u64,
    /// The layout of the IDs.
    pub layout: Layout,
}

/// A lease that came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Released {
    /// The layout.
    pub layout: String,
    /// The whole worker field.
    pub id: u32,
    /// The first tick that a later holder may use.
    #[serde(with = "Decimal")]
    pub fence_tick: u64,
    /// The start of that tick, RFC 3339.
    pub fence_time: String,
}
