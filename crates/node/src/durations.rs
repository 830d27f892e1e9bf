//! A lock-free histogram of durations, since each response is counted in one.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// The upper bound of the first bucket. Each following bound is twice the one before.
const FIRST_MICROS: u64 = 50;

/// The number of bounds: up to 6.5 seconds.
const BOUNDS: usize = 18;

/// Counts durations by their size. Clones share their counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// The durations up to each bound and above the one before; the last ones are above all bounds.
    buckets: [AtomicU64; BOUNDS + 1],
    sum_nanos: AtomicU64,
}

impl Durations {
    pub(crate) fn observe(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let counts = &self.0;
        counts.buckets[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        counts.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// The index of the first bound that is not below the duration.
fn bucket(nanos: u64) -> usize {
    // A bound belongs to its own bucket.
    let units = nanos.saturating_sub(1) / (FIRST_MICROS * 1000);
    let above = u64::BITS - units.leading_zeros();
    (above as usize).min(BOUNDS)
}

impl TypedMetric for Durations {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.0.buckets.iter().map(|it| it.load(Ordering::Relaxed));
        let bounds = (0..BOUNDS).map(|at| (FIRST_MICROS << at) as f64 / 1e6);
        let buckets: Vec<(f64, u64)> = bounds.chain([f64::INFINITY]).zip(counts).collect();
        // Counted from the same reads, so that the last bucket is never above the count.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = self.0.sum_nanos.load(Ordering::Relaxed) as f64 / 1e9;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn durations_are_counted_as_by_the_histogram_of_the_library() {
        let (own, theirs) = (
            Durations::default(),
            Histogram::new(exponential_buckets(0.000_05, 2.0, 18)),
        );
        for micros in [
            0, 1, 49, 50, 51, 99, 100, 101, 200, 1_000, 6_553_600, 6_553_601, 90_000_000,
        ] {
            let took = Duration::from_micros(micros);
            own.observe(took);
            theirs.observe(took.as_secs_f64());
        }
        let text = |registry: &Registry| {
            let mut text = String::new();
            encode(&mut text, registry).unwrap();
            text.lines()
                .filter(|line| !line.contains("_sum"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let (mut one, mut other) = (Registry::default(), Registry::default());
        one.register("took", "Time", own);
        other.register("took", "Time", theirs);
        assert_eq!(text(&one), text(&other));
    }
}
