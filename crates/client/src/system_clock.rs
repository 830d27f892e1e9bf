//! The operating system's wall clock, for generators outside the cluster: the one reader of this
//! crate, as the node has one of its own.

use std::time::{SystemTime, UNIX_EPOCH};

use seqd_idgen::{WallClock, WallMs};

/// The operating system's wall clock. A reading before 1970 is 0, which is before the epoch of
/// every layout, so that nothing is minted.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "every other reader goes through this one"
    )]
    fn wall(&self) -> WallMs {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        WallMs(since.as_millis() as u64)
    }
}
