//! The wall clock of a generator against its monotonic clock: whether a reading may be minted with.
//!
//! There are no other clocks to ask, so a jump ahead is trusted once it has been steady. What mints
//! compares a reading with two bounds; a reading outside of them, and the keeper's regular ones, go
//! through the guard. Uniqueness rests on none of it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use seqd_idgen::{ClockGuard, ClockPolicy, ClockVerdict, Line, Standing, WallClock, WallMs};
use tokio::time::Instant;

pub(super) struct ClockWatch {
    clock: Arc<dyn WallClock>,
    guard: Mutex<ClockGuard>,
    /// What the monotonic clock counts from.
    since: Instant,
    /// Lines after this one are judged by the guard one by one, in milliseconds.
    last_line: AtomicI64,
    /// When the last tick began that a closed generator has used, in milliseconds.
    last_used: AtomicU64,
}

impl ClockWatch {
    pub(super) fn new(clock: Arc<dyn WallClock>, policy: ClockPolicy) -> Self {
        Self {
            clock,
            guard: Mutex::new(ClockGuard::new(policy, None)),
            since: Instant::now(),
            // Nothing is before it until the first judgement.
            last_line: AtomicI64::new(i64::MIN),
            last_used: AtomicU64::new(0),
        }
    }

    pub(super) fn wall(&self) -> WallMs {
        self.clock.wall()
    }

    /// Whether the generator in force may be asked with this reading; it judges its own rollbacks.
    pub(super) fn judge_for_minting(&self, now: WallMs) -> ClockVerdict {
        let line = Line::of(now, self.since.elapsed(), 0).ms;
        let is_near = line <= self.last_line.load(Ordering::Relaxed);
        if is_near && now.0 >= self.last_used.load(Ordering::Relaxed) {
            return ClockVerdict::Good;
        }
        self.judge(now)
    }

    /// Judges a reading and learns from it.
    pub(super) fn judge(&self, now: WallMs) -> ClockVerdict {
        let last_used = Some(self.last_used.load(Ordering::Relaxed)).filter(|last| *last > 0);
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = self.since.elapsed();
        let verdict = guard.observe(now, elapsed, last_used.map(WallMs), Standing::Unknown);
        let last_line = guard.last_line_ms().unwrap_or(i64::MIN);
        self.last_line.store(last_line, Ordering::Relaxed);
        verdict
    }

    /// Records when the last tick began that a generator has used, which is closed.
    pub(super) fn used(&self, last: WallMs) {
        self.last_used.fetch_max(last.0, Ordering::Relaxed);
    }
}
