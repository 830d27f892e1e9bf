//! Which clocks agree: a wall clock is right if it agrees with a majority of the clocks.
//!
//! Each node measures the wall clocks of its peers, its own among them, against its own monotonic
//! clock. The difference, the clock's [`Line`], is steady while nobody sets that wall clock, and a
//! step of any of them changes one line alone. A line is known to within half a round trip.
//!
//! Two clocks agree where their lines are within the limit of each other, as far as they are known.
//! So each line is widened by half the limit on either side, and the clocks of a majority agree
//! where the intervals of so many meet (Marzullo's intersection, as NTP has it). A clock whose
//! interval reaches that place is right, every other is wrong. Where no majority meets it is not
//! known which clock is wrong, and none is called so.

use std::time::Duration;

use crate::time::WallMs;

/// A wall clock against the monotonic clock of the process that measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Wall minus monotonic time, in milliseconds.
    pub ms: i64,
    /// By how much that may be wrong, either way, in milliseconds.
    pub uncertain_ms: u64,
}

impl Line {
    /// The line of a clock that was read at this moment of the monotonic clock.
    pub fn of(wall: WallMs, monotonic: Duration, uncertain_ms: u64) -> Self {
        let monotonic = i64::try_from(monotonic.as_millis()).unwrap_or(i64::MAX);
        let wall = i64::try_from(wall.0).unwrap_or(i64::MAX);
        Self {
            ms: wall.saturating_sub(monotonic),
            uncertain_ms,
        }
    }

    /// What a clock with this line shows at a moment of the monotonic clock.
    pub fn wall_at(self, monotonic: Duration) -> WallMs {
        let monotonic = i64::try_from(monotonic.as_millis()).unwrap_or(i64::MAX);
        let wall = self.ms.saturating_add(monotonic);
        WallMs(u64::try_from(wall).unwrap_or(0))
    }

    /// The interval that agrees with it, twice as large: half a limit may be half a millisecond.
    fn interval(self, limit_ms: u64) -> (i128, i128) {
        let (line, around) = (i128::from(self.ms), i128::from(self.uncertain_ms));
        let limit = i128::from(limit_ms);
        (2 * (line - around) - limit, 2 * (line + around) + limit)
    }
}

/// Whether a majority of the voters' clocks agrees, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// Too few clocks are known for a majority.
    Unknown,
    /// The clocks of a majority are known, and no majority of them agrees.
    Split,
    /// A majority agrees.
    Agreed(Agreed),
}

/// Where the clocks of a majority meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Both ends twice as large.
    from: i128,
    to: i128,
    limit_ms: u64,
}

/// Whether one clock agrees with the majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not known: too few clocks are.
    Unknown,
    /// It agrees with a majority.
    Right,
    /// A majority agrees without it.
    Wrong {
        /// By how many milliseconds it is ahead of the middle of the majority; negative if behind.
        ahead_ms: i64,
    },
    /// No majority agrees, so that any of them may be wrong.
    Split,
}

impl Agreement {
    /// The agreement of the known lines of `voters` voters, of which two agree within `limit_ms`.
    pub fn of(voters: usize, known: &[Line], limit_ms: u64) -> Self {
        let majority = voters / 2 + 1;
        if known.len() < majority {
            return Self::Unknown;
        }
        // Beginnings before ends where both are at one place: there the two clocks still agree.
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

    /// Whether a clock agrees.
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

    /// The line in the middle of the majority.
    pub fn middle(&self) -> Line {
        let middle = (self.from + self.to) / 4;
        let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
        Line {
            ms: i64::try_from(middle.clamp(least, most)).unwrap_or_default(),
            uncertain_ms: 0,
        }
    }

    /// The lines of clocks that are known exactly and right: from the first to the last of them, in
    /// milliseconds.
    pub fn right(&self) -> (i64, i64) {
        let limit = i128::from(self.limit_ms);
        let clamp = |twice: i128| {
            let half = twice.div_euclid(2);
            i64::try_from(half).unwrap_or(if half < 0 { i64::MIN } else { i64::MAX })
        };
        // The first is rounded up.
        (clamp(self.from - limit + 1), clamp(self.to + limit))
    }
}
