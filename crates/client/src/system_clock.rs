//! The wall clock of the operating system, for generators outside the cluster. This is the only
//! reader in this crate; the node has its own.

use std::time::{SystemTime, UNIX_EPOCH};

use seqd_idgen::{WallClock, WallMs};

/// The wall clock of the operating system. A reading before 1970 is 0, which precedes the epoch of
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
