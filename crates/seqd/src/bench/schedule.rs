//! The times of an open loop: requests are due at a fixed rate, independent of the responses.
//!
//! The latency of a request counts from the time at which it was due, so a stall of the server
//! counts for every request that it delayed (coordinated omission: Gil Tene). A thread of its own
//! gives the start signals, because its sleep is more exact than the runtime's timers of 1 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

const NANOS: u128 = 1_000_000_000;

/// The longest sleep of the thread, so that it ends soon after a halt.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Requests at a fixed rate per second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    per_second: u64,
}

impl Schedule {
    pub(crate) const fn new(per_second: u64) -> Self {
        Self { per_second }
    }

    /// The time from the start of the round at which the request with this index is due.
    pub(crate) fn due(self, index: u64) -> Duration {
        let nanos = (u128::from(index) * NANOS).div_ceil(u128::from(self.per_second.max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The number of requests that are due before or at this time.
    pub(crate) fn due_by(self, elapsed: Duration) -> u64 {
        let due = elapsed.as_nanos() * u128::from(self.per_second) / NANOS + 1;
        u64::try_from(due).unwrap_or(u64::MAX)
    }

    /// The number of requests that are due before the end of a run.
    pub(crate) fn within(self, length: Duration) -> u64 {
        let last = length.checked_sub(Duration::from_nanos(1));
        last.map_or(0, |last| self.due_by(last))
    }
}

/// The thread that adds a permit for each request that is due. It ends when this value is dropped.
pub(crate) struct Pacer {
    pub(crate) permits: Arc<Semaphore>,
    is_over: Arc<AtomicBool>,
}

impl Pacer {
    /// Starts the thread for `total` requests. With `halt` set, it closes the permits.
    pub(crate) fn start(
        schedule: Schedule,
        begin: Instant,
        total: u64,
        halt: Arc<AtomicBool>,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let (given, over) = (Arc::clone(&permits), Arc::clone(&is_over));
        thread::spawn(move || pace(schedule, begin, total, &given, [&over, &halt]));
        Self { permits, is_over }
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn pace(
    schedule: Schedule,
    begin: Instant,
    total: u64,
    permits: &Semaphore,
    ends: [&AtomicBool; 2],
) {
    let mut given = 0;
    loop {
        if ends.iter().any(|end| end.load(Ordering::Relaxed)) {
            permits.close();
            return;
        }
        let due = schedule.due_by(begin.elapsed()).min(total);
        // Permits above the semaphore's limit are added after a later sleep.
        let room = Semaphore::MAX_PERMITS - permits.available_permits();
        let more = usize::try_from(due - given).unwrap_or(usize::MAX).min(room);
        permits.add_permits(more);
        given += more as u64;
        let next = if given < total {
            schedule.due(given).saturating_sub(begin.elapsed())
        } else {
            LONGEST_SLEEP
        };
        thread::sleep(next.min(LONGEST_SLEEP));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rate_is_spread_evenly() {
        let schedule = Schedule::new(4);
        let due: Vec<u128> = (0..5).map(|at| schedule.due(at).as_millis()).collect();
        assert_eq!(due, [0, 250, 500, 750, 1000]);
        assert_eq!(schedule.within(Duration::from_secs(1)), 4);
        assert_eq!(schedule.within(Duration::from_millis(1001)), 5);
        assert_eq!(schedule.within(Duration::ZERO), 0);
    }

    proptest! {
        #[test]
        fn each_request_is_due_exactly_from_its_time_on(rate in 1_u64..2_000_000, at: u32) {
            let (schedule, at) = (Schedule::new(rate), u64::from(at));
            let due = schedule.due(at);
            prop_assert!(schedule.due_by(due) > at);
            if let Some(before) = due.checked_sub(Duration::from_nanos(1)) {
                prop_assert!(schedule.due_by(before) <= at);
            }
            prop_assert!(schedule.within(due) <= at);
            prop_assert!(schedule.within(due + Duration::from_nanos(1)) > at);
        }
    }

    #[test]
    fn a_halt_closes_the_permits() {
        let halt = Arc::new(AtomicBool::new(true));
        let pacer = Pacer::start(Schedule::new(1), Instant::now(), 10, halt);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async { assert!(pacer.permits.acquire().await.is_err()) });
    }
}
