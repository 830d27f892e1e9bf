//! A strict sequence is linearizable through elections and loses no acknowledgement in a crash of
//! all nodes.

use std::time::Duration;

use seqd_tests::checkers::{linearizable, lost};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::faults::Paused;
use seqd_tests::history::{At, Op, Timeline, Values, reasons, tally};
use seqd_tests::wait;
use seqd_tests::workload::{Route, Workload};
use serde_json::json;

/// How much later than the leader's death a request that was in flight may be answered.
const IN_FLIGHT: Duration = Duration::from_millis(2500);

fn assert_answered_in_time(history: &[Op<Values>], kills: &[At]) {
    for &kill in kills {
        let in_flight = history
            .iter()
            .filter(|op| op.call <= kill && kill <= op.back);
        for op in in_flight {
            let late = op.back.since(kill);
            assert!(
                late <= IN_FLIGHT,
                "answered {late:?} after the kill: {op:?}"
            );
        }
    }
}

#[test]
fn values_stay_in_real_time_order_while_leaders_are_killed() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let timeline = Timeline::begin();
    let workload = Workload::next(cluster.load(8, Route::Roaming, 1, 0), timeline, "order");
    let mut kills = Vec::new();
    for _ in 0..2 {
        workload.wait_for(200, READY);
        let leader = cluster.leader();
        kills.push(timeline.at());
        cluster.node_mut(leader).kill();
        workload.wait_for(200, READY);
        cluster.node_mut(leader).start();
        cluster.wait_ready();
    }
    let history = workload.finish();
    println!("{:?} {:?}", tally(&history), reasons(&history));
    linearizable::strict(&history).unwrap();
    assert_answered_in_time(&history, &kills);
    let (next, _) = cluster.next(0, "order", 1);
    lost::strict(&history, 1, next).unwrap();
    cluster.wait_same_state(&[0, 1, 2]);
}

#[test]
fn what_was_acknowledged_survives_the_death_of_all_nodes_at_once() {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let workload = Workload::next(
        cluster.load(8, Route::Roaming, 1, 0),
        Timeline::begin(),
        "order",
    );
    workload.wait_for(500, READY);
    (0..3).for_each(|i| cluster.node_mut(i).kill());
    let history = workload.finish();
    cluster.start_all();
    cluster.wait_ready();
    linearizable::strict(&history).unwrap();
    let (next, _) = cluster.next(2, "order", 1);
    lost::strict(&history, 1, next).unwrap();
}

#[test]
fn without_a_fault_there_is_no_gap() {
    let cluster = Cluster::started(3);
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
fn a_leader_that_was_paused_tells_no_stale_value() {
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
