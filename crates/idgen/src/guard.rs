//! The clock guard: whether the wall clock may be minted with and extended from.
//!
//! Uniqueness never rests on it: that is the fence's. The guard keeps IDs roughly ordered by time
//! and keeps a clock that is plainly wrong from burning the future. It compares each reading of
//! the wall clock with four others:
//!
//! **The stored mark**, at a start: how far the process before this one got. A clock that
//! has passed `ahead` is past everything. Between `last_minted` and `ahead` ticks may have been
//! used, so the guard waits; a crash and a quick restart on a good clock look like that, and are no
//! rollback. Below `last_minted` the clock did go back: a little is waited for, more is refused
//! until it has caught up.
//!
//! **The last tick used** by this process. The generators refuse by it on their own; the guard
//! returns the same, so that a health check need not mint.
//!
//! **The peers' clocks.** A reading that agrees with a majority of them is good however it came about,
//! and one that a majority agrees without is not, however steady it is (see `agreement`). Where no
//! majority agrees none is good. Where too few are known, or there are none, it is for the last:
//!
//! **The monotonic clock.** The difference between wall and monotonic clock, the *line*, is steady
//! while nobody sets the wall clock. A reading within the tolerance of the trusted line is good,
//! and the line moves to it, so that slow drift never adds up. A reading further ahead is a
//! forward jump: it is trusted once the readings have stood by their new line for
//! [`FORWARD_JUMP_CONFIRM`]; one that falls back to the old line was a passing error. A reading
//! further behind, but not behind a tick that was used, is harmless; the trusted line follows it
//! after the same time, so a clock that is set back and at once forth again has not jumped. A
//! reading that is behind the mark or behind the last tick used is known to be wrong and trusts
//! nothing; so a clock that comes out of it at a start is the correction that was waited for,
//! not a jump.

use std::time::Duration;

use seqd_guards::is_out;

use crate::agreement::Standing;
use crate::policy::{ClockPolicy, OnRollback};
use crate::time::WallMs;

/// How long the readings must agree with each other before a jump is trusted. Well below a third
/// of the default window of 30 s, so that a node does not run out of window meanwhile; well above
/// the interval of readings, so that several must agree.
pub const FORWARD_JUMP_CONFIRM: Duration = Duration::from_secs(5);

/// How often a running process writes its mark, in milliseconds.
pub const MARK_EVERY_MS: u64 = 250;

/// How far ahead of the clock a written mark reaches, in milliseconds: two intervals, so that one
/// late write does not let the clock pass it.
pub const MARK_LEAD_MS: u64 = 2 * MARK_EVERY_MS;

/// How far a process got, as it is kept on its disk.
///
/// Invariant: `last_minted < ahead`, as made by the functions below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredMark {
    /// When the last tick used at the time of writing began.
    pub last_minted: WallMs,
    /// No tick that begins at or after this was used until the next mark was written.
    pub ahead: WallMs,
}

impl StoredMark {
    /// The mark of a running process: reaches ahead of the clock, but not past the end of its
    /// window, beyond which nothing is minted at any reading.
    pub fn running(last_minted: WallMs, now: WallMs, window_end: WallMs) -> Self {
        let lead = now.max(last_minted).0.saturating_add(MARK_LEAD_MS);
        let ahead = lead.min(window_end.0).max(last_minted.0.saturating_add(1));
        Self {
            last_minted,
            ahead: WallMs(ahead),
        }
    }

    /// The mark of a process that has closed its generators and mints no more.
    pub fn stopped(last_minted: WallMs) -> Self {
        Self {
            last_minted,
            ahead: WallMs(last_minted.0.saturating_add(1)),
        }
    }

    /// The mark that was read from a disk; `None` if no process can have made it.
    pub fn found(last_minted: WallMs, ahead: WallMs) -> Option<Self> {
        (last_minted < ahead).then_some(Self { last_minted, ahead })
    }
}

/// What a reading is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockVerdict {
    /// Mint, and extend the fence from it.
    Good,
    /// Do not mint yet; read again after this many milliseconds (at least 1).
    Wait {
        /// How long, in milliseconds.
        ms: u64,
    },
    /// The clock went back by more than is waited for: refuse to mint.
    Behind {
        /// By how many milliseconds it is behind the last tick used.
        by_ms: u64,
        /// The clock reading from which on it serves again.
        until: WallMs,
    },
    /// The wall clock ran ahead of the monotonic clock, and there is no majority of other clocks to
    /// ask: neither mint, nor extend a fence or take a lease from this reading.
    ForwardJump {
        /// By how many milliseconds.
        by_ms: u64,
    },
    /// A majority of the clocks agrees without this one: as for a jump.
    Skewed {
        /// By how many milliseconds it is ahead of the majority; negative if behind.
        ahead_ms: i64,
    },
    /// No majority of the clocks agrees, so that this one may be wrong: as for a jump.
    Split,
}

/// Readings off the trusted line that may become it.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    line_ms: i128,
    since: Duration,
}

/// Judges the readings of one process, in the order of their monotonic times.
#[derive(Debug)]
pub struct ClockGuard {
    policy: ClockPolicy,
    mark: Option<StoredMark>,
    /// Wall minus monotonic time, of the last reading that was trusted.
    line_ms: Option<i128>,
    candidate: Option<Candidate>,
    /// What the peers found, while they found it and after that.
    refused: Option<ClockVerdict>,
}

