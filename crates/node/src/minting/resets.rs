//! Resets: on an operator's order, a node discards its windows and its mark that are ahead of the
//! clock.
//!
//! If all clocks were ahead for a while, each worker's fence and this node's mark are in the
//! future, and nothing is minted until the clocks reach them. A reset closes the generators of
//! these windows and discards the mark, and the keepers lease other workers. The fences remain: no
//! reset of any node lets a tick below a fence be minted again.

use std::sync::atomic::Ordering;

use seqd_guards::is_out;
use seqd_idgen::{Layout, WallMs};

use super::Minters;
use super::last_tick::LastTick;
use crate::replica::peek;

/// Added to the reach of a window, because a fence is one tick after the end of its window.
const LONGEST_TICK_MS: u64 = 1000;

impl Minters {
    pub(crate) fn obeyed_reset(&self) -> u64 {
        self.obeyed_reset.load(Ordering::Relaxed)
    }

    /// Takes over the state that the earlier processes left.
    pub(crate) fn take_over(&self, before: LastTick) {
        self.obeyed_reset
            .store(before.obeyed_reset, Ordering::Relaxed);
        if let Some(mark) = before.mark {
            self.used(mark.last_minted);
        }
    }

    /// Records the start of the last tick that any generator of this node has used.
    fn used(&self, last: WallMs) {
        self.keeper.clock.used(last);
    }

    /// Obeys the latest reset of this node if it has not been obeyed. A reset counts as obeyed only
    /// when a pass finds nothing ahead, because a generator may have minted between the check and
    /// its close.
    pub(crate) fn obey_reset(&self) {
        let Some(number) = self.ordered() else {
            return;
        };
        let clock = &self.keeper.clock;
        // The pass waits for a clock that a majority agrees with. A clock that is itself ahead
        // would find nothing ahead of it, and the peers' last measurements may precede a
        // correction.
        let Some(now) = clock.agreed_time() else {
            return;
        };
        let mut limit = self.reach(self.default().layout(), now);
        let mut is_ahead = false;
        for minter in self.all() {
            let reach = self.reach(minter.layout(), now);
            limit = limit.max(reach);
            for seat in minter.all_seats() {
                let window = seat.window();
                if window.is_none_or(|window| window.ends <= reach) && !is_out!(ResetAhead) {
                    continue;
                }
                if seat.close().is_some() {
                    is_ahead = true;
                    let layout = minter.layout().name();
                    let worker = window.map(|window| window.worker.0);
                    tracing::warn!(layout, worker, "a reset gave up the worker");
                    seat.wake.notify_one();
                }
            }
        }
        let limit = if is_out!(ResetAhead) {
            WallMs(0)
        } else {
            limit
        };
        if clock.forget_past(limit) {
            is_ahead = true;
            tracing::warn!("a reset discarded the mark that was ahead of the clock");
        }
        if !is_ahead {
            self.obeyed_reset.store(number, Ordering::Relaxed);
        }
    }

    /// The number of the latest reset of this node, if it has not been obeyed.
    fn ordered(&self) -> Option<u64> {
        let replica = self.keeper.replica.as_ref();
        let (node, _) = replica.started()?;
        let number = peek(replica, |state| state.reset_of(node)).flatten()?;
        (number > self.obeyed_reset()).then_some(number)
    }

    /// The latest time to which a window of `layout` may reach at `now`. Windows within it end by
    /// themselves.
    fn reach(&self, layout: &Layout, now: WallMs) -> WallMs {
        let agreed = peek(self.keeper.replica.as_ref(), |state| {
            let settings = state.settings();
            settings.map(|settings| settings.fence_reach_ms(layout))
        });
        let reach_ms = agreed.flatten().unwrap_or(self.keeper.window_ms);
        WallMs(now.0.saturating_add(reach_ms + LONGEST_TICK_MS))
    }
}
