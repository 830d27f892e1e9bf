//! The arithmetic of a sequence: which value stands at which index.
//!
//! A sequence hands out *indexes*, which only grow; this file turns an index into the value that
//! SQL's `CREATE SEQUENCE` would give there, and back. It holds no position and no mark.
//!
//! The first pass runs from `start` to the last value within the bounds; each later pass of a
//! cycling sequence begins at `min` (descending: at `max`), as in PostgreSQL.

/// A definition that was checked by PostgreSQL's rules.
///
/// Invariants: `increment != 0`, `min < max`, `min <= start <= max`. So each pass has at least one
/// value, and at most 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Progression {
    start: i64,
    increment: i64,
    min: i64,
    max: i64,
    cycle: bool,
}

/// Why a definition is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgressionError {
    /// The increment is 0.
    #[error("the increment must not be 0")]
    ZeroIncrement,
    /// `min` is not below `max`.
    #[error("min {min} must be below max {max}")]
    EmptyBounds {
        /// The lower bound.
        min: i64,
        /// The upper bound.
        max: i64,
    },
    /// `start` lies outside the bounds.
    #[error("start {start} is not within {min} to {max}")]
    StartOutside {
        /// The first value as asked.
        start: i64,
        /// The lower bound.
        min: i64,
        /// The upper bound.
        max: i64,
    },
}

impl Progression {
    /// Checks a whole definition.
    pub fn new(
        start: i64,
        increment: i64,
        min: i64,
        max: i64,
        cycle: bool,
    ) -> Result<Self, ProgressionError> {
        if increment == 0 {
            return Err(ProgressionError::ZeroIncrement);
        }
        if min >= max {
            return Err(ProgressionError::EmptyBounds { min, max });
        }
        if start < min || start > max {
            return Err(ProgressionError::StartOutside { start, min, max });
        }
        Ok(Self {
            start,
            increment,
            min,
            max,
            cycle,
        })
    }

    /// Fills in what was left out as PostgreSQL does: increment 1; ascending from `min` 1 to `max`
    /// 2^63-1, descending from `max` -1 to `min` -2^63; `start` at the bound it runs away from.
    pub fn with_defaults(
        start: Option<i64>,
        increment: Option<i64>,
        min: Option<i64>,
        max: Option<i64>,
        cycle: bool,
    ) -> Result<Self, ProgressionError> {
        let increment = increment.unwrap_or(1);
        let (default_min, default_max) = if increment < 0 {
            (i64::MIN, -1)
        } else {
            (1, i64::MAX)
        };
        let min = min.unwrap_or(default_min);
        let max = max.unwrap_or(default_max);
        let start = start.unwrap_or(if increment < 0 { max } else { min });
        Self::new(start, increment, min, max, cycle)
    }

    /// The first value of the first pass.
    pub fn start(&self) -> i64 {
        self.start
    }

    /// The distance from one value to the next; never 0.
    pub fn increment(&self) -> i64 {
        self.increment
    }

    /// The least value allowed.
    pub fn min(&self) -> i64 {
        self.min
    }

    /// The greatest value allowed.
    pub fn max(&self) -> i64 {
        self.max
    }

    /// Whether a new pass begins after the last value.
    pub fn cycle(&self) -> bool {
        self.cycle
    }

    /// The value at an index; `None` past the last one. The index 2^64-1 has none, because the
    /// mark behind it would not fit an index.
    pub fn value_at(&self, index: u64) -> Option<i64> {
        let first_pass = self.first_pass();
        let (origin, steps) = if u128::from(index) < first_pass {
            (self.start, u128::from(index))
        } else if self.cycle {
            (
                self.wrap_origin(),
                (u128::from(index) - first_pass) % self.later_pass(),
            )
        } else {
            return None;
        };
        if index == u64::MAX {
            return None;
        }
        // Within the bounds by the choice of steps, so neither cast nor sum can overflow.
        let value = i128::from(origin) + i128::from(self.increment) * steps as i128;
        i64::try_from(value).ok()
    }

    /// The exclusive index at which the pass that holds `index` ends; at most 2^64-1. An index
    /// past the end of a sequence that does not cycle has the end of its only pass.
    pub fn pass_end(&self, index: u64) -> u64 {
        let first_pass = self.first_pass();
        let index = u128::from(index);
        let end = if index < first_pass || !self.cycle {
            first_pass
        } else {
            let later = self.later_pass();
            first_pass + ((index - first_pass) / later + 1) * later
        };
        capped(end)
    }

    /// The most values that lie in one pass.
    pub fn longest_pass(&self) -> u64 {
        let first = self.first_pass();
        let later = if self.cycle { self.later_pass() } else { 0 };
        capped(first.max(later))
    }

    /// How many values there are; `None` for a cycling sequence, which has no end.
    pub fn total(&self) -> Option<u64> {
        (!self.cycle).then(|| capped(self.first_pass()))
    }

    /// How many values are left from an index on; `None` for a cycling sequence.
    pub fn remaining(&self, index: u64) -> Option<u64> {
        self.total().map(|total| total.saturating_sub(index))
    }

    /// The first index of the first pass, not below `from_index`, whose value is `value` or lies
    /// beyond it in the direction of the increment. `None` if the pass has none.
    pub fn first_index_at_or_beyond(&self, value: i64, from_index: u64) -> Option<u64> {
        let ahead = if self.increment > 0 {
            i128::from(value) - i128::from(self.start)
        } else {
            i128::from(self.start) - i128::from(value)
        };
        let steps = u128::try_from(ahead).unwrap_or(0).div_ceil(self.step());
        let index = steps.max(u128::from(from_index));
        let end = u128::from(capped(self.first_pass()));
        if index < end {
            u64::try_from(index).ok()
        } else {
            None
        }
    }

    fn step(&self) -> u128 {
        u128::from(self.increment.unsigned_abs())
    }

    /// Where the passes after the first begin.
    fn wrap_origin(&self) -> i64 {
        if self.increment > 0 {
            self.min
        } else {
            self.max
        }
    }

    fn first_pass(&self) -> u128 {
        self.pass_from(self.start)
    }

    fn later_pass(&self) -> u128 {
        self.pass_from(self.wrap_origin())
    }

    /// How many values a pass from `origin` has: up to 2^64, hence the width.
    fn pass_from(&self, origin: i64) -> u128 {
        let room = if self.increment > 0 {
            self.max.abs_diff(origin)
        } else {
            origin.abs_diff(self.min)
        };
        u128::from(room) / self.step() + 1
    }
}

/// Index 2^64-1 is left out: the mark behind it would not fit.
fn capped(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
