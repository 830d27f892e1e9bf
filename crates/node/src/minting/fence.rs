//! The fence that is requested for a clock reading.

use seqd_idgen::{Layout, Tick, TickError, WallMs};

use super::MintError;

/// The fence of a window of `window_ms` milliseconds that begins at `now`.
pub(crate) fn fence_from(layout: &Layout, now: WallMs, window_ms: u64) -> Result<Tick, MintError> {
    match layout.tick_at(now) {
        Ok(_) => {}
        Err(TickError::BeforeEpoch) => return Err(MintError::BeforeEpoch),
        Err(TickError::TimeFull) => {
            return Err(MintError::LayoutFull {
                since: layout.exhausted_at(),
            });
        }
    }
    Ok(layout.fence_at(WallMs(now.0.saturating_add(window_ms))))
}
