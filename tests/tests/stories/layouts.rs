//! Layouts that the cluster defines: created once, used on all nodes, never changed.

use std::collections::BTreeSet;

use seqd_tests::cluster::{Cluster, READY, integer};
use seqd_tests::http::post;
use seqd_tests::wait;
use serde_json::{Value, json};

fn create(cluster: &Cluster, node: usize, definition: &Value) -> seqd_tests::http::Reply {
    let url = cluster.url(node, "/v1/layouts");
    post(&url).json(definition).reply()
}

fn one_id(cluster: &Cluster, node: usize) -> i64 {
    let minted = post(&cluster.url(node, "/v1/id")).accept_json().reply();
    integer(&minted.ok().json()["id"])
}

#[test]
fn a_layout_is_created_once_and_every_node_mints_with_it_also_after_a_restart() {
    let mut cluster = Cluster::started(3);
    let short = json!({
        "name": "short", "epoch": "2026-06-01T00:00:00Z", "time_bits": 40, "worker_bits": 6,
        "sequence_bits": 6, "order": "tick-sequence-worker"
    });
    let created = create(&cluster, 1, &short);
    assert_eq!(created.status, 201);
    let created = created.json();
    assert_eq!(created["bits"], 52);
    assert_eq!(created["fits_53_bits"], true);
    assert_eq!(created["first_sequence"], "spread");
    // The number of workers times the IDs per second of each.
    assert_eq!(created["ids_per_second_of_all"], "4096000");
    assert_eq!(create(&cluster, 2, &short).status, 200);
    let other = json!({"name": "short", "time_bits": 41});
    create(&cluster, 0, &other).refused(409, "already-exists");
    cluster.wait_same_state(&[0, 1, 2]);
    let mut seen = BTreeSet::new();
    let mut mint = |cluster: &Cluster, node| {
        let minted = cluster.get(node, "/v1/ids?count=100&layout=short&numeric=1");
        let minted = minted.ok().json();
        for id in minted["ids"].as_array().unwrap() {
            let id = id.as_u64().unwrap();
            assert!(id < 1 << 52, "{id} has bits outside of the layout");
            assert!(seen.insert(id), "{id} was minted twice");
        }
        minted["worker"].clone()
    };
    let workers: BTreeSet<String> = (0..3)
        .map(|node| mint(&cluster, node).to_string())
        .collect();
    assert_eq!(workers.len(), 3, "{workers:?}");
    let node = cluster.follower();
    cluster.node_mut(node).kill();
    cluster.node_mut(node).start();
    cluster.wait_ready();
    mint(&cluster, node);
}

#[test]
fn in_a_new_cluster_ids_at_a_low_rate_spread_over_shards() {
    let cluster = Cluster::started(3);
    let layout = cluster.get(0, "/v1/layouts/default").ok().json();
    assert_eq!(layout["first_sequence"], "spread");
    let ids = (0..300).map(|at| one_id(&cluster, at % 3) as u64);
    let shards: BTreeSet<u64> = ids.map(|id| id % 16).collect();
    // A random failure occurs once in 100 million runs.
    assert_eq!(shards.len(), 16, "{shards:?}");
}

#[test]
fn an_id_that_a_node_made_before_its_restart_has_its_holder() {
    let mut cluster = Cluster::started(3);
    let node = cluster.follower();
    let before = format!("/v1/ids/{}", one_id(&cluster, node));
    // The worker is granted to the next start of the same node, which ends its first lease.
    assert_eq!(cluster.node_mut(node).stop().code(), Some(0));
    cluster.node_mut(node).start();
    cluster.wait_ready();
    let name = format!("n{}", node + 1);
    wait::until("another lease of the worker", READY, || {
        let past = cluster.get(0, "/v1/workers?past=1").ok().json();
        let mut items = past["items"].as_array()?.iter();
        items
            .find(|lease| lease["node"] == name.as_str())
            .map(|_| ())
    });
    for asked in 0..3 {
        let parts = cluster.get(asked, &before).ok().json();
        assert_eq!(parts["origin"], "held", "{parts}");
        assert_eq!(parts["holder"]["node"], name);
    }
}
