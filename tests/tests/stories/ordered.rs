//! Ordered values increase over all nodes, even if leaders are killed or paused.

use seqd_tests::checkers::linearizable;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::faults::Paused;
use seqd_tests::history::{Timeline, reasons, tally};
use seqd_tests::runs::{ValueRun, values_while_leaders_are_killed};
use seqd_tests::wait;
use seqd_tests::workload::{Route, Workload};
use serde_json::json;

#[test]
fn values_increase_over_all_nodes_while_leaders_are_killed() {
    values_while_leaders_are_killed(&ValueRun::new("ordered", 2, 2_000)).unwrap();
}

#[test]
fn a_leader_that_was_paused_issues_no_value_of_the_past() {
    let cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "ordered"}));
    let load = cluster.load(8, Route::Roaming, 1, 0);
    let workload = Workload::next(load, Timeline::begin(), "order");
    for _ in 0..3 {
        workload.wait_for(1_000, READY);
        let leader = cluster.leader();
        let pause = Paused::new(cluster.node(leader));
        let other = (leader + 1) % 3;
        wait::until("another leader", READY, || {
            let view = cluster.node(other).cluster_view()?;
            let name = view["leader"].as_str()?;
            (name != cluster.node(leader).name()).then_some(())
        });
        drop(pause);
    }
    workload.wait_for(1_000, READY);
    let history = workload.finish();
    println!("{:?} {:?}", tally(&history), reasons(&history));
    linearizable::strict(&history).unwrap();
    cluster.wait_same_state(&[0, 1, 2]);
}

#[test]
fn a_read_that_waits_for_a_silent_leader_is_answered_by_the_next_one() {
    let cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let leader = cluster.leader();
    let pause = Paused::new(cluster.node(leader));
    let replies: Vec<_> = std::thread::scope(|scope| {
        let read = |node| cluster.get(node, "/v1/sequences/order?timeout_ms=20000");
        let reads: Vec<_> = (0..3)
            .filter(|node| *node != leader)
            .map(|node| scope.spawn(move || read(node)))
            .collect();
        reads.into_iter().map(|read| read.join().unwrap()).collect()
    });
    drop(pause);
    for reply in replies {
        assert_eq!(reply.ok().json()["next"], "1");
    }
}
