//! A response waits for the disks of a quorum and for no others: with every `fdatasync` delayed on
//! any single node, strict values stay fast; with the delay on any two nodes, they wait.

use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::faults::{Strace, why_no_trace};
use serde_json::json;

use crate::sample::strict_latencies;

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
    let cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let delay = Duration::from_millis(delay_ms);
    let free = strict_latencies(&cluster, cluster.leader(), RUNS).median();
    println!("no delay: median {free:?}");
    let mut broken = None;
    for slow in [
        vec![0],
        vec![1],
        vec![2],
        vec![0, 1],
        vec![0, 2],
        vec![1, 2],
    ] {
        let guards: Vec<Strace> = slow
            .iter()
            .map(|&i| Strace::delay_fdatasync(cluster.node(i), delay, cluster.folder()))
            .collect();
        let leader = cluster.leader();
        let median = strict_latencies(&cluster, leader, RUNS).median();
        for (guard, node) in guards.iter().zip(&slow) {
            assert!(
                guard.fdatasyncs() > 0,
                "the delay of n{} did not bite",
                node + 1
            );
        }
        let names: Vec<String> = slow.iter().map(|i| format!("n{}", i + 1)).collect();
        println!(
            "{delay:?} on {}: median {median:?}, leader n{}",
            names.join(" and "),
            leader + 1
        );
        let quick = slow.len() == 1 && median < delay.mul_f64(ONE_SLOW_SHARE);
        let slow_enough = slow.len() == 2 && median >= delay.mul_f64(TWO_SLOW_SHARE);
        if !quick && !slow_enough {
            broken = Some(format!(
                "{median:?} with slow disks of {}",
                names.join(" and ")
            ));
        }
    }
    match broken {
        None => Ok(()),
        Some(detail) => Err(Violation::new("a quorum's disks and no more", detail)),
    }
}
