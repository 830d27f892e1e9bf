//! Founding a cluster, and serving while a follower is down.

use std::collections::BTreeSet;

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
fn a_killed_follower_delays_no_request_and_catches_up() {
    let mut cluster = Cluster::started(3).with_order();
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
