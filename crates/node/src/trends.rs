//! Recent statistics of a node, for a diagnosis: the durations of syncs and commits and the changes
//! of the leader in the last ten minutes, and the growth of the used space in the last day.
//!
//! The counters of the metrics cover the time since the start of the node, but a disk that has
//! become slow, or that was slow last week, must be judged by its recent syncs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use seqd_api::LatencyFacts;
use seqd_net::Lock;
use seqd_raft::{Raft, StorageStats};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The interval between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);

/// The number of samples of the last ten minutes.
const SAMPLES: usize = 60;

/// The interval between two samples of the free space, of which a day is kept.
const SPACE_EVERY: Duration = Duration::from_secs(10 * 60);
const SPACES: usize = 144;

/// The least time over which growth counts as a rate: a log grows and shrinks with every snapshot.
const LEAST_SPAN: Duration = Duration::from_secs(6 * 60 * 60);

/// Cumulative counts: (upper bound in seconds, count).
type Buckets = [(f64, u64)];

#[derive(Debug, Default)]
pub(crate) struct Trends(Lock<History>);

#[derive(Debug, Default)]
struct History {
    /// Oldest first.
    samples: VecDeque<Sample>,
    /// Free bytes, oldest first.
    spaces: VecDeque<(Instant, u64)>,
}

#[derive(Debug)]
struct Sample {
    stats: StorageStats,
    leader_changes: u64,
}

/// The node's recent past.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    pub(crate) fsync: LatencyFacts,
    pub(crate) commit: LatencyFacts,
    pub(crate) leader_changes: u64,
    /// The time until only the reserve remains.
    pub(crate) full_in: Option<Duration>,
}

impl Trends {
    fn note(&self, stats: StorageStats, leader_changes: u64) {
        let now = Instant::now();
        let mut kept = self.0.lock();
        let last = kept.spaces.back().map(|(at, _)| *at);
        if stats.free_bytes > 0 && last.is_none_or(|at| now.duration_since(at) >= SPACE_EVERY) {
            kept.spaces.push_back((now, stats.free_bytes));
        }
        kept.samples.push_back(Sample {
            stats,
            leader_changes,
        });
        while kept.samples.len() > SAMPLES {
            kept.samples.pop_front();
        }
        while kept.spaces.len() > SPACES {
            kept.spaces.pop_front();
        }
    }

    /// Compares the present counters with the oldest kept ones.
    pub(crate) fn recent(&self, now: &StorageStats, leader_changes: u64) -> Recent {
        let kept = self.0.lock();
        let none = Sample {
            stats: StorageStats::default(),
            leader_changes: 0,
        };
        let before = kept.samples.front().unwrap_or(&none);
        let of = |read: fn(&StorageStats) -> (&Buckets, u64)| {
            let old = kept.samples.iter().map(|sample| read(&sample.stats));
            latency(old, read(now))
        };
        Recent {
            fsync: of(|stats| (&stats.fsync_buckets, stats.fsyncs)),
            commit: of(|stats| (&stats.commit_buckets, stats.commits.0)),
            leader_changes: leader_changes.saturating_sub(before.leader_changes),
            full_in: kept.spaces.front().and_then(|(since, free)| {
                let (span, grown) = (since.elapsed(), free.checked_sub(now.free_bytes)?);
                let left = now.free_bytes.saturating_sub(now.reserve_bytes);
                let is_known = grown > 0 && span >= LEAST_SPAN;
                let seconds = span.as_secs_f64() * left as f64 / grown as f64;
                // A time that is too long for a duration is no forecast.
                let full_in = Duration::try_from_secs_f64(seconds).ok();
                full_in.filter(|_| is_known)
            }),
        }
    }
}

