//! A sequence in use is changed: every node continues with the new definition, no value is
//! repeated, and the refusal of an invalid change names the property.

use std::collections::BTreeSet;

use seqd_tests::cluster::Cluster;
use seqd_tests::http::{Reply, request};
use serde_json::{Value, json};

fn patch(cluster: &Cluster, node: usize, name: &str, change: &Value) -> Reply {
    let url = cluster.url(node, &format!("/v1/sequences/{name}"));
    request("PATCH", &url).json(change).reply()
}

#[test]
fn every_node_continues_with_the_change_and_no_value_is_repeated() {
    let mut cluster = Cluster::started(3);
    let small = json!({"max": 300, "segment": {"min": 100, "max": 100}});
    cluster.create_sequence(0, "ticket", &small);
    let mut seen = BTreeSet::new();
    let mut take = |cluster: &Cluster, node: usize, count: u64| {
        let reply = cluster.post(node, &format!("/v1/sequences/ticket/next?count={count}"));
        for range in reply.ok().json()["ranges"].as_array().unwrap() {
            let at = |key: &str| range[key].as_str().unwrap().parse::<i64>().unwrap();
            for value in at("first")..=at("last") {
                assert!(seen.insert(value), "{value} was given twice");
            }
        }
    };
    for node in 0..3 {
        take(&cluster, node, 5);
    }
    let url = cluster.url(1, "/v1/sequences/ticket");
    let before = request("GET", &url).reply().ok();
    let change = json!({
        "max": 100_000,
        "segment": {"target": "1s", "min": 10, "max": 10},
        "description": "from the booth",
    });
    let patched = request("PATCH", &url)
        .header("if-match", before.header("etag").unwrap())
        .json(&change);
    let patched = patched.reply().ok();
    let now = patched.json();
    assert_eq!(now["revision"], 2);
    assert_eq!(now["max"], "100000");
    assert_eq!(
        now["segment"],
        json!({"target": "1s", "min": 10, "max": 10})
    );
    assert_eq!(now["description"], "from the booth");
    assert_ne!(patched.header("etag"), before.header("etag"));
    // The same change by a caller that read the sequence before is refused. A repetition of the
    // change has no effect.
    let late = request("PATCH", &url)
        .header("if-match", before.header("etag").unwrap())
        .json(&change);
    late.reply().refused(412, "precondition-failed");
    let again = patch(&cluster, 2, "ticket", &change).ok().json();
    assert_eq!(again["revision"], 2);
    // The nodes use up their buffers, and then continue beyond the former end with the new sizes.
    cluster.wait_same_state(&[0, 1, 2]);
    for _ in 0..5 {
        for node in 0..3 {
            take(&cluster, node, 60);
        }
    }
    let allocated = || {
        let now = cluster.get(0, "/v1/sequences/ticket").ok().json();
        now["allocated"].as_str().unwrap().parse::<i64>().unwrap()
    };
    let last = seen.last().copied().unwrap();
    assert!(last > 300, "{last}");
    assert!(allocated() < last + 10 * 60, "ranges of the former size");
    assert_eq!(cluster.node_mut(0).stop().code(), Some(0));
}

/// The leader grants beyond the former end just before a follower has applied the new end.
#[test]
fn a_node_serves_values_after_an_end_that_it_has_not_applied_yet() {
    let cluster = Cluster::started(3);
    let small = json!({"max": 10, "segment": {"target": "100ms", "min": 1, "max": 10}});
    cluster.create_sequence(0, "ticket", &small);
    let (leader, follower) = (cluster.leader(), cluster.follower());
    let next = |first: i64| {
        let reply = cluster.post(follower, "/v1/sequences/ticket/next?count=10");
        let range = reply.ok().json();
        assert_eq!(
            range["first"],
            first.to_string(),
            "values before it were lost"
        );
    };
    next(1);
    // This case occurs in about one of fifty rounds.
    for round in 1..=200 {
        let max = 10 * (round + 1);
        patch(&cluster, leader, "ticket", &json!({ "max": max })).ok();
        next(10 * round + 1);
    }
}
