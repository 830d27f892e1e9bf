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

    /// Gives back some of what was taken.
    pub(super) fn give(&self, bytes: u64) {
        self.under_way.fetch_sub(bytes, Ordering::Relaxed);
        self.add(bytes);
    }

    /// Takes in what the other side returns; `false` where that is more than it was sent.
    pub(super) fn returned(&self, bytes: u64) -> bool {
        let subtract = |under_way: u64| under_way.checked_sub(bytes);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let is_sent = self.under_way.fetch_update(set, fetch, subtract).is_ok();
        if is_sent {
            self.add(bytes);
        }
        is_sent
    }

    /// At most what a window has.
    fn add(&self, bytes: u64) {
        self.left
            .add_permits(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
}
