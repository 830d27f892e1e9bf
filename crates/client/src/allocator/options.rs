//! The options of an allocator.

use std::time::Duration;

use seqd_api::GrantRequest;

use super::error::AllocateError;

/// The default patience: a slow election and the recovery after it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The default time that a segment lasts. A segment is fetched when a tenth of its predecessor is
/// used, so values last for nine seconds without the cluster, longer than an election.
const TARGET: Duration = Duration::from_secs(10);

/// The options of an allocator.
#[derive(Debug, Clone)]
pub struct AllocatorOptions {
    /// The smallest segment, which is also the first. The default is 1,000.
    pub min: u64,
    /// The largest segment, up to 100,000,000. The default is 1,000,000. A killed process loses at
    /// most two segments.
    pub max: u64,
    /// The time that a segment should last. The size of the next segment follows from the rate at
    /// which the current one is used. The default is 10 s.
    pub target: Duration,
    /// The time for which a call waits for a segment, and for which a close waits until unused
    /// values are returned. The default is 5 s.
    pub patience: Duration,
}

impl Default for AllocatorOptions {
    fn default() -> Self {
        Self {
            min: 1_000,
            max: 1_000_000,
            target: TARGET,
            patience: PATIENCE,
        }
    }
}

/// The largest growth from one segment to the next, so that a short burst does not reserve a large
/// segment. Four segments lead from 1,000 to 1,000,000.
const GROWTH: u64 = 8;

impl AllocatorOptions {
    pub(super) fn check(&self) -> Result<(), AllocateError> {
        let most = GrantRequest::MAX_SIZE;
        if self.min == 0 || self.min > self.max || self.max > most {
            let Self { min, max, .. } = self;
            return Err(AllocateError::Options(format!(
                "the sizes of segments are 1 <= min <= max <= {most}, not min {min} and max {max}"
            )));
        }
        if self.target.is_zero() {
            let why = "the time that a segment lasts is above zero, such as 10 s";
            return Err(AllocateError::Options(why.to_owned()));
        }
        Ok(())
    }

    /// The size of the next segment after `used` values of one of `size` were used in this time. At
    /// least `missing` values are wanted.
    pub(super) fn size(&self, size: u64, used: u64, in_time: Duration, missing: u64) -> u64 {
        let nanos = in_time.as_nanos().max(1);
        let wanted = u128::from(used) * self.target.as_nanos() / nanos;
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let wanted = wanted.min(size.saturating_mul(GROWTH));
        wanted.max(missing).clamp(self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of segments under a constant rate, each requested when a tenth of the one before
    /// is used.
    fn sizes(from: u64, per_second: u64, count: usize) -> Vec<u64> {
        let options = AllocatorOptions::default();
        let mut size = from;
        let next = || {
            let used = (size / 10).max(1);
            let time = Duration::from_secs_f64(used as f64 / per_second as f64);
            size = options.size(size, used, time, 0);
            Some(size)
        };
        std::iter::from_fn(next).take(count).collect()
    }

    #[test]
    fn the_size_follows_the_load_and_back() {
        let up = sizes(1_000, 100_000, 5);
        assert_eq!(up, [8_000, 64_000, 512_000, 1_000_000, 1_000_000]);
        assert_eq!(sizes(1_000_000, 100, 2), [1_000, 1_000]);
        let middle = sizes(1_000, 2_000, 3);
        assert!((19_000..=21_000).contains(&middle[2]), "{middle:?}");
    }

    #[test]
    fn bounds_and_missing_values_count() {
        let options = AllocatorOptions::default();
        let second = Duration::from_secs(1);
        assert_eq!(options.size(1_000, 0, second, 0), 1_000);
        assert_eq!(options.size(1_000, 0, second, 50_000), 50_000);
        assert_eq!(options.size(1_000, 0, second, u64::MAX), 1_000_000);
        assert_eq!(
            options.size(u64::MAX, u64::MAX, Duration::ZERO, 0),
            1_000_000
        );
        assert!(options.check().is_ok());
        for (min, max) in [(0, 1), (2, 1), (1, 100_000_001)] {
            let wrong = AllocatorOptions {
                min,
                max,
                ..AllocatorOptions::default()
            };
            assert!(wrong.check().is_err(), "{min} {max}");
        }
    }
}
