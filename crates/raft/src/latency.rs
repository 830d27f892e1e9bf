//! A histogram of durations, counted without locks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in seconds, from half the sync of a disk to the time of a whole
/// request.
const BOUNDS: [f64; 12] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 3.0,
];

#[derive(Default)]
pub(crate) struct Latency {
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    sum_ns: AtomicU64,
}

impl Latency {
    pub(crate) fn record(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        if let Some(at) = BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.buckets[at].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Cumulative counts by upper bound, seconds.
    pub(crate) fn cumulative(&self) -> Vec<(f64, u64)> {
        let buckets = self.buckets.iter();
        let counts = buckets.map(|bucket| bucket.load(Ordering::Relaxed));
        cumulative(BOUNDS.into_iter().zip(counts))
    }

    /// The number of durations, and their sum in seconds.
    pub(crate) fn totals(&self) -> (u64, f64) {
        let sum = Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed));
        (self.count.load(Ordering::Relaxed), sum.as_secs_f64())
    }
}

/// Converts the counts of buckets, by upper bound, to cumulative ones.
pub(crate) fn cumulative(buckets: impl Iterator<Item = (f64, u64)>) -> Vec<(f64, u64)> {
    let mut total = 0;
    let sums = buckets.map(|(bound, count)| {
        total += count;
        (bound, total)
    });
    sums.collect()
}
