//! Which snapshots were sent to whom: what follows them in the log is kept for their receivers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The index of the snapshot that a node is being sent, or was sent and has not caught up from.
#[derive(Clone, Default)]
pub(crate) struct Transfers(Arc<Mutex<BTreeMap<u64, u64>>>);

impl Transfers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, target: u64, index: u64) {
        self.lock().insert(target, index);
    }

    pub(crate) fn to(&self, target: u64) -> Option<u64> {
        self.lock().get(&target).copied()
    }

    /// Forgets those of other nodes than these.
    pub(crate) fn retain(&self, targets: &[u64]) {
        self.lock().retain(|target, _| targets.contains(target));
    }
}
