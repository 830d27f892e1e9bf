//! One worker at the limit of its layout's bits, and four on one node, in batches.
//!
//! The rate is measured each second, and the median is judged. The output also has the processor
//! time of the node from its metrics.

use std::path::Path;
use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::load::Target;
use seqd_tests::report::{Report, quantile};

use crate::arguments::Arguments;

/// Requests for a batch, from this many clients.
#[derive(Clone, Copy)]
struct Row {
    layout: &'static str,
    count: u32,
    clients: usize,
    /// IDs that one worker can mint per second, by the layout's bits.
    limit: f64,
}

const fn default(clients: usize) -> Row {
    Row {
        layout: "default",
        count: 1000,
        clients,
        limit: 4_096_000.0,
    }
}

/// A layout whose bits, and not the processor, limit several workers too.
const JS53: Row = Row {
    layout: "js53",
    count: 100,
    clients: 16,
    limit: 128_000.0,
};

/// The share of its bits' limit that one worker must reach.
const OF_LIMIT: f64 = 0.99;

/// The least ratio of the rate of four workers to that of one.
const TIMES: f64 = 3.9;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--with --seconds");
    let other = arguments.text("--with").map(Path::new);
    let seconds = arguments.value("--seconds", 10);
    let mut report = Report::default();
    for row in [1, 4, 16].map(default) {
        if other.is_some() {
            measure("the other build", &node(other, 1), row, seconds);
        }
        let share = measure("one worker", &node(None, 1), row, seconds) / row.limit;
        report.require(
            share >= OF_LIMIT,
            "one worker of its limit",
            share.to_string(),
        );
    }
    for row in [JS53, default(16)] {
        let one = measure("one worker", &node(None, 1), row, seconds);
        let times = measure("four workers", &node(None, 4), row, seconds) / one;
        println!("four workers make {times:.2} times the IDs of one");
        let holds = row.layout != JS53.layout || times >= TIMES;
        report.require(holds, "four workers of one", times.to_string());
    }
    report.verdict()
}

/// A single node that may lease this many workers.
fn node(binary: Option<&Path>, workers: u32) -> Cluster {
    let mut cluster = Cluster::planned(1);
    if workers > 1 {
        cluster = cluster.with("clock", "workers", &workers.to_string());
    }
    cluster.node_mut(0).set_binary(binary);
    cluster.ready()
}

/// Returns the median of IDs per second. Prints it with the share of the limit and the processor
/// time.
fn measure(what: &str, cluster: &Cluster, row: Row, seconds: usize) -> f64 {
    let path = format!("/v1/ids?layout={}&count={}", row.layout, row.count);
    let target = Target::get(vec![cluster.address(0)], &path);
    let second = || target.closed(row.clients, Duration::from_secs(1));
    // The first use of a layout leases its worker, and the load leases further ones on demand.
    second();
    let spent = || cluster.metric(0, "process_cpu_seconds_total");
    let (before, mut rates, mut elapsed) = (spent(), Vec::new(), 0.0);
    for _ in 0..seconds {
        let figures = second();
        assert_eq!(figures.failures, 0, "{what}");
        elapsed += figures.elapsed.as_secs_f64();
        rates.push(figures.rate() * f64::from(row.count));
    }
    let cpu = (spent() - before) / elapsed;
    rates.sort_unstable_by(f64::total_cmp);
    let (rate, least) = (quantile(&rates, 0.5), rates[0]);
    println!(
        "{what:<16} {:<8} {:>3} clients {rate:>10.0} IDs/s (least {least:.0})  {:.3} of a worker's bits  \
         {cpu:.2} s of CPU a second",
        row.layout,
        row.clients,
        rate / row.limit
    );
    rate
}
