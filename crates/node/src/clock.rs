//! The operating system's wall clock: the only place that reads it.

use std::time::{SystemTime, UNIX_EPOCH};

use seqd_idgen::{WallClock, WallMs};

#[derive(Clone, Copy, Debug, Default)]
pub struct OsClock;

impl WallClock for OsClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "every other reader goes through this one"
    )]
    fn wall(&self) -> WallMs {
        // A clock before 1970 reads as 0: before every layout's epoch, so nothing is minted.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        WallMs(since.as_millis() as u64)
    }
}
