//! The options of a lock.

use std::time::Duration;

use super::error::LockError;

/// The options for acquiring and keeping a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockOptions {
    /// The owner, for display: a host, pod or service name of 1 to 128 printable ASCII characters.
    pub owner: String,
    /// The duration of the hold without a renewal, 100 ms to 24 h, 30 s by default. It is renewed
    /// when two thirds remain. If the holder dies without releasing it, others wait for up to the
    /// whole duration.
    pub ttl: Duration,
    /// The longest wait for the lock. `None`, the default, waits without a limit. After every ten
    /// minutes the request takes a new place in the queue.
    pub wait: Option<Duration>,
    /// The number of simultaneous holders, 1 to 1024, 1 by default. All concurrent users of a lock
    /// must use the same number.
    pub permits: u32,
    /// If `true`, the hold is shared with other shared holds only. `false` by default.
    pub shared: bool,
    /// The time after the hold expires during which the lock is not granted again, up to 60 s, zero
    /// by default.
    pub lock_delay: Duration,
}

impl LockOptions {
    /// Returns the defaults for this owner.
    #[must_use]
    pub fn of_owner(owner: impl Into<String>) -> Self {
        Self {
            owner: owner.into(),
            ttl: Duration::from_secs(30),
            wait: None,
            permits: 1,
            shared: false,
            lock_delay: Duration::ZERO,
        }
    }

    /// Rejects a `ttl` that the keeper could not maintain. The cluster checks the other options.
    pub(super) fn check(&self) -> Result<(), LockError> {
        const LEAST: Duration = Duration::from_millis(100);
        const MOST: Duration = Duration::from_secs(24 * 60 * 60);
        if (LEAST..=MOST).contains(&self.ttl) {
            return Ok(());
        }
        let detail = format!("the ttl must be {LEAST:?} to {MOST:?}, not {:?}", self.ttl);
        Err(LockError::Options(detail))
    }
}
