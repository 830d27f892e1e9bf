//! The operating system's wall clock: the only place that reads it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seqd_idgen::{WallClock, WallMs};

#[derive(Clone, Copy, Debug, Default)]
pub struct OsClock;

impl WallClock for OsClock {
    fn wall(&self) -> WallMs {
        WallMs(since_1970().as_millis() as u64)
    }

    fn until(&self, at: WallMs) -> Option<Duration> {
        Some(Duration::from_millis(at.0).saturating_sub(since_1970()))
    }
}

/// A clock before 1970 reads as 0, which is before every layout's epoch, so nothing is minted.
#[expect(
    clippy::disallowed_methods,
    reason = "every other reader goes through this one"
)]
fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
