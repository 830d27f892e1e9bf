//! Compares the wall clock of a generator with its monotonic clock, and decides whether a reading
//! may be used for minting.
//!
//! There are no peer clocks to compare with, so a forward jump is trusted once the clock has been
//! steady. Minting compares a reading with two bounds. A reading outside these bounds, and the
//! regular readings of the keeper, are judged by the guard. Uniqueness does not depend on any of
//! this.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use seqd_idgen::{ClockGuard, ClockPolicy, ClockVerdict, Line, Standing, WallClock, WallMs};
use tokio::time::Instant;

pub(super) struct ClockWatch {
    clock: Arc<dyn WallClock>,
    guard: Mutex<ClockGuard>,
    /// The origin of the monotonic time.
    since: Instant,
    /// A reading whose line is above this one is judged by the guard. In milliseconds.
    last_line: AtomicI64,
    /// The start of the last tick that a closed generator used, in milliseconds.
    last_used: AtomicU64,
}

impl ClockWatch {
    pub(super) fn new(clock: Arc<dyn WallClock>, policy: ClockPolicy) -> Self {
        Self {
            clock,
            guard: Mutex::new(ClockGuard::new(policy, None)),
            since: Instant::now(),
            // The first reading is therefore always judged by the guard.
            last_line: AtomicI64::new(i64::MIN),
            last_used: AtomicU64::new(0),
        }
    }

    pub(super) fn wall(&self) -> WallMs {
        self.clock.wall()
    }

    /// Returns whether the current generator may mint with this reading. The generator judges its
    /// own rollbacks.
    pub(super) fn judge_for_minting(&self, now: WallMs) -> ClockVerdict {
        let line = Line::of(now, self.since.elapsed(), 0).ms;
        let is_near = line <= self.last_line.load(Ordering::Relaxed);
        if is_near && now.0 >= self.last_used.load(Ordering::Relaxed) {
            return ClockVerdict::Good;
        }
        self.judge(now)
    }

    /// Judges a reading and records it in the guard.
    pub(super) fn judge(&self, now: WallMs) -> ClockVerdict {
        let last_used = Some(self.last_used.load(Ordering::Relaxed)).filter(|last| *last > 0);
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = self.since.elapsed();
        let verdict = guard.observe(now, elapsed, last_used.map(WallMs), Standing::Unknown);
        let last_line = guard.last_line_ms().unwrap_or(i64::MIN);
        self.last_line.store(last_line, Ordering::Relaxed);
        verdict
    }

    /// Records the start of the last tick that a closed generator used.
    pub(super) fn used(&self, last: WallMs) {
        self.last_used.fetch_max(last.0, Ordering::Relaxed);
    }
}
