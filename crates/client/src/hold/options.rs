//! How a lock is taken.

use std::time::Duration;

use super::error::LockError;

/// How a lock is taken and kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockOptions {
    /// Who takes it, for people to see: a host, pod or service name, 1 to 128 printable ASCII
    /// characters.
    pub owner: String,
    /// How long it is held without a renewal, 100 ms to 24 h; 30 s by default. It is renewed at a third
    /// of it, and what dies without a word keeps others waiting for the whole.
    pub ttl: Duration,
    /// How long to wait for it; `None`, the default, as long as it takes. After each ten minutes of
    /// waiting the place in the queue is a new one.
    pub wait: Option<Duration>,
    /// How many hold it at once, 1 to 1024; 1 by default. All who use a lock at a time name the same.
    pub permits: u32,
    /// Together with others that share it, and with nobody else; not by default.
    pub shared: bool,
    /// For how long nobody is granted the lock if this hold runs out, up to 60 s; zero by default.
    pub lock_delay: Duration,
}

impl LockOptions {
    /// The defaults, for this owner.
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

    /// Refuses what cannot be kept: the cluster checks the rest.
    pub(super) fn check(&self) -> Result<(), LockError> {
        const LEAST: Duration = Duration::from_millis(100);
        const MOST: Duration = Duration::from_secs(24 * 60 * 60);
        if (LEAST..=MOST).contains(&self.ttl) {
            return Ok(());
        }
        let detail = format!("a ttl is {LEAST:?} to {MOST:?}, and not {:?}", self.ttl);
        Err(LockError::Options(detail))
    }
}
