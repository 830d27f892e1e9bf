//! Determines which clocks agree: a wall clock is right if it agrees with a majority of the clocks.
//!
//! Each node measures the wall clocks of its peers and its own against its own monotonic clock. The
//! difference, the clock's [`Line`], is constant as long as that wall clock is not set, and a step
//! of a wall clock changes only its own line. The uncertainty of a line is half a round trip.
//!
//! Two clocks agree if their lines differ by at most the limit, allowing for the uncertainty. Each
//! line is therefore widened by half the limit on either side, and a majority of the clocks agrees
//! if the intervals of a majority intersect (Marzullo's algorithm, as in NTP). A clock whose
//! interval reaches the intersection is right, and every other clock is wrong. If no majority of
//! the intervals intersects, it is unknown which clock is wrong, and no clock is judged wrong.

use std::time::Duration;

use crate::time::WallMs;

/// The difference between a wall clock and the monotonic clock of the process that measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Wall minus monotonic time, in milliseconds.
    pub ms: i64,
    /// The uncertainty in either direction, in milliseconds.
    pub uncertain_ms: u64,
}

impl Line {
    /// Returns the line of a clock that showed `wall` at this moment of the monotonic clock.
    pub fn of(wall: WallMs, monotonic: Duration, uncertain_ms: u64) -> Self {
        let monotonic = i64::try_from(monotonic.as_millis()).unwrap_or(i64::MAX);
        let wall = i64::try_from(wall.0).unwrap_or(i64::MAX);
        Self {
            ms: wall.saturating_sub(monotonic),
            uncertain_ms,
        }
    }

    /// Returns the reading of a clock with this line at a moment of the monotonic clock.
    pub fn wall_at(self, monotonic: Duration) -> WallMs {
        let monotonic = i64::try_from(monotonic.as_millis()).unwrap_or(i64::MAX);
        let wall = self.ms.saturating_add(monotonic);
        WallMs(u64::try_from(wall).unwrap_or(0))
    }

    /// Returns the interval of the lines that agree with it, multiplied by two: half of a limit may
    /// be half a millisecond.
    fn interval(self, limit_ms: u64) -> (i128, i128) {
        let (line, around) = (i128::from(self.ms), i128::from(self.uncertain_ms));
        let limit = i128::from(limit_ms);
        (2 * (line - around) - limit, 2 * (line + around) + limit)
    }
}

/// The agreement of a majority of the voters' clocks, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// Too few clocks are known for a majority.
    Unknown,
    /// The clocks of a majority are known, and no majority of them agrees.
    Split,
    /// A majority agrees.
    Agreed(Agreed),
}

/// The intersection of the intervals of a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Both ends, multiplied by two.
    from: i128,
    to: i128,
    limit_ms: u64,
}

/// The agreement of one clock with the majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Unknown, because too few clocks are known.
    Unknown,
    /// The clock agrees with a majority.
    Right,
    /// A majority agrees, but not with this clock.
    Wrong {
        /// The milliseconds by which the clock is ahead of the middle of the majority. Negative if
        /// it is behind.
        ahead_ms: i64,
    },
    /// No majority agrees, so any clock may be wrong.
    Split,
}

impl Agreement {
    /// Computes the agreement of `voters` voters from the known lines. Two clocks agree if they
    /// differ by at most `limit_ms`.
    pub fn of(voters: usize, known: &[Line], limit_ms: u64) -> Self {
        let majority = voters / 2 + 1;
        if known.len() < majority {
            return Self::Unknown;
        }
        // At equal positions, starts sort before ends: two intervals that touch still agree.
        let mut ends: Vec<(i128, bool)> = Vec::with_capacity(2 * known.len());
        for line in known {
            let (from, to) = line.interval(limit_ms);
            ends.extend([(from, false), (to, true)]);
        }
        ends.sort_unstable();
        let (mut meeting, mut from, mut to) = (0, None, None);
        for (at, is_end) in ends {
            if !is_end {
                meeting += 1;
                if meeting >= majority {
                    from.get_or_insert(at);
                }
            } else {
                if meeting >= majority {
                    to = Some(at);
                }
                meeting -= 1;
            }
        }
        match (from, to) {
            (Some(from), Some(to)) => Self::Agreed(Agreed { from, to, limit_ms }),
            _ => Self::Split,
        }
    }

    /// Judges whether a clock agrees with the majority.
    pub fn judge(&self, line: Line) -> Standing {
        match self {
            Self::Unknown => Standing::Unknown,
            Self::Split => Standing::Split,
            Self::Agreed(agreed) => agreed.judge(line),
        }
    }
}

impl Agreed {
    fn judge(&self, line: Line) -> Standing {
        let (from, to) = line.interval(self.limit_ms);
        if from <= self.to && self.from <= to {
            return Standing::Right;
        }
        let ahead_ms = line.ms.saturating_sub(self.middle().ms);
        Standing::Wrong { ahead_ms }
    }

    /// Returns the line in the middle of the majority.
    pub fn middle(&self) -> Line {
        let middle = (self.from + self.to) / 4;
        let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
        Line {
            ms: i64::try_from(middle.clamp(least, most)).unwrap_or_default(),
            uncertain_ms: 0,
        }
    }

    /// Returns the range of the lines, in milliseconds, that a right clock without uncertainty can
    /// have.
    pub fn right(&self) -> (i64, i64) {
        let limit = i128::from(self.limit_ms);
        let clamp = |twice: i128| {
            let half = twice.div_euclid(2);
            i64::try_from(half).unwrap_or(if half < 0 { i64::MIN } else { i64::MAX })
        };
        // The lower end is rounded up.
        (clamp(self.from - limit + 1), clamp(self.to + limit))
    }
}
