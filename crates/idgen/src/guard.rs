//! The clock guard: decides whether a wall clock reading may be used to mint IDs and to extend the
//! fence.
//!
//! Uniqueness never depends on it; the fence ensures that. The guard keeps IDs roughly ordered by
//! time and prevents a clearly wrong clock from using up future ticks. It compares each reading of
//! the wall clock with four values:
//!
//! **The stored mark**, after a start: the progress of the previous process. A clock at or past
//! `ahead` is past every used tick. Between `last_minted` and `ahead`, ticks may have been used, so
//! the guard waits. This happens after a crash and a quick restart with a good clock, and is not a
//! rollback. Below `last_minted` the clock did step back. The guard waits for a small difference,
//! and refuses for a larger one until the clock has caught up.
//!
//! **The last tick used** by this process. The generators themselves refuse a clock before it. The
//! guard returns the same verdict, so that a health check need not mint.
//!
//! **The peers' clocks.** A reading that agrees with a majority of them is good, even after a jump.
//! If a majority agrees without it, it is bad, however steady it is (see `agreement`). If no
//! majority agrees, no reading is good. If too few peers are known, or there are none, the last
//! comparison decides:
//!
//! **The monotonic clock.** The difference between the wall clock and the monotonic clock, the
//! *line*, is constant as long as the wall clock is not set. A reading within the tolerance of the
//! trusted line is good, and the line moves to it, so that slow drift never adds up. A reading
//! further ahead is a forward jump. It is trusted once the readings have kept to their new line for
//! [`FORWARD_JUMP_CONFIRM`]. If the readings return to the old line, the jump was a transient
//! error. A reading further behind, but not before a used tick, is harmless. The trusted line
//! follows it after the same time, so a clock that is set back and soon forward again has not
//! jumped. A reading below the mark or before the last used tick is known to be wrong and does not
//! change the trusted line. A clock that recovers from this state after a start is therefore the
//! expected correction, not a jump.

use std::time::Duration;

use seqd_guards::is_out;

use crate::agreement::Standing;
use crate::policy::{ClockPolicy, OnRollback};
use crate::time::WallMs;

/// The time for which readings must agree before a jump is trusted. It is well below a third of the
/// default window of 30 s, so that the window of a node does not end in the meantime, and well
/// above the interval of the readings, so that several must agree.
pub const FORWARD_JUMP_CONFIRM: Duration = Duration::from_secs(5);

/// The interval at which a running process writes its mark, in milliseconds.
pub const MARK_EVERY_MS: u64 = 250;

/// The time by which a written mark is ahead of the clock, in milliseconds. It is two intervals, so
/// that the clock does not pass the mark if one write is late.
pub const MARK_LEAD_MS: u64 = 2 * MARK_EVERY_MS;

/// The progress of a process, as stored on its disk.
///
/// Invariant: `last_minted < ahead`. The functions below ensure it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredMark {
    /// The start of the last tick used at the time of writing.
    pub last_minted: WallMs,
    /// No tick that begins at or after this time was used before the next mark was written.
    pub ahead: WallMs,
}

impl StoredMark {
    /// Returns the mark of a running process. It is ahead of the clock, but not past the end of the
    /// window, because nothing is minted after that at any reading.
    pub fn running(last_minted: WallMs, now: WallMs, window_end: WallMs) -> Self {
        let lead = now.max(last_minted).0.saturating_add(MARK_LEAD_MS);
        let ahead = lead.min(window_end.0).max(last_minted.0.saturating_add(1));
        Self {
            last_minted,
            ahead: WallMs(ahead),
        }
    }

    /// Returns the mark of a process that has closed its generators and no longer mints.
    pub fn stopped(last_minted: WallMs) -> Self {
        Self {
            last_minted,
            ahead: WallMs(last_minted.0.saturating_add(1)),
        }
    }

    /// Returns the mark read from a disk, or `None` if no process can have written it.
    pub fn found(last_minted: WallMs, ahead: WallMs) -> Option<Self> {
        (last_minted < ahead).then_some(Self { last_minted, ahead })
    }
}

/// The verdict on a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockVerdict {
    /// The reading may be used to mint and to extend the fence.
    Good,
    /// Minting must wait. Read the clock again after this many milliseconds (at least 1).
    Wait {
        /// The duration in milliseconds.
        ms: u64,
    },
    /// The clock stepped back by more than the tolerance. Minting is refused.
    Behind {
        /// The milliseconds by which the clock is behind `until`.
        by_ms: u64,
        /// The clock reading from which IDs are minted again.
        until: WallMs,
    },
    /// The wall clock ran ahead of the monotonic clock, and no majority of other clocks is known.
    /// The reading must not be used to mint, to extend a fence or to take a lease.
    ForwardJump {
        /// The size of the jump in milliseconds.
        by_ms: u64,
    },
    /// A majority of the clocks agrees without this one. The restrictions are those of a jump.
    Skewed {
        /// The milliseconds by which the clock is ahead of the majority. Negative if it is behind.
        ahead_ms: i64,
    },
    /// No majority of the clocks agrees, so this clock may be wrong. The restrictions are those of
    /// a jump.
    Split,
}

/// Readings off the trusted line that may become the trusted line.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    line_ms: i128,
    since: Duration,
}

/// Judges the readings of one process in the order of their monotonic times.
#[derive(Debug)]
pub struct ClockGuard {
    policy: ClockPolicy,
    mark: Option<StoredMark>,
    /// Wall minus monotonic time of the last trusted reading.
    line_ms: Option<i128>,
    candidate: Option<Candidate>,
    /// The last unfavorable verdict by the peers' clocks. It is kept when too few peers are known.
    refused: Option<ClockVerdict>,
}

impl ClockGuard {
    /// Creates a guard for a process that found this mark. `None` means that no mark was ever
    /// written.
    pub fn new(policy: ClockPolicy, mark: Option<StoredMark>) -> Self {
        Self {
            policy,
            mark,
            line_ms: None,
            candidate: None,
            refused: None,
        }
    }

    /// Discards the found mark if it is past `limit`. Returns whether it did.
    pub fn forget_mark_past(&mut self, limit: WallMs) -> bool {
        self.mark.take_if(|mark| mark.ahead > limit).is_some()
    }

    /// Judges a reading. `monotonic` is the time since any fixed moment of this process,
    /// `last_used` is the start of the last tick that this process used, and `standing` is the
    /// result of the comparison with the peers' clocks.
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

    /// Judges a reading without peers. A reading that the peers judged wrong stays wrong until it
    /// is near the last line that they agreed with.
    fn judge_unknown(&mut self, wall: WallMs, monotonic: Duration) -> ClockVerdict {
        if let (Some(refused), Some(line_ms)) = (self.refused, self.line_ms) {
            if !self.is_near(line_of(wall, monotonic) - line_ms) {
                return refused;
            }
            self.refused = None;
        }
        self.judge_line(wall, monotonic)
    }

    /// Returns the last line, in milliseconds, at which a clock without peers is accepted
    /// immediately. `None` before the first reading.
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
                // The mark is passed once. From here on the generator continues in logical time.
                self.mark = None;
            }
            return None;
        }
        let stepped_back_ms = mark.last_minted.0.saturating_sub(wall.0);
        let ms = mark.ahead.0 - wall.0;
        Some(if stepped_back_ms > self.policy.max_backward_wait_ms {
            ClockVerdict::Behind {
                by_ms: ms,
                until: mark.ahead,
            }
        } else {
            ClockVerdict::Wait { ms }
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

    /// Returns whether the readings off the trusted line have agreed with each other for long
    /// enough.
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
