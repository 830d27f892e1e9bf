//! From `kill -9` of the leader to the next acknowledged strict value.

use std::time::{Duration, Instant};

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::http;
use serde_json::json;

use crate::sample::Sample;

/// The median that three etcd nodes need, measured on two cores.
const TO_BEAT: Duration = Duration::from_millis(1100);

pub(crate) fn run(runs: u64) -> Result<(), Violation> {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let mut times = Vec::new();
    for run in 1..=runs {
        cluster.next(0, "order", 1);
        let leader = cluster.leader();
        let url = cluster.url((leader + 1) % 3, "/v1/sequences/order/next");
        let begin = Instant::now();
        cluster.node_mut(leader).kill();
        let acknowledged = loop {
            let reply = http::post(&url).reply();
            if reply.status == 200 {
                break begin.elapsed();
            }
            assert!(
                begin.elapsed() < Duration::from_secs(30),
                "no value again: {reply:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        };
        println!("run {run}: {acknowledged:?}");
        times.push(acknowledged);
        cluster.node_mut(leader).start();
        cluster.wait_ready();
    }
    let sample = Sample::new(times);
    let (least, median, most) = (sample.quantile(0.0), sample.median(), sample.quantile(1.0));
    println!("least {least:?}, median {median:?}, most {most:?}");
    if median > TO_BEAT {
        let detail = format!("a median of {median:?}, {TO_BEAT:?} is to be beaten");
        return Err(Violation::new("failover", detail));
    }
    Ok(())
}
