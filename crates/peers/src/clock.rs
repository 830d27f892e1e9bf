//! A peer's wall clock: its line, measured with one exchange of messages, and its drift.

use std::collections::VecDeque;
use std::time::Duration;

use seqd_state::idgen::{Line, WallMs};
use tokio::time::Instant;

/// A peer's clock relative to this node's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    pub line: Line,
    pub seen: Instant,
}

impl Measured {
    /// The measurement from a response. The response counts as written half-way between `asked`, by
    /// this node's monotonic clock, and now, which is `took` later. It may have been written at
    /// either end.
    pub fn of_answer(asked: Duration, took: Duration, answered: WallMs) -> Self {
        let half_ms = u64::try_from(took.as_millis() / 2).unwrap_or(u64::MAX);
        Self {
            line: Line::of(answered, asked + took / 2, half_ms.saturating_add(1)),
            seen: Instant::now(),
        }
    }
}

/// The time between two samples of a drift, and the number of samples kept, which cover ten
/// minutes.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
const SAMPLES: usize = 60;

/// The shortest time over which a drift is computed. Over less, half a round trip of a millisecond
/// would exceed the drift of a bad clock.
const LEAST_SPAN: Duration = Duration::from_secs(60);

/// A larger change between two samples is a step, and the measurement of the drift starts again.
const STEP_MS: u64 = 100;

/// The rate at which two clocks diverge.
#[derive(Clone, Debug, Default)]
pub struct Drift {
    /// The monotonic time of each sample, and the milliseconds by which one clock was ahead.
    samples: VecDeque<(Duration, i64)>,
}

impl Drift {
    pub fn sample(&mut self, at: Duration, ahead_ms: i64) {
        if let Some((last_at, last_ms)) = self.samples.back() {
            if last_ms.abs_diff(ahead_ms) > STEP_MS {
                self.samples.clear();
            } else if at.saturating_sub(*last_at) < SAMPLE_EVERY {
                return;
            }
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((at, ahead_ms));
    }

    /// Returns the drift in microseconds per second, positive if the first clock gains. `None`
    /// while it is unknown.
    pub fn ppm(&self) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let span = last.0.checked_sub(first.0)?;
        let gained_ms = last.1.saturating_sub(first.1);
        (span >= LEAST_SPAN).then(|| gained_ms as f64 * 1000.0 / span.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_taken_as_written_half_way() {
        let (asked, took) = (Duration::from_millis(1_000), Duration::from_millis(40));
        let ahead = Measured::of_answer(asked, took, WallMs(1_520));
        assert_eq!((ahead.line.ms, ahead.line.uncertain_ms), (500, 21));
        let behind = Measured::of_answer(asked, took, WallMs(920));
        assert_eq!(behind.line.ms, -100);
    }

    #[test]
    fn a_drift_is_known_after_a_minute_and_measured_again_after_a_step() {
        let mut drift = Drift::default();
        let at = Duration::from_secs;
        for second in 0..60 {
            drift.sample(at(second), (second / 10) as i64);
            assert_eq!(drift.ppm(), None, "{second}");
        }
        drift.sample(at(60), 6);
        assert_eq!(drift.ppm(), Some(100.0));
        drift.sample(at(70), 3_000);
        assert_eq!(drift.ppm(), None);
        for second in 70..=7_000 {
            drift.sample(at(second), 3_000);
        }
        assert_eq!(drift.ppm(), Some(0.0));
        assert_eq!(drift.samples.len(), SAMPLES);
    }
}
