//! Random faults, one after another and sometimes two at a time, under a mixed load; then every
//! checker, and the cluster well again within ten seconds of the last fault.

use std::time::{Duration, Instant};

use seqd_tests::checkers::{Violation, disjoint, increasing, linearizable, lost, unique};
use seqd_tests::cluster::Cluster;
use seqd_tests::faults::Paused;
use seqd_tests::history::{Timeline, tally};
use seqd_tests::seed::Random;
use seqd_tests::workload::{Route, Workload};
use serde_json::json;

/// From the last fault's end to ready on every node.
const RECOVERED: Duration = Duration::from_secs(10);

pub(crate) fn run(seconds: u64) -> Result<(), Violation> {
    let mut random = Random::of_this_run("chaos");
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    cluster.create_sequence(0, "ticket", &json!({"segment": {"min": 20, "max": 500}}));
    let timeline = Timeline::begin();
    let load = |clients, route, count| cluster.load(clients, route, count, 1);
    let ids = Workload::ids(load(3, Route::Fixed, 100), timeline);
    let values = Workload::next(load(6, Route::Roaming, 1), timeline, "order");
    let tickets = Workload::next(load(3, Route::Fixed, 7), timeline, "ticket");

    let begin = Instant::now();
    let mut rounds = 0;
    while begin.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(Duration::from_millis(random.below(1500)));
        let victims = if random.below(4) == 0 { 2 } else { 1 };
        let first = random.below(3) as usize;
        for step in 0..victims {
            strike(&mut cluster, (first + step) % 3, &mut random);
        }
        std::thread::sleep(Duration::from_millis(random.below(2500)));
        for i in 0..3 {
            if !cluster.node_mut(i).is_running() {
                cluster.node_mut(i).start();
            }
        }
        rounds += 1;
    }
    let took = cluster.wait_ready_of(&[0, 1, 2], RECOVERED);
    println!("{rounds} rounds of faults; well again {took:?} after the last");
    let (ids, values, tickets) = (ids.finish(), values.finish(), tickets.finish());
    println!("ids     (ok, unknown, refused): {:?}", tally(&ids));
    println!("order   (ok, unknown, refused): {:?}", tally(&values));
    println!("ticket  (ok, unknown, refused): {:?}", tally(&tickets));
    println!("{} IDs, no duplicate", unique::numbers(&ids)?);
    increasing::ids_per_worker(&ids)?;
    println!(
        "{} strict values in real-time order",
        linearizable::strict(&values)?
    );
    let (next, _) = cluster.next(0, "order", 1);
    lost::strict(&values, 1, next)?;
    println!(
        "{} segment values, no duplicate",
        disjoint::segments(&tickets, 1, i64::MAX)?
    );
    cluster.wait_same_state(&[0, 1, 2]);
    println!("all nodes show the same digest");
    Ok(())
}

/// One fault at one node. A pause heals here; a node that was ended is started by the caller.
fn strike(cluster: &mut Cluster, victim: usize, random: &mut Random) {
    if !cluster.node_mut(victim).is_running() {
        return;
    }
    match random.below(4) {
        0 => {
            let pause = Paused::new(cluster.node(victim));
            std::thread::sleep(Duration::from_millis(random.below(3000)));
            drop(pause);
        }
        1 => {
            let status = cluster.node_mut(victim).stop();
            assert_eq!(status.code(), Some(0), "{}", cluster.node(victim).tail());
        }
        _ => cluster.node_mut(victim).kill(),
    }
}
