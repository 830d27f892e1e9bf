//! A strict sequence is linearizable through elections, and loses no acknowledgement when all nodes
//! crash.

use seqd_tests::checkers::{linearizable, lost};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::faults::Paused;
use seqd_tests::history::{Timeline, reasons, tally};
use seqd_tests::runs::{ValueRun, values_while_leaders_are_killed};
use seqd_tests::wait;
use seqd_tests::workload::{Route, Workload};
use serde_json::json;

#[test]
fn values_stay_in_real_time_order_while_leaders_are_killed_and_survive_the_death_of_all_nodes() {
    values_while_leaders_are_killed(&ValueRun::new("strict", 2, 200)).unwrap();
}

#[test]
fn without_a_fault_there_is_no_gap() {
    let cluster = Cluster::planned(3).patient().ready();
    cluster.create_sequence(0, "order", &json!({"mode": "strict", "start": "100"}));
    let workload = Workload::next(
        cluster.load(8, Route::Roaming, 1, 0),
        Timeline::begin(),
        "order",
    );
    workload.wait_for(500, READY);
    let history = workload.finish();
    let count = linearizable::strict(&history).unwrap();
    assert_eq!(
        tally(&history),
        (history.len(), 0, 0),
        "{:?}",
        reasons(&history)
    );
    let (next, _) = cluster.next(0, "order", 1);
    assert_eq!(next, 100 + i64::try_from(count).unwrap());
}

#[test]
fn a_leader_that_was_paused_returns_no_stale_value() {
    let cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let workload = Workload::next(
        cluster.load(8, Route::Roaming, 1, 0),
        Timeline::begin(),
        "order",
    );
    workload.wait_for(200, READY);
    let leader = cluster.leader();
    let pause = Paused::new(cluster.node(leader));
    let others: Vec<usize> = (0..3).filter(|&i| i != leader).collect();
    wait::until("another leader", READY, || {
        let view = cluster.node(others[0]).cluster_view()?;
        let name = view["leader"].as_str()?;
        (name != cluster.node(leader).name()).then_some(())
    });
    drop(pause);
    workload.wait_for(400, READY);
    let history = workload.finish();
    println!("{:?} {:?}", tally(&history), reasons(&history));
    linearizable::strict(&history).unwrap();
    let (next, _) = cluster.next(leader, "order", 1);
    lost::strict(&history, 1, next).unwrap();
    cluster.wait_same_state(&[0, 1, 2]);
}
