//! The leased workers of a layout, and the workers that clients can still lease.

use seqd_idgen::Layout;

use super::record::LeaseView;
use crate::newtypes::ClusterMs;
use crate::tenant::Tenant;

/// The maximum number of workers of a layout, or of one of its datacenters, that are ever leased.
/// Beyond it, only free workers are leased again. Each new lease examines all of them, which takes
/// a millisecond.
pub const MAX_WORKERS_KNOWN: usize = 1 << 14;

/// A layout is in use until this long after the last use of any of its leases, so that the warnings
/// about a layout without users end.
const IN_USE_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Returns the number of workers that are reserved for the nodes and the operator: an eighth, and
/// at least 3, so that each node of a typical cluster gets one. A layout of 4 to 7 workers reserves
/// 1, because 3 would leave hardly any for clients. A layout of 3 or fewer reserves none.
pub(crate) const fn reserve(workers: u32) -> u32 {
    match workers {
        0..4 => 0,
        4..8 => 1,
        8..24 => 3,
        workers => workers / 8,
    }
}

/// Returns the number of workers that have a common reserve: those of a datacenter, or of a layout
/// without datacenters.
pub(crate) fn group_size(layout: &Layout) -> u32 {
    let of_first = layout.workers_of_datacenter(0);
    of_first.map_or(layout.workers(), |(first, last)| last.0 - first.0 + 1)
}

/// A layout in use, with its workers at the applied cluster time.
#[derive(Debug, Clone)]
pub struct LayoutUse {
    pub layout: Layout,
    /// The number of workers with a live lease.
    pub assigned: u32,
    /// The number of workers that clients can still lease: without a live lease and not reserved
    /// for the nodes.
    pub free_for_clients: u32,
}

impl LayoutUse {
    /// The use of a layout. `leases` are the latest leases of its workers, in the order of the
    /// workers.
    pub(crate) fn of(layout: &Layout, leases: &[LeaseView<'_>]) -> Self {
        let size = group_size(layout);
        let usable = size.min(MAX_WORKERS_KNOWN as u32);
        let for_clients = usable - reserve(usable);
        let mut free = layout.workers() / size * for_clients;
        let mut assigned = 0;
        for group in leases.chunk_by(|one, next| one.worker.0 / size == next.worker.0 / size) {
            let live = || group.iter().filter(|lease| lease.live);
            let of_clients = live().filter(|lease| lease.record.tenant != Tenant::OPERATOR);
            let (taken, of_clients) = (live().count() as u32, of_clients.count() as u32);
            let left = for_clients
                .saturating_sub(of_clients)
                .min(usable.saturating_sub(taken));
            free -= for_clients - left;
            assigned += taken;
        }
        Self {
            layout: layout.clone(),
            assigned,
            free_for_clients: free,
        }
    }
}

impl LeaseView<'_> {
    /// Returns whether the lease makes its layout one in use.
    pub(crate) fn is_in_use(&self, now: ClusterMs) -> bool {
        self.live || now.0.saturating_sub(self.record.used_ms.0) < IN_USE_MS
    }
}
