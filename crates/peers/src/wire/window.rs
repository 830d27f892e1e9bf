//! The bytes that one side may send before the other side has processed the earlier ones.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;

/// The bytes that a sender may still send on one connection.
pub(super) struct SendWindow {
    left: Semaphore,
    /// Bytes that were taken and not returned.
    under_way: AtomicU64,
}

impl SendWindow {
    pub(super) fn new(bytes: u32) -> Self {
        Self {
            left: Semaphore::new(bytes as usize),
            under_way: AtomicU64::new(0),
        }
    }

    /// Waits until `bytes` may be sent. They stay taken even if nothing is sent.
    pub(super) async fn take(&self, bytes: u32) {
        // The semaphore is never closed.
        if let Ok(permit) = self.left.acquire_many(bytes).await {
            permit.forget();
            self.under_way
                .fetch_add(u64::from(bytes), Ordering::Relaxed);
        }
    }

    /// Returns some of the taken bytes.
    pub(super) fn give(&self, bytes: u64) {
        self.under_way.fetch_sub(bytes, Ordering::Relaxed);
        self.add(bytes);
    }

    /// Accepts bytes that the other side returns. Returns `false` if it returns more than it
    /// received.
    pub(super) fn returned(&self, bytes: u64) -> bool {
        let subtract = |under_way: u64| under_way.checked_sub(bytes);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let is_sent = self.under_way.fetch_update(set, fetch, subtract).is_ok();
        if is_sent {
            self.add(bytes);
        }
        is_sent
    }

    /// Adds bytes, up to the size of the window.
    fn add(&self, bytes: u64) {
        self.left
            .add_permits(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
}
