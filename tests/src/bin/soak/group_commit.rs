//! Group commit: the number of acknowledgements per `fdatasync` of the leader.

use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::faults::{Strace, why_no_trace};
use seqd_tests::load::{Pace, Target, run as load};
use serde_json::json;

/// The smallest acceptable number with 64 clients.
const LEAST: f64 = 10.0;

pub(crate) fn run(clients: u64) -> Result<(), Violation> {
    assert_eq!(
        why_no_trace(),
        None,
        "strace is needed, and the right to trace"
    );
    let cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let leader = cluster.leader();
    let strace = Strace::watch_fdatasync(cluster.node(leader), cluster.folder());
    let target = Target {
        addresses: cluster.addresses(),
        method: "POST",
        path: "/v1/sequences/order/next".into(),
        cacert: None,
    };
    let clients = usize::try_from(clients).expect("a number of clients");
    let before = strace.fdatasyncs();
    let figures = load(&target, clients, Pace::Closed, Duration::from_secs(5));
    let fsyncs = strace.fdatasyncs() - before;
    assert!(fsyncs > 0, "no fdatasync was seen");
    let share = figures.answers as f64 / fsyncs as f64;
    println!(
        "{clients} clients: {} acknowledgements, {fsyncs} fdatasync of the leader: {share:.1} each",
        figures.answers
    );
    if share < LEAST {
        let detail = format!("{share:.1} acknowledgements per fdatasync, {LEAST} are demanded");
        return Err(Violation::new("group commit", detail));
    }
    Ok(())
}
