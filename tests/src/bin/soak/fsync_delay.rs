//! A response waits for the disks of a quorum and for no others: with every `fdatasync` delayed on
//! any single node, strict values stay fast; with the delay on any two nodes, they wait.

use std::time::{Duration, Instant};

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::faults::{Strace, why_no_trace};
use seqd_tests::report::{Report, Times};

const RUNS: usize = 60;

/// The limits of the median, as shares of the delay of 30 ms: at most this with one slow disk, and
/// at least this with two.
const ONE_SLOW_SHARE: f64 = 25.0 / 30.0;
const TWO_SLOW_SHARE: f64 = 28.0 / 30.0;

pub(crate) fn run(delay_ms: u64) -> Result<(), Violation> {
    assert_eq!(
        why_no_trace(),
        None,
        "strace is needed, and the right to trace"
    );
    let cluster = Cluster::started(3).with_order();
    let delay = Duration::from_millis(delay_ms);
    let mut report = Report::default();
    println!("  no delay: {}", strict_latencies(&cluster));
    for slow in [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[1, 2]] {
        let delayed = |&node| Strace::delay_fdatasync(cluster.node(node), delay, cluster.folder());
        let guards: Vec<Strace> = slow.iter().map(delayed).collect();
        let times = strict_latencies(&cluster);
        let bites = guards.iter().all(|guard| guard.fdatasyncs() > 0);
        assert!(bites, "a delay of {slow:?} did not bite");
        let line = format!("{delay:?} on the nodes {slow:?} of 0 to 2: {times}");
        println!("  {line}");
        let holds = match slow.len() {
            1 => times.median() < delay.mul_f64(ONE_SLOW_SHARE),
            _ => times.median() >= delay.mul_f64(TWO_SLOW_SHARE),
        };
        report.require(holds, "a quorum's disks and no more", line);
    }
    report.verdict()
}

/// The latencies of strict values, requested one after another through the leader.
fn strict_latencies(cluster: &Cluster) -> Times {
    let leader = cluster.leader();
    Times::of((0..RUNS).map(|_| {
        let begin = Instant::now();
        cluster.next(leader, "order", 1);
        begin.elapsed()
    }))
}
