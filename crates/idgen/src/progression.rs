//! The arithmetic of a sequence: maps an index to its value.
//!
//! The indexes of a sequence only grow. This file maps an index to the value that SQL's `CREATE
//! SEQUENCE` would give at that position, and back. It stores no position and no mark.
//!
//! The first pass runs from `start` to the last value within the bounds. Each later pass of a
//! cycling sequence begins at `min` (descending: at `max`), as in PostgreSQL.

/// A definition validated by PostgreSQL's rules.
///
/// Invariants: `increment != 0`, `min < max`, `min <= start <= max`. Each pass therefore has at
/// least one value and at most 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Progression {
    start: i64,
    increment: i64,
    min: i64,
    max: i64,
    cycle: bool,
}

/// The reason why a definition is refused.
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
    /// `start` is outside the bounds.
    #[error("start {start} is not within {min} to {max}")]
    StartOutside {
        /// The requested first value.
        start: i64,
        /// The lower bound.
        min: i64,
        /// The upper bound.
        max: i64,
    },
}

impl Progression {
    /// Validates a complete definition.
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

    /// Fills in omitted values like PostgreSQL: increment 1; ascending from `min` 1 to `max`
    /// 2^63-1, descending from `max` -1 to `min` -2^63; `start` at the lower bound (descending: at
    /// the upper bound).
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

    /// Returns the first value of the first pass.
    pub fn start(&self) -> i64 {
        self.start
    }

    /// Returns the difference between two consecutive values, which is never 0.
    pub fn increment(&self) -> i64 {
        self.increment
    }

    /// Returns the smallest allowed value.
    pub fn min(&self) -> i64 {
        self.min
    }

    /// Returns the largest allowed value.
    pub fn max(&self) -> i64 {
        self.max
    }

    /// Returns whether a new pass begins after the last value.
    pub fn cycle(&self) -> bool {
        self.cycle
    }

    /// Returns the value at an index, or `None` past the last one. Index 2^64-1 has no value,
    /// because the mark after it would not fit an index.
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
        // The choice of steps keeps the value within the bounds, so neither the cast nor the sum
        // can overflow.
        let value = i128::from(origin) + i128::from(self.increment) * steps as i128;
        i64::try_from(value).ok()
    }

    /// Returns the exclusive end index of the pass that contains `index`, at most 2^64-1. If the
    /// sequence does not cycle, every index belongs to the only pass.
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

    /// Returns the number of values of the longest pass.
    pub fn longest_pass(&self) -> u64 {
        let first = self.first_pass();
        let later = if self.cycle { self.later_pass() } else { 0 };
        capped(first.max(later))
    }

    /// Returns the number of values, or `None` for a cycling sequence, which has no end.
    pub fn total(&self) -> Option<u64> {
        (!self.cycle).then(|| capped(self.first_pass()))
    }

    /// Returns the number of remaining values from an index on, or `None` for a cycling sequence.
    pub fn remaining(&self, index: u64) -> Option<u64> {
        self.total().map(|total| total.saturating_sub(index))
    }

    /// Returns the first index of the first pass, not below `from_index`, whose value is `value` or
    /// after it in the direction of the increment. `None` if the pass has no such index.
    pub fn first_index_at_or_beyond(&self, value: i64, from_index: u64) -> Option<u64> {
        let index = self.index_of_any(value).max(from_index);
        (index < capped(self.first_pass())).then_some(index)
    }

    /// Returns the first index whose value is `value` or after it in the direction of the
    /// increment, in a first pass without an end. The sequence has the value once its end is
    /// extended that far.
    pub fn index_of_any(&self, value: i64) -> u64 {
        let ahead = if self.increment > 0 {
            i128::from(value) - i128::from(self.start)
        } else {
            i128::from(self.start) - i128::from(value)
        };
        capped(u128::try_from(ahead).unwrap_or(0).div_ceil(self.step()))
    }

    /// Returns the value that an index gets once the end of the first pass is extended that far.
    /// `None` if it is no 64-bit number, or if the index has no value.
    pub fn value_if_extended(&self, index: u64) -> Option<i64> {
        let distance = i128::from(self.increment).checked_mul(i128::from(index))?;
        let value = i128::from(self.start).checked_add(distance)?;
        i64::try_from(value).ok().filter(|_| index < u64::MAX)
    }

    fn step(&self) -> u128 {
        u128::from(self.increment.unsigned_abs())
    }

    /// Returns the first value of the passes after the first one.
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

    /// Returns the number of values of a pass from `origin`. It can be 2^64, hence the wider type.
    fn pass_from(&self, origin: i64) -> u128 {
        let room = if self.increment > 0 {
            self.max.abs_diff(origin)
        } else {
            origin.abs_diff(self.min)
        };
        u128::from(room) / self.step() + 1
    }
}

/// Index 2^64-1 is excluded: the mark after it would not fit.
fn capped(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
