//! Counts and latencies of a round.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::failure::Failure;

/// The range of latencies that the histogram distinguishes, in nanoseconds. Longer latencies count
/// as the largest.
const BOUNDS: (u64, u64) = (100, 600_000_000_000);

/// The number of significant digits of the histogram.
const DIGITS: u8 = 3;

/// The counts and latencies of a target, of one or several rounds.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Successful actions.
    pub(crate) actions: u64,
    /// The numbers that they returned.
    pub(crate) numbers: u64,
    /// The failed actions, by code.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) first_failure: Option<Failure>,
    pub(crate) elapsed: Duration,
    /// The processor time of the load generator's thread.
    pub(crate) busy: Duration,
    /// `None` until the first latency.
    latencies: Option<Histogram<u64>>,
}

/// The latencies in milliseconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Latencies {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p99_9: f64,
    pub(crate) max: f64,
}

impl Figures {
    pub(crate) fn succeeded(&mut self, latency: Duration, numbers: u64) {
        self.actions += 1;
        self.numbers += numbers;
        if self.latencies.is_none() {
            // Cannot fail, because the bounds are valid.
            self.latencies = Histogram::new_with_bounds(BOUNDS.0, BOUNDS.1, DIGITS).ok();
        }
        if let Some(histogram) = &mut self.latencies {
            histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    pub(crate) fn failed(&mut self, failure: Failure, count: u64) {
        *self.errors.entry(failure.code().to_owned()).or_default() += count;
        self.first_failure.get_or_insert(failure);
    }

    pub(crate) fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Adds the figures of another round.
    pub(crate) fn add(&mut self, other: Self) {
        self.actions += other.actions;
        self.numbers += other.numbers;
        self.elapsed += other.elapsed;
        self.busy += other.busy;
        for (code, count) in other.errors {
            *self.errors.entry(code).or_default() += count;
        }
        self.first_failure = self.first_failure.take().or(other.first_failure);
        match (&mut self.latencies, other.latencies) {
            // Both have the same bounds.
            (Some(all), Some(more)) => drop(all.add(more)),
            (all @ None, more) => *all = more,
            (Some(_), None) => {}
        }
    }

    pub(crate) fn per_second(&self, count: u64) -> f64 {
        if self.elapsed.is_zero() {
            return 0.0;
        }
        count as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn latencies(&self) -> Latencies {
        let Some(histogram) = &self.latencies else {
            return Latencies::default();
        };
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let at = |share| ms(histogram.value_at_quantile(share));
        Latencies {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: ms(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up() {
        let of = |from: u64, code: &str| {
            let mut figures = Figures::default();
            for ms in from..from + 100 {
                figures.succeeded(Duration::from_millis(ms), 2);
            }
            figures.failed(Failure::of(1, code, code), 1);
            figures.elapsed = Duration::from_secs(1);
            figures
        };
        let mut all = Figures::default();
        all.add(of(1, "a"));
        all.add(of(101, "b"));
        let latencies = all.latencies();
        assert!((latencies.p50 - 100.0).abs() < 0.2, "{latencies:?}");
        assert!((latencies.max - 200.0).abs() < 0.2, "{latencies:?}");
        assert_eq!((all.error_count(), all.errors.len()), (2, 2));
        assert_eq!(all.first_failure.as_ref().unwrap().detail(), "a");
        assert_eq!(
            (all.per_second(all.actions), all.per_second(all.numbers)),
            (100.0, 200.0)
        );
    }

    #[test]
    fn no_request_has_no_rate() {
        let none = Figures::default();
        assert_eq!((none.per_second(0), none.latencies().max), (0.0, 0.0));
    }
}
