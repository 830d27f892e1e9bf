//! Group commit: the number of acknowledgements per `fdatasync` of the leader.

use std::time::Duration;

use seqd_tests::checkers::{Violation, require};
use seqd_tests::cluster::Cluster;
use seqd_tests::faults::{Strace, why_no_trace};
use seqd_tests::load::Target;

/// The smallest acceptable number with 64 clients.
const LEAST: f64 = 10.0;

pub(crate) fn run(clients: u64) -> Result<(), Violation> {
    assert_eq!(
        why_no_trace(),
        None,
        "strace is needed, and the right to trace"
    );
    let cluster = Cluster::started(3).with_order();
    let leader = cluster.leader();
    let strace = Strace::watch_fdatasync(cluster.node(leader), cluster.folder());
    let target = Target::order(cluster.addresses());
    let before = strace.fdatasyncs();
    let figures = target.closed(clients as usize, Duration::from_secs(5));
    let (answers, fsyncs) = (figures.answers, strace.fdatasyncs() - before);
    assert!(fsyncs > 0, "no fdatasync was seen");
    let share = answers as f64 / fsyncs as f64;
    let line = format!("{answers} acknowledgements, {fsyncs} fdatasync of the leader: {share:.1}");
    println!("{clients} clients: {line} each");
    require(share >= LEAST, "group commit", line)
}
