//! The health of a node's disk: its space, and whether a write hangs.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::space::DiskSpace;

#[derive(Debug, Default)]
pub(crate) struct DiskHealth {
    pub(crate) space: DiskSpace,
    hangs: AtomicBool,
    silent: AtomicBool,
}

impl DiskHealth {
    /// Returns whether a write has been in flight for too long.
    pub(crate) fn hangs(&self) -> bool {
        self.hangs.load(Ordering::Acquire)
    }

    /// Returns whether this node must send nothing as a leader or a candidate.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Acquire)
    }

    pub(crate) fn set_hangs(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Release);
    }

    pub(crate) fn set_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::Release);
    }
}
