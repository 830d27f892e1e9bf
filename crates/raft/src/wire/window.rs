//! The bytes that one side may send before the other has taken what came earlier.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;

/// What a sender may still send on one connection.
pub(super) struct Window {
    left: Semaphore,
    /// Taken, and not given back.
    under_way: AtomicU64,
}

impl Window {
    pub(super) fn new(bytes: u32) -> Self {
        Self {
            left: Semaphore::new(bytes as usize),
            under_way: AtomicU64::new(0),
        }
    }

    /// Waits until so much may be sent. What is taken stays taken also if nothing is sent.
    pub(super) async fn take(&self, bytes: u32) {
        // The semaphore is never closed.
        if let Ok(permit) = self.left.acquire_many(bytes).await {
            permit.forget();
            self.under_way
                .fetch_add(u64::from(bytes), Ordering::Relaxed);
        }
    }

    /// Gives back; `false` where the other side returns more than it was sent.
    pub(super) fn give(&self, bytes: u64) -> bool {
        let subtract = |left: u64| left.checked_sub(bytes);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.under_way.fetch_update(set, fetch, subtract).is_err() {
            return false;
        }
        // At most what a window has.
        self.left
            .add_permits(usize::try_from(bytes).unwrap_or(usize::MAX));
        true
    }
}
