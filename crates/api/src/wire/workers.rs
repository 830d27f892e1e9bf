//! Worker leases.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::{Decimal, Flag, Lenient, OptionalDecimal};
use crate::wire::Layout;

/// One worker and the latest lease on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// The layout of the worker.
    pub layout: String,
    /// The worker within its datacenter.
    pub worker: u32,
    /// The datacenter. Null if the layout has none.
    pub datacenter: Option<u32>,
    /// The whole worker field, including the datacenter bits.
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
    /// True if the lease is live: neither released nor expired.
    #[serde(default)]
    pub live: bool,
}

requests! {
    /// A selection of workers.
    WorkersQuery {
        /// Only workers of this layout.
        layout: String,
        /// Only owners with this prefix.
        prefix: String,
        /// If true, lists the ended leases whose workers were granted again, in the order of their
        /// grants, instead of the latest leases.
        past: bool as "Flag",
        /// Items on a page: 1 to 1000, 100 by default.
        limit: u32 as "Lenient",
        /// The `next_cursor` of the previous page.
        cursor: String,
    }
}

requests! {
    /// A request of a generator outside the cluster for a worker.
    LeaseRequest {
        /// The layout. `default` if omitted.
        layout: String,
        /// The caller: a host, pod or service name of 1 to 255 bytes without control characters.
        /// After a clean stop, an owner with the same name receives the same worker again if it is
        /// free.
        owner: String,
        /// The datacenter, for a layout that has datacenters. Any datacenter by default.
        datacenter: u32 as "Lenient",
    }

    /// A request for a later fence.
    RenewRequest {
        /// The owner, as in the request for the lease.
        owner: String,
        /// The lease, from the response to the lease request.
        lease: u128 as "OptionalDecimal",
    }

    /// The return of a lease.
    ReleaseRequest {
        /// The owner, as in the request for the lease.
        owner: String,
        /// The lease, from the response to the lease request.
        lease: u128 as "OptionalDecimal",
        /// The last tick in which the stopped generator minted an ID, or the tick before
        /// `from_tick` if it minted none. Without it, the worker stays leased until its fence.
        last_tick: u64 as "OptionalDecimal",
    }
}

/// A worker leased to the caller. Only the caller may mint IDs with it, in the ticks from
/// `from_tick` up to, but excluding, `fence_tick`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    /// The worker within its datacenter.
    pub worker: u32,
    /// The datacenter. Null if the layout has none.
    pub datacenter: Option<u32>,
    /// The whole worker field of an ID, including the datacenter bits.
    pub id: u32,
    /// The owner.
    pub owner: String,
    /// The secret name of the lease, an integer of 128 bits. The caller renews and releases the
    /// lease with it.
    #[serde(with = "Decimal")]
    pub lease: u128,
    /// The first tick of the caller.
    #[serde(with = "Decimal")]
    pub from_tick: u64,
    /// The first tick after the window of the caller.
    #[serde(with = "Decimal")]
    pub fence_tick: u64,
    /// The start of the fence's tick, RFC 3339.
    pub fence_time: String,
    /// The time until the caller should renew the lease, in milliseconds: a third of the window.
    pub renew_after_ms: u64,
    /// The layout of the IDs.
    pub layout: Layout,
}

/// A returned lease.
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
