//! Worker leases.

use serde::{Deserialize, Serialize};

use crate::number_text::{self, lenient};
use crate::request::Request;

/// One worker and the latest lease on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(with = "number_text")]
    pub lease: u64,
    /// The first tick of the lease.
    #[serde(with = "number_text")]
    pub from_tick: u64,
    /// The first tick after the lease.
    #[serde(with = "number_text")]
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
        /// Items on a page.
        limit: u32 as "lenient",
        /// `next_cursor` of the page before.
        cursor: String,
    }
}
