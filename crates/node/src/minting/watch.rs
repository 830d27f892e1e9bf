//! The node's clock guard, shared by all its users: judges whether the wall clock can be trusted.
//!
//! A request compares the reading with bounds: the mark that the last start left, and the first and
//! last line (wall minus monotonic time) that are correct by the peers' clocks, or by the monotonic
//! clock if there are no peers. The guard judges readings outside these bounds, the keepers'
//! regular readings, and each reading for which a fence is requested. Each judgement updates the
//! bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use seqd_guards::is_out;
use seqd_idgen::{
    ClockGuard, ClockPolicy, ClockVerdict, Line, Standing, StoredMark, WallClock, WallMs,
};
use seqd_net::Lock;
use seqd_raft::Clocks;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::times::millis;

pub(crate) struct ClockWatch {
    clock: Arc<dyn WallClock>,
    guard: Lock<ClockGuard>,
    peers: watch::Receiver<Clocks>,
    /// The origin of the lines of all clocks.
    since: Instant,
    /// The guard judges each reading below this, in milliseconds.
    mark_ahead: AtomicU64,
    /// The guard judges each reading whose line is outside these two, in milliseconds.
    first_line: AtomicI64,
    last_line: AtomicI64,
    /// The start of the last tick that any generator of this node has used, in milliseconds.
    last_used: AtomicU64,
    regressions: AtomicU64,
    is_behind: AtomicBool,
}

impl ClockWatch {
    /// Watches `clock`, which should have passed `mark` and should agree with its peers.
    pub(crate) fn new(
        clock: Arc<dyn WallClock>,
        policy: ClockPolicy,
        mark: Option<StoredMark>,
        peers: watch::Receiver<Clocks>,
    ) -> ClockWatch {
        let since = peers.borrow().since;
        ClockWatch {
            clock,
            guard: Lock::new(ClockGuard::new(policy, mark)),
            since,
            peers,
            mark_ahead: AtomicU64::new(mark.map_or(0, |mark| mark.ahead.0)),
            // No line is within these bounds before the first judgement.
            first_line: AtomicI64::new(i64::MAX),
            last_line: AtomicI64::new(i64::MIN),
            last_used: AtomicU64::new(0),
            regressions: AtomicU64::new(0),
            is_behind: AtomicBool::new(false),
        }
    }

    /// The clock watch of a node without peers.
    #[cfg(test)]
    pub(crate) fn alone(
        clock: Arc<dyn WallClock>,
        policy: ClockPolicy,
        mark: Option<StoredMark>,
    ) -> ClockWatch {
        let (_, peers) = watch::channel(Clocks::alone());
        Self::new(clock, policy, mark, peers)
    }

    pub(crate) fn wall(&self) -> WallMs {
        self.clock.wall()
    }

    /// The reading of the clock after `left`, if nothing sets the clock.
    pub(crate) fn after(&self, left: Duration) -> WallMs {
        WallMs(self.wall().0.saturating_add(millis(left)))
    }

    /// The time until the clock shows `at`, if it is known more precisely than by readings.
    pub(crate) fn until(&self, at: WallMs) -> Option<Duration> {
        self.clock.until(at)
    }

    /// The reading of a clock that agrees with a majority: this clock's reading, unless the clock
    /// is wrong. `None` if no majority agrees.
    pub(crate) fn right_time(&self) -> Option<WallMs> {
        self.peers.borrow().right_time(self.wall())
    }

    /// The reading of this node's clock, if a majority agrees with it or there is no other clock.
    pub(crate) fn agreed_time(&self) -> Option<WallMs> {
        let now = self.wall();
        let peers = self.peers.borrow();
        let is_right = peers.is_alone || peers.standing(now) == Standing::Right;
        is_right.then_some(now)
    }

    /// Judges whether a generator may mint at this reading. The generator itself detects rollbacks.
    pub(crate) fn judge_for_minting(&self, now: WallMs) -> ClockVerdict {
        let line = Line::of(now, self.since.elapsed(), 0).ms;
        let is_past_mark = now.0 >= self.mark_ahead.load(Ordering::Relaxed) || is_out!(MarkPassed);
        let is_near = self.first_line.load(Ordering::Relaxed) <= line
            && line <= self.last_line.load(Ordering::Relaxed);
        if is_past_mark && is_near {
            return ClockVerdict::Good;
        }
        self.judge(now)
    }

    /// Judges whether a fence may be requested for this reading.
    pub(crate) fn judge(&self, now: WallMs) -> ClockVerdict {
        let last_used = Some(self.last_used.load(Ordering::Relaxed)).filter(|last| *last > 0);
        let verdict = {
            let mut guard = self.guard.lock();
            let peers = self.peers.borrow();
            let (last_used, standing) = (last_used.map(WallMs), peers.standing(now));
            let verdict = guard.observe(now, self.since.elapsed(), last_used, standing);
            self.set_bounds(&guard, &peers);
            verdict
        };
        let is_behind = matches!(verdict, ClockVerdict::Behind { .. });
        let was_behind = self.is_behind.swap(is_behind, Ordering::Relaxed);
        if is_behind && !was_behind {
            self.regressions.fetch_add(1, Ordering::Relaxed);
        }
        verdict
    }

    /// Follows the peers' clocks. Never returns while the peers' clocks are measured.
    pub(crate) async fn follow_peers(self: Arc<Self>) {
        let mut peers = self.peers.clone();
        while peers.changed().await.is_ok() {
            self.judge(self.wall());
        }
    }

    /// Returns whether enough clocks of peers are known to judge this node's clock, or there is no
    /// other clock.
    pub(crate) fn is_known(&self) -> bool {
        self.peers.borrow().is_known()
    }

    fn set_bounds(&self, guard: &ClockGuard, peers: &Clocks) {
        let alone = || (i64::MIN, guard.last_line_ms().unwrap_or(i64::MIN));
        let (first, last) = peers.right_lines().unwrap_or_else(alone);
        self.first_line.store(first, Ordering::Relaxed);
        self.last_line.store(last, Ordering::Relaxed);
    }

    /// Records the start of the last tick that a generator has used.
    pub(crate) fn used(&self, last: WallMs) {
        self.last_used.fetch_max(last.0, Ordering::Relaxed);
    }

    /// The latest time passed to [`ClockWatch::used`], or 0.
    pub(crate) fn last_used(&self) -> WallMs {
        WallMs(self.last_used.load(Ordering::Relaxed))
    }

    /// Discards the record of ticks minted after `limit`: the mark found at the start and the last
    /// tick. Returns whether there was such a record.
    pub(crate) fn forget_past(&self, limit: WallMs) -> bool {
        let mark_forgotten = self.guard.lock().forget_mark_past(limit);
        if mark_forgotten {
            self.mark_ahead.store(0, Ordering::Relaxed);
        }
        let last_used = self.last_used();
        // If a generator has used a later tick meanwhile, the next pass finds it.
        let used_forgotten = last_used > limit
            && self
                .last_used
                .compare_exchange(last_used.0, 0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        mark_forgotten || used_forgotten
    }

    /// Rollbacks beyond the tolerance since the start.
    pub(crate) fn regressions(&self) -> u64 {
        self.regressions.load(Ordering::Relaxed)
    }
}
