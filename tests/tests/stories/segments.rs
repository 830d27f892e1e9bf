//! Segment sequences: values come from buffered ranges, and losses are bounded.

use seqd_tests::checkers::{disjoint, increasing};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::history::{Timeline, reasons, tally};
use seqd_tests::http;
use seqd_tests::workload::{Route, Workload};
use serde_json::json;

/// Segments of one size, so that a story can count the buffered values.
const SIZE: i64 = 100;

fn of_one_size() -> serde_json::Value {
    json!({"mode": "segment", "segment": {"min": SIZE, "max": SIZE}})
}

#[test]
fn a_kill_loses_at_most_the_two_buffered_segments() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "ticket", &of_one_size());
    let node = cluster.follower();
    for value in 1..=40 {
        assert_eq!(cluster.next(node, "ticket", 1), (value, value));
    }
    cluster.node_mut(node).kill();
    let other = (node + 1) % 3;
    let (next, _) = cluster.next(other, "ticket", 1);
    assert!(next > 40, "{next} was granted before");
    assert!(
        next <= 40 + 2 * SIZE + 1,
        "{next} is next: more than two segments are lost"
    );
}

#[test]
fn an_advance_voids_values_that_nodes_have_buffered_or_return() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "ticket", &of_one_size());
    let node = cluster.follower();
    assert_eq!(cluster.next(node, "ticket", 20), (1, 20));
    let other = (node + 1) % 3;
    let url = cluster.url(other, "/v1/sequences/ticket/advance");
    http::post(&url).json(&json!({"to": "5000"})).reply().ok();
    http::post(&url)
        .json(&json!({"to": "4000"}))
        .reply()
        .refused(409, "would-go-backwards");
    // When the node has applied the advance, its own buffer is of an older epoch.
    cluster.wait_same_state(&[0, 1, 2]);
    let (first, _) = cluster.next(node, "ticket", 1);
    assert!(
        first >= 5000,
        "{first} comes from a buffer that the advance had voided"
    );
    assert_eq!(cluster.node_mut(node).stop().code(), Some(0));
    let (next, _) = cluster.next(other, "ticket", 1);
    assert!(next > first, "{next} after {first}");
}

#[test]
fn no_value_is_granted_twice_under_load_and_kills() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "ticket", &json!({"segment": {"min": 50, "max": 5000}}));
    let load = cluster.load(6, Route::Fixed, 7, 1);
    let workload = Workload::next(load, Timeline::begin(), "ticket");
    for victim in [cluster.leader(), cluster.follower()] {
        workload.wait_for(200, READY);
        cluster.node_mut(victim).kill();
        workload.wait_for(200, READY);
        cluster.node_mut(victim).start();
        cluster.wait_ready_of(&[victim], READY);
    }
    workload.wait_for(200, READY);
    let history = workload.finish();
    println!("{:?} {:?}", tally(&history), reasons(&history));
    disjoint::segments(&history, 1, i64::MAX).unwrap();
    increasing::values_per_node(&history).unwrap();
}
