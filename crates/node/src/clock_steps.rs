//! Detects steps of the wall clock against the monotonic clock, for the log.
//!
//! The clock guard decides whether a step affects minting. This module only detects a step, so that
//! the log records each change of the clock by an operator or a time service, with its size.

use std::time::{Duration, Instant};

use seqd_idgen::WallMs;

/// The smallest reported step. It is far above the slew of a time service between two readings
/// (half a millisecond per second) and below the offset at which a time service steps (128 ms).
const STEP_MS: u64 = 100;

/// If the readings of the two clocks are further apart than this, they are not compared, because
/// the thread was suspended between them.
const APART: Duration = Duration::from_millis(10);

/// The last readings of the two clocks.
#[derive(Debug, Default)]
pub(crate) struct ClockSteps(Option<(WallMs, Instant)>);

impl ClockSteps {
    /// Reads both clocks. Returns the step since the last reading in milliseconds, negative for a
    /// step back.
    pub(crate) fn look(&mut self, wall: impl FnOnce() -> WallMs) -> Option<i64> {
        let before = Instant::now();
        let wall = wall();
        if before.elapsed() > APART {
            return None;
        }
        self.step(wall, before)
    }

    fn step(&mut self, wall: WallMs, now: Instant) -> Option<i64> {
        let (last_wall, last) = self.0.replace((wall, now))?;
        let passed = u64::try_from(now.duration_since(last).as_millis()).ok()?;
        let expected = last_wall.0.saturating_add(passed);
        let step = i64::try_from(wall.0).ok()? - i64::try_from(expected).ok()?;
        (step.unsigned_abs() >= STEP_MS).then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_seen_once_and_slewing_never() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut steps = ClockSteps::default();
        assert_eq!(steps.step(WallMs(1000), at(0)), None);
        assert_eq!(steps.step(WallMs(1251), at(250)), None);
        assert_eq!(steps.step(WallMs(3501), at(500)), Some(2000));
        assert_eq!(steps.step(WallMs(3751), at(750)), None);
        assert_eq!(steps.step(WallMs(1001), at(1000)), Some(-3000));
        assert_eq!(steps.step(WallMs(61_001), at(61_000)), None);
    }
}
