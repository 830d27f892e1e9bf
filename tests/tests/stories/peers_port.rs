//! The peer ports of all nodes, full of idle connections.

use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::link_faults::flood;
use seqd_tests::workload::{Route, Workload};

#[test]
fn a_leader_is_replaced_while_strangers_fill_every_port() {
    let mut cluster = Cluster::started(3).with_order();
    let load = Workload::order(&cluster, 4, Route::Roaming, 1);
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
    load.assert_nothing_lost(&cluster, leader);
}
