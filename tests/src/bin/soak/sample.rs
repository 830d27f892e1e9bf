//! Durations that were measured one after another, and their quantiles.

use std::time::{Duration, Instant};

use seqd_tests::cluster::Cluster;
use seqd_tests::load::quantile;

/// Durations, sorted.
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The value that `share` (0 to 1) of the durations do not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        quantile(&self.0, share)
    }

    pub(crate) fn median(&self) -> Duration {
        self.quantile(0.5)
    }
}

/// The latencies of strict values that are requested one after another through one node.
pub(crate) fn strict_latencies(cluster: &Cluster, node: usize, runs: usize) -> Sample {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begin = Instant::now();
        cluster.next(node, "order", 1);
        times.push(begin.elapsed());
    }
    Sample::new(times)
}