/// The durations since earlier readings of a histogram, oldest first: the 99th percentile since the
/// oldest, and the median of the latest [`LatencyFacts::ENOUGH`] or more, which reflects a change
/// soon.
fn latency<'a>(
    earlier: impl DoubleEndedIterator<Item = (&'a Buckets, u64)>,
    (new, all): (&Buckets, u64),
) -> LatencyFacts {
    let since = |old: &Buckets| -> Vec<(f64, u64)> {
        let before = |at: usize| old.get(at).map_or(0, |(_, count)| *count);
        let new = new.iter().enumerate();
        new.map(|(at, (bound, count))| (*bound, count.saturating_sub(before(at))))
            .collect()
    };
    let mut earlier = earlier.peekable();
    let (oldest, before) = earlier.peek().copied().unwrap_or((&[], 0));
    let count = all.saturating_sub(before);
    let latest = earlier.rfind(|(_, before)| all.saturating_sub(*before) >= LatencyFacts::ENOUGH);
    let (lately, lately_before) = latest.unwrap_or((oldest, before));
    let lately_count = all.saturating_sub(lately_before);
    LatencyFacts {
        count,
        p50_ms: quantile(&since(lately), lately_count, 0.5) * 1000.0,
        p99_ms: quantile(&since(oldest), count, 0.99) * 1000.0,
    }
}

/// A quantile in seconds, interpolated within its bucket. Durations beyond the last bound count as
/// that bound.
fn quantile(buckets: &Buckets, count: u64, part: f64) -> f64 {
    if count == 0 {
        return 0.0;
    }
    let rank = part * count as f64;
    let (mut lower, mut below) = (0.0, 0_u64);
    for (bound, count) in buckets {
        if *count as f64 >= rank {
            let within = count.saturating_sub(below).max(1) as f64;
            return lower + (bound - lower) * ((rank - below as f64) / within).clamp(0.0, 1.0);
        }
        (lower, below) = (*bound, *count);
    }
    lower
}

/// Keeps the samples. Never returns.
pub(crate) async fn keep(trends: Arc<Trends>, raft: Raft) {
    let mut ticks = interval(SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        trends.note(raft.storage_stats(), raft.status().leader_changes);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn stats(fast: u64, slow: u64, free_bytes: u64) -> StorageStats {
        StorageStats {
            fsyncs: fast + slow,
            fsync_buckets: vec![(0.001, fast), (0.05, fast), (0.1, fast + slow)],
            free_bytes,
            reserve_bytes: 100,
            ..StorageStats::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_is_judged_by_its_recent_syncs() {
        let trends = Trends::default();
        let first = trends.recent(&stats(100, 0, 1000), 3);
        assert_eq!((first.fsync.count, first.leader_changes), (100, 3));
        assert!(first.fsync.p99_ms <= 1.0, "{first:?}");
        trends.note(stats(1000, 0, 1000), 3);
        let slow = trends.recent(&stats(1000, 10, 1000), 4);
        assert_eq!((slow.fsync.count, slow.leader_changes), (10, 1));
        assert!(slow.fsync.p50_ms > 50.0, "{slow:?}");
        // The median is that of the latest syncs, once there are enough.
        trends.note(stats(2000, 10, 1000), 3);
        let fast = trends.recent(&stats(2000, 20, 1000), 4);
        assert!(fast.fsync.p50_ms <= 1.0, "{fast:?}");
        let slow = trends.recent(&stats(2000, 50, 1000), 4);
        assert!(slow.fsync.p50_ms > 50.0, "{slow:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_fills_has_a_forecast_after_six_hours() {
        let trends = Trends::default();
        trends.note(stats(0, 0, 1100), 0);
        advance(LEAST_SPAN / 2).await;
        assert_eq!(trends.recent(&stats(0, 0, 800), 0).full_in, None);
        advance(LEAST_SPAN / 2).await;
        assert_eq!(trends.recent(&stats(0, 0, 1100), 0).full_in, None);
        // Half of the bytes above the reserve were used in six hours.
        let forecast = trends.recent(&stats(0, 0, 600), 0).full_in;
        assert_eq!(forecast, Some(LEAST_SPAN));
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_fills_in_more_time_than_a_duration_has_is_without_a_forecast() {
        let trends = Trends::default();
        trends.note(stats(0, 0, u64::MAX), 0);
        advance(LEAST_SPAN).await;
        let forecast = trends.recent(&stats(0, 0, u64::MAX - 1), 0).full_in;
        assert_eq!(forecast, None);
    }
}
