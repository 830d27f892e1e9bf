//! Replaces the crate `base2histogram`, because openraft's statistics are disabled.
//!
//! openraft creates histograms even without its feature `runtime-stats`, although they can be read
//! only with that feature. The first histogram of the original crate fills tables for sixteen
//! resolutions, which take 26 MB of memory per process. This crate has the names that openraft
//! compiles against, and records nothing. See `docs/decisions/0044-openraft-without-histograms.md`.

use std::fmt;
use std::marker::PhantomData;

/// A histogram that stays empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram<T = ()>(PhantomData<T>);

impl<T> Histogram<T> {
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    pub const fn record(&mut self, _value: u64) {}

    pub const fn record_n(&mut self, _value: u64, _count: u64) {}

    #[must_use]
    pub const fn percentile_stats(&self) -> PercentileStats {
        PercentileStats {
            samples: 0,
            p0_1: 0,
            p1: 0,
            p5: 0,
            p10: 0,
            p50: 0,
            p90: 0,
            p99: 0,
            p99_9: 0,
        }
    }
}

/// The percentiles of an empty histogram, which display nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PercentileStats {
    pub samples: u64,
    pub p0_1: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// A chart of empty histograms, which displays nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct AsciiChart;

impl AsciiChart {
    #[must_use]
    pub const fn new() -> Self {
        Self
    }

    #[must_use]
    pub fn add<T>(self, _name: &str, _histogram: Histogram<T>) -> Self {
        self
    }

    #[must_use]
    pub const fn detailed(&self) -> &Self {
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
