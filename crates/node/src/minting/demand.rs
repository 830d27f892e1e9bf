//! Decides when a node leases another worker: if the IDs of all its workers were used up during ten
//! milliseconds within a tenth of a second.
//!
//! A single large batch uses up one or two ticks and leases nothing. A lease costs a log entry and
//! a worker that other nodes could use, so a burst of a few milliseconds waits instead. If a tick
//! is ten milliseconds or longer, one full tick is enough, because the wait for the next is long.

use std::time::Duration;

use seqd_net::Lock;
use tokio::time::Instant;

/// The period in which full ticks are counted.
const PERIOD: Duration = Duration::from_millis(100);

/// If this many milliseconds per period are full ticks, the node leases another worker.
const FULL_MS: u64 = 10;

#[derive(Debug, Default)]
pub(super) struct Demand(Lock<Option<FullTicks>>);

#[derive(Debug)]
struct FullTicks {
    since: Instant,
    full_ms: u64,
    last_tick: u64,
}

impl Demand {
    /// Records a tick whose IDs are used up at all workers. Returns whether another worker is
    /// needed; if so, the count starts again, so that the new lease has a period to take effect.
    pub(super) fn note(&self, tick: u64, tick_ms: u64) -> bool {
        let now = Instant::now();
        let mut place = self.0.lock();
        let counted = match place.as_mut() {
            Some(counted) if now.duration_since(counted.since) <= PERIOD => {
                if counted.last_tick != tick {
                    counted.last_tick = tick;
                    counted.full_ms += tick_ms;
                }
                counted
            }
            _ => place.insert(FullTicks {
                since: now,
                full_ms: tick_ms,
                last_tick: tick,
            }),
        };
        let is_needed = counted.full_ms >= FULL_MS;
        if is_needed {
            *place = None;
        }
        is_needed
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ten_full_milliseconds_of_a_hundred_need_another_worker() {
        let demand = Demand::default();
        // The same tick counts once.
        let noted: Vec<bool> = (0..10)
            .flat_map(|tick| [tick, tick])
            .collect::<Vec<u64>>()
            .into_iter()
            .map(|tick| demand.note(tick, 1))
            .collect();
        assert_eq!(noted.iter().position(|is_needed| *is_needed), Some(18));
    }

    #[tokio::test(start_paused = true)]
    async fn ticks_that_are_full_now_and_then_need_none_and_one_long_tick_does() {
        let demand = Demand::default();
        for tick in 0..1000 {
            assert!(!demand.note(tick, 1));
            advance(Duration::from_millis(12)).await;
        }
        assert!(demand.note(1, 10));
        assert!(demand.note(1, 1000));
    }
}
