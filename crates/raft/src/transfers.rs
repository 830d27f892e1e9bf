//! The snapshots that were sent to other nodes. The log after them is kept for their receivers, and
//! the transfer of an incomplete snapshot is continued even if a newer one exists.

use std::collections::BTreeMap;
use std::sync::Arc;

use seqd_net::Lock;

/// The snapshot that is being sent to a node, or that it has received but not caught up from.
struct Transfer {
    index: u64,
    has_arrived: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Transfers(Arc<Lock<BTreeMap<u64, Transfer>>>);

impl Transfers {
    pub(crate) fn begin(&self, target: u64, index: u64) {
        let has_arrived = false;
        self.0
            .lock()
            .insert(target, Transfer { index, has_arrived });
    }

    pub(crate) fn arrived(&self, target: u64) {
        if let Some(transfer) = self.0.lock().get_mut(&target) {
            transfer.has_arrived = true;
        }
    }

    /// The index of the snapshot that is being, or was, sent to a node.
    pub(crate) fn to(&self, target: u64) -> Option<u64> {
        self.0.lock().get(&target).map(|transfer| transfer.index)
    }

    /// The index of the oldest snapshot that has not arrived.
    pub(crate) fn unfinished(&self) -> Option<u64> {
        let transfers = self.0.lock();
        let unfinished = transfers.values().filter(|transfer| !transfer.has_arrived);
        unfinished.map(|transfer| transfer.index).min()
    }

    /// Removes the transfers to all other nodes.
    pub(crate) fn retain(&self, targets: &[u64]) {
        self.0.lock().retain(|target, _| targets.contains(target));
    }
}