impl ClockGuard {
    /// A guard for a process that found this mark; `None` if none was ever written.
    pub fn new(policy: ClockPolicy, mark: Option<StoredMark>) -> Self {
        Self {
            policy,
            mark,
            line_ms: None,
            candidate: None,
            refused: None,
        }
    }

    /// Forgets the mark that was found if it reaches past `limit`; returns whether it did.
    pub fn forget_mark_past(&mut self, limit: WallMs) -> bool {
        self.mark.take_if(|mark| mark.ahead > limit).is_some()
    }

    /// Judges a reading: the wall clock, monotonic time since any fixed moment of this process,
    /// when the last tick began that this process has used, if it has used one, and what the peers'
    /// clocks say of it.
    pub fn observe(
        &mut self,
        wall: WallMs,
        monotonic: Duration,
        last_used: Option<WallMs>,
        standing: Standing,
    ) -> ClockVerdict {
        if let Some(verdict) = self
            .behind_mark(wall)
            .or_else(|| self.behind_own(wall, last_used))
        {
            self.candidate = None;
            return verdict;
        }
        match standing {
            Standing::Right => {
                self.refused = None;
                self.line_ms = Some(line_of(wall, monotonic));
                self.candidate = None;
                ClockVerdict::Good
            }
            Standing::Wrong { .. } if is_out!(WrongClockRefused) => ClockVerdict::Good,
            Standing::Wrong { ahead_ms } => self.not_good(ClockVerdict::Skewed { ahead_ms }),
            Standing::Split => self.not_good(ClockVerdict::Split),
            Standing::Unknown => self.judge_unknown(wall, monotonic),
        }
    }

    fn not_good(&mut self, verdict: ClockVerdict) -> ClockVerdict {
        self.candidate = None;
        self.refused = Some(verdict);
        verdict
    }

    /// Nobody can be asked any more. A reading that the peers found wrong stays so until it is near the
    /// last line that they agreed with.
    fn judge_unknown(&mut self, wall: WallMs, monotonic: Duration) -> ClockVerdict {
        if let (Some(refused), Some(line_ms)) = (self.refused, self.line_ms) {
            if !self.is_near(line_of(wall, monotonic) - line_ms) {
                return refused;
            }
            self.refused = None;
        }
        self.judge_line(wall, monotonic)
    }

    /// The last line that a clock without peers may have and be good at once, in milliseconds; `None`
    /// before the first reading.
    pub fn last_line_ms(&self) -> Option<i64> {
        let line_ms = self
            .line_ms?
            .saturating_add(i128::from(self.policy.max_forward_jump_ms));
        i64::try_from(line_ms).ok()
    }

    fn behind_mark(&mut self, wall: WallMs) -> Option<ClockVerdict> {
        let mark = self.mark?;
        if wall >= mark.ahead {
            if self.policy.on_rollback == OnRollback::Continue {
                // Passed once: from here on the generator goes on in logical time.
                self.mark = None;
            }
            return None;
        }
        let by_ms = mark.last_minted.0.saturating_sub(wall.0);
        Some(if by_ms > self.policy.max_backward_wait_ms {
            ClockVerdict::Behind {
                by_ms,
                until: mark.ahead,
            }
        } else {
            ClockVerdict::Wait {
                ms: mark.ahead.0 - wall.0,
            }
        })
    }

    fn behind_own(&self, wall: WallMs, last_used: Option<WallMs>) -> Option<ClockVerdict> {
        let until = last_used.filter(|last| wall < *last)?;
        let by_ms = until.0 - wall.0;
        Some(match self.policy.on_rollback {
            OnRollback::Continue => ClockVerdict::Good,
            OnRollback::Refuse if by_ms > self.policy.max_backward_wait_ms => {
                ClockVerdict::Behind { by_ms, until }
            }
            OnRollback::Refuse => ClockVerdict::Wait { ms: by_ms },
        })
    }

    fn judge_line(&mut self, wall: WallMs, monotonic: Duration) -> ClockVerdict {
        let line_ms = line_of(wall, monotonic);
        let ahead_ms = line_ms - self.line_ms.unwrap_or(line_ms);
        if self.is_near(ahead_ms) || self.is_confirmed(line_ms, monotonic) {
            self.line_ms = Some(line_ms);
            self.candidate = None;
            return ClockVerdict::Good;
        }
        match u64::try_from(ahead_ms) {
            Ok(by_ms) => ClockVerdict::ForwardJump { by_ms },
            Err(_) => ClockVerdict::Good,
        }
    }

    /// Whether the readings off the trusted line have agreed with each other for long enough.
    fn is_confirmed(&mut self, line_ms: i128, monotonic: Duration) -> bool {
        let since = match self.candidate {
            Some(candidate) if self.is_near(line_ms - candidate.line_ms) => candidate.since,
            _ => monotonic,
        };
        self.candidate = Some(Candidate { line_ms, since });
        monotonic.saturating_sub(since) >= FORWARD_JUMP_CONFIRM
    }

    fn is_near(&self, difference_ms: i128) -> bool {
        difference_ms.unsigned_abs() <= u128::from(self.policy.max_forward_jump_ms)
    }
}

fn line_of(wall: WallMs, monotonic: Duration) -> i128 {
    i128::from(wall.0) - monotonic.as_millis() as i128
}
