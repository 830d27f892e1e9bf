//! The node's one clock guard, shared: what the wall clock is worth at this moment.
//!
//! The request path asks nothing of it but one comparison: whether the clock stands before the
//! mark that the last start left. All else is judged by the keepers: in regular readings, and
//! before each fence that they ask for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use seqd_guards::is_out;
use seqd_idgen::{ClockGuard, ClockPolicy, ClockVerdict, StoredMark, WallClock, WallMs};
use tokio::time::Instant;

pub(crate) struct ClockWatch {
    clock: Arc<dyn WallClock>,
    guard: Mutex<ClockGuard>,
    started: Instant,
    /// Readings below this are judged by the guard one by one, in milliseconds.
    mark_ahead: AtomicU64,
    /// When the last tick began that any generator of this node has used, in milliseconds.
    last_used: AtomicU64,
    regressions: AtomicU64,
    is_behind: AtomicBool,
}

impl ClockWatch {
    /// Watches `clock`, which should have passed `mark`.
    pub(crate) fn new(
        clock: Arc<dyn WallClock>,
        policy: ClockPolicy,
        mark: Option<StoredMark>,
    ) -> ClockWatch {
        ClockWatch {
            clock,
            guard: Mutex::new(ClockGuard::new(policy, mark)),
            started: Instant::now(),
            mark_ahead: AtomicU64::new(mark.map_or(0, |mark| mark.ahead.0)),
            last_used: AtomicU64::new(0),
            regressions: AtomicU64::new(0),
            is_behind: AtomicBool::new(false),
        }
    }

    pub(crate) fn wall(&self) -> WallMs {
        self.clock.wall()
    }

    /// Whether a generator may be asked with this reading; it judges rollbacks by itself.
    pub(crate) fn judge_for_minting(&self, now: WallMs) -> ClockVerdict {
        if now.0 >= self.mark_ahead.load(Ordering::Relaxed) || is_out!(MarkPassed) {
            return ClockVerdict::Good;
        }
        match self.judge(now) {
            ClockVerdict::ForwardJump { .. } => ClockVerdict::Good,
            verdict => verdict,
        }
    }

    /// Whether a fence may be asked for from this reading.
    pub(crate) fn judge(&self, now: WallMs) -> ClockVerdict {
        let last_used = Some(self.last_used.load(Ordering::Relaxed)).filter(|last| *last > 0);
        let verdict = {
            let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
            guard.observe(now, self.started.elapsed(), last_used.map(WallMs))
        };
        let is_behind = matches!(verdict, ClockVerdict::Behind { .. });
        if is_behind && !self.is_behind.load(Ordering::Relaxed) {
            self.regressions.fetch_add(1, Ordering::Relaxed);
        }
        self.is_behind.store(is_behind, Ordering::Relaxed);
        verdict
    }

    /// Records when the last tick began that a generator has used.
    pub(crate) fn used(&self, last: WallMs) {
        self.last_used.fetch_max(last.0, Ordering::Relaxed);
    }

    /// The largest time given to [`ClockWatch::used`]; 0 before any.
    pub(crate) fn last_used(&self) -> WallMs {
        WallMs(self.last_used.load(Ordering::Relaxed))
    }

    /// Rollbacks beyond the tolerance since the start.
    pub(crate) fn regressions(&self) -> u64 {
        self.regressions.load(Ordering::Relaxed)
    }
}
