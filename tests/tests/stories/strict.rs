//! A strict sequence is linearizable through elections, and loses no acknowledgement when all nodes
//! crash.

use seqd_tests::checkers::linearizable;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::history::{reasons, tally};
use seqd_tests::runs::{
    ValueRun, values_while_leaders_are_killed, values_while_leaders_are_paused,
};
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
    let workload = Workload::order(&cluster, 8, Route::Roaming, 0);
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
    values_while_leaders_are_paused("strict", 1, 400).unwrap();
}
