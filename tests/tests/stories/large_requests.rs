//! Large requests, many at the same time: they are refused, and no node exits.

use std::thread;

use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::http::{self, Reply};
use serde_json::json;

/// The number of concurrent creations. With their descriptions they exceed the size of a message
/// between nodes.
const AT_ONCE: usize = 300;

/// A description that just fits the largest body of a request.
const DESCRIPTION_BYTES: usize = 60_000;

/// Sends all requests at the same time through one node. Returns the responses.
fn creations(cluster: &Cluster, through: usize, round: usize) -> Vec<Reply> {
    let definition = json!({"description": "d".repeat(DESCRIPTION_BYTES)});
    let create = |n: usize| {
        let url = cluster.url(through, &format!("/v1/sequences/s{round}.{n}"));
        let request = http::request("PUT", &url).json(&definition);
        move || request.patience(READY).send()
    };
    thread::scope(|scope| {
        let started: Vec<_> = (0..AT_ONCE).map(|n| scope.spawn(create(n))).collect();
        let answers = started.into_iter().map(|one| one.join().expect("a thread"));
        answers.map(|answer| answer.expect("an answer")).collect()
    })
}

#[test]
fn creations_with_large_descriptions_are_refused_and_end_no_node() {
    let mut cluster = Cluster::started(3).with_order();
    let leader = cluster.leader();
    for (round, through) in [leader, cluster.follower()].into_iter().enumerate() {
        for answer in creations(&cluster, through, round) {
            let answer = answer.refused(400, "invalid-argument");
            assert!(answer.body.contains("1024"), "{}", answer.body);
        }
        for node in 0..3 {
            assert!(cluster.node_mut(node).is_running());
        }
        let value = i64::try_from(round).expect("small") + 1;
        assert_eq!(cluster.next(through, "order", 1), (value, value));
    }
}
