//! One worker at the limit of its layout's bits, and four workers on one node, in batches.
//!
//! Rates are measured second by second, and the median of the seconds is judged. The processor time
//! of the node, from its metrics, is printed with the rates.

use std::path::Path;
use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::load::{Pace, Target, quantile, run as load};

/// A batch request with this many clients.
#[derive(Clone, Copy)]
struct Row {
    layout: &'static str,
    count: u32,
    clients: usize,
    /// IDs per second that one worker can mint, by the layout's bits.
    limit: f64,
}

const DEFAULT: Row = Row {
    layout: "default",
    count: 1000,
    clients: 1,
    limit: 4_096_000.0,
};

/// The layout's bits, and not the processor, are also the limit of several workers.
const JS53: Row = Row {
    layout: "js53",
    count: 100,
    clients: 16,
    limit: 128_000.0,
};

/// The share of its bits' limit that one worker must reach.
const OF_LIMIT: f64 = 0.99;

/// The multiple of one worker's rate that four workers must reach.
const TIMES: f64 = 3.9;

pub(crate) fn run(other: Option<&Path>, seconds: usize) -> Result<(), Violation> {
    let mut misses = Vec::new();
    for clients in [1, 4, 16] {
        let row = Row { clients, ..DEFAULT };
        if let Some(other) = other {
            measure("the other build", &node(Some(other), 1), row, seconds);
        }
        let rate = measure("one worker", &node(None, 1), row, seconds);
        if rate < OF_LIMIT * row.limit {
            misses.push(format!(
                "one worker at {:.3} of its limit",
                rate / row.limit
            ));
        }
    }
    for row in [
        JS53,
        Row {
            clients: 16,
            ..DEFAULT
        },
    ] {
        let one = measure("one worker", &node(None, 1), row, seconds);
        let four = measure("four workers", &node(None, 4), row, seconds);
        println!("four workers make {:.2} times the IDs of one", four / one);
        if row.layout == JS53.layout && four < TIMES * one {
            misses.push(format!("four workers at {:.2} times one", four / one));
        }
    }
    if misses.is_empty() {
        return Ok(());
    }
    Err(Violation::new("the figures", misses.join("; ")))
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

/// The median of IDs per second. Prints it with the share of the limit and the processor time.
fn measure(what: &str, cluster: &Cluster, row: Row, seconds: usize) -> f64 {
    let target = Target {
        addresses: vec![cluster.address(0)],
        method: "GET",
        path: format!("/v1/ids?layout={}&count={}", row.layout, row.count),
        cacert: None,
    };
    let second = || load(&target, row.clients, Pace::Closed, Duration::from_secs(1));
    // The first use of a layout leases one worker, and the load leases the others when they are
    // needed.
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
