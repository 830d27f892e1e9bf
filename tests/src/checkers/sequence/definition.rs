//! The values of a sequence in the order in which they are granted. The position of a value is the
//! number of values before it, over all passes of a cycling sequence.

/// The parameters that determine the values of a sequence, as in SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
}

impl Definition {
    /// The default ascending sequence, starting at `start`.
    pub fn from(start: i64) -> Self {
        Self {
            start,
            increment: 1,
            min: 1,
            max: i64::MAX,
            cycle: false,
        }
    }

    /// The position of `value` in a pass that begins at `begin`.
    fn in_pass(&self, begin: i64, value: i64) -> Option<u64> {
        let (distance, step) = (
            i128::from(value) - i128::from(begin),
            i128::from(self.increment),
        );
        let is_in = (self.min..=self.max).contains(&value);
        let position = u64::try_from(distance / step).ok()?;
        (is_in && distance % step == 0).then_some(position)
    }

    /// The first value of a pass after the first one, and the last value that it may reach.
    fn ends(&self) -> (i64, i64) {
        if self.increment > 0 {
            (self.min, self.max)
        } else {
            (self.max, self.min)
        }
    }

    fn values_from(&self, begin: i64) -> u64 {
        let distance = i128::from(self.ends().1) - i128::from(begin);
        let values = distance / i128::from(self.increment) + 1;
        u64::try_from(values).unwrap_or(u64::MAX)
    }

    /// The number of values in a pass after the first one.
    pub(super) fn pass(&self) -> u64 {
        self.values_from(self.ends().0)
    }

    /// The lowest position at or above `floor` with this value. `None` if the value is not in the
    /// sequence, or only below `floor`.
    pub(super) fn position(&self, value: i64, floor: u64) -> Option<u64> {
        let first = self.in_pass(self.start, value);
        let first = first.filter(|position| *position >= floor);
        if !self.cycle || first.is_some() {
            return first;
        }
        let later = self.values_from(self.start) + self.in_pass(self.ends().0, value)?;
        let passes = floor.saturating_sub(later).div_ceil(self.pass());
        Some(later + passes * self.pass())
    }

    /// The first position whose value is at or beyond `to`. Not for a cycling sequence.
    pub(super) fn at_or_beyond(&self, to: i64) -> u64 {
        let distance = i128::from(to) - i128::from(self.start);
        let step = i128::from(self.increment);
        if (distance > 0) != (step > 0) {
            return 0;
        }
        let steps = distance / step + i128::from(distance % step != 0);
        u64::try_from(steps).unwrap_or(u64::MAX)
    }

    /// The value at a position of the first pass.
    pub fn value(&self, position: u64) -> i64 {
        let distance = i128::from(position) * i128::from(self.increment);
        let value = i128::from(self.start) + distance;
        i64::try_from(value).expect("a position of the first pass")
    }
}
