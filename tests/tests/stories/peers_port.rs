//! The peer ports of all nodes, full of idle connections.

use seqd_tests::checkers::{linearizable, lost};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::history::Timeline;
use seqd_tests::link_faults::flood;
use seqd_tests::workload::{Route, Workload};
use serde_json::json;

#[test]
fn a_leader_is_replaced_while_strangers_fill_every_port() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let load = cluster.load(4, Route::Roaming, 1, 1);
    let load = Workload::next(load, Timeline::begin(), "order");
    load.wait_for(50, READY);
    let leader = cluster.leader();
    let ports: Vec<String> = (0..3)
        .map(|node| cluster.node(node).peer_address())
        .collect();
    let floods: Vec<_> = ports.iter().map(|port| flood(port)).collect();
    cluster.node_mut(leader).kill();
    load.wait_for(20, READY);
    // A starting node has no connection yet.
    cluster.node_mut(leader).start();
    cluster.wait_ready();
    for flood in floods {
        flood.heal().expect("all connections are opened");
    }
    let history = load.finish();
    linearizable::strict(&history).unwrap();
    let (next, _) = cluster.next(leader, "order", 1);
    lost::strict(&history, 1, next).unwrap();
    cluster.wait_same_state(&[0, 1, 2]);
}
