//! Founding a cluster, serving from any node, stopping and starting again.

use std::collections::BTreeSet;
use std::time::Duration;

use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::{http, wait};
use serde_json::json;

#[test]
fn three_empty_nodes_found_one_cluster_and_all_serve() {
    let cluster = Cluster::started(3);
    let leader = cluster.leader();
    let mut identities = BTreeSet::new();
    let mut workers = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for i in 0..3 {
        // A node counts the reachable members by its own pings.
        let view = wait::until("a view of all", READY, || {
            let view = cluster.node(i).cluster_view()?;
            (view["quorum"]["reachable"] == 3).then_some(view)
        });
        identities.insert(
            view["cluster_id"]
                .as_str()
                .expect("a cluster ID")
                .to_owned(),
        );
        assert_eq!(view["node"], cluster.node(i).name());
        assert_eq!(view["leader"], cluster.node(leader).name());
        assert_eq!(
            view["quorum"],
            json!({"voters": 3, "reachable": 3, "can_lose": 1})
        );
        let text = cluster.get(i, "/v1/id").ok();
        assert!(
            text.header("content-type")
                .unwrap()
                .starts_with("text/plain")
        );
        ids.insert(text.body.trim().parse::<u64>().expect("an ID as text"));
        let body = http::get(&cluster.url(i, "/v1/id"))
            .accept_json()
            .reply()
            .ok()
            .json();
        assert_eq!(body["node"], cluster.node(i).name());
        workers.insert(body["worker"].as_u64().expect("a worker"));
    }
    assert_eq!((identities.len(), workers.len(), ids.len()), (1, 3, 3));
}

#[test]
fn founding_waits_for_the_last_listed_node_and_names_it() {
    let mut cluster = Cluster::planned(3);
    cluster.node_mut(0).start();
    cluster.node_mut(1).start();
    let missing = cluster.node(2).peer_address();
    wait::until(
        "a line that names the missing peer and the reason",
        READY,
        || {
            let stderr = cluster.node(0).stderr();
            let waits = |line: &str| {
                line.contains("waiting for quorum: seen 2/3") && line.contains(&missing)
            };
            stderr.lines().any(waits).then_some(())
        },
    );
    assert!(!cluster.node(0).is_ready());
    cluster.get(0, "/livez").ok();
    assert_eq!(cluster.get(0, "/readyz").status, 503);
    cluster.node_mut(2).start();
    cluster.wait_ready();
}

#[test]
fn any_node_takes_any_request() {
    let cluster = Cluster::started(3);
    let follower = cluster.follower();
    cluster.create_sequence(follower, "order", &json!({"mode": "strict"}));
    for (value, node) in (1..=9).zip((0..3).cycle()) {
        assert_eq!(
            cluster.next(node, "order", 1),
            (value, value),
            "through node {node}"
        );
    }
    for node in 0..3 {
        let order = cluster.get(node, "/v1/sequences/order").ok().json();
        assert_eq!(
            (&order["next"], &order["allocated"]),
            (&json!("10"), &json!("9"))
        );
    }
}

#[test]
fn a_killed_follower_delays_no_request_and_catches_up() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let follower = cluster.follower();
    cluster.node_mut(follower).kill();
    let other = (0..3).find(|&i| i != follower).unwrap();
    for value in 1..=50 {
        assert_eq!(cluster.next(other, "order", 1), (value, value));
    }
    cluster.node_mut(follower).start();
    cluster.wait_ready();
    assert_eq!(cluster.next(follower, "order", 1), (51, 51));
    cluster.wait_same_state(&[0, 1, 2]);
}

#[test]
fn a_clean_stop_ends_with_code_0_and_loses_nothing() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    assert_eq!(cluster.next(0, "order", 5), (1, 5));
    for i in 0..3 {
        let status = cluster.node_mut(i).stop();
        assert_eq!(status.code(), Some(0), "{}", cluster.node(i).tail());
    }
    cluster.start_all();
    cluster.wait_ready();
    assert_eq!(cluster.next(1, "order", 1), (6, 6));
    cluster.wait_same_state(&[0, 1, 2]);
}

#[test]
fn a_cluster_of_one_serves_alone() {
    let mut cluster = Cluster::started(1);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    assert_eq!(cluster.next(0, "order", 2), (1, 2));
    cluster.node_mut(0).kill();
    cluster.node_mut(0).start();
    cluster.wait_ready_of(&[0], Duration::from_secs(20));
    assert_eq!(cluster.next(0, "order", 1), (3, 3));
}
