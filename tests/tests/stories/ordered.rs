//! Ordered values increase over all nodes, even if leaders are killed or paused.

use seqd_tests::cluster::Cluster;
use seqd_tests::faults::Paused;
use seqd_tests::runs::{
    ValueRun, values_while_leaders_are_killed, values_while_leaders_are_paused,
};

#[test]
fn values_increase_over_all_nodes_while_leaders_are_killed() {
    values_while_leaders_are_killed(&ValueRun::new("ordered", 2, 2_000)).unwrap();
}

#[test]
fn a_leader_that_was_paused_issues_no_value_of_the_past() {
    values_while_leaders_are_paused("ordered", 3, 1_000).unwrap();
}

#[test]
fn a_read_that_waits_for_a_silent_leader_is_answered_by_the_next_one() {
    let cluster = Cluster::started(3).with_order();
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
