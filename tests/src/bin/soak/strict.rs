//! A strict sequence from eight clients on all nodes while the leader is killed again and again,
//! then all nodes at once.

use std::time::Duration;

use seqd_tests::checkers::{Violation, linearizable, lost, pauses};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::history::{Timeline, reasons, tally};
use seqd_tests::workload::{Route, Workload};
use serde_json::json;

/// How much later than the leader's death a request that was in flight may be answered.
const IN_FLIGHT: Duration = Duration::from_millis(2500);

pub(crate) fn run(kills: u64) -> Result<(), Violation> {
    let mut cluster = Cluster::started(3);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let timeline = Timeline::begin();
    let load = cluster.load(8, Route::Roaming, 1, 0);
    let workload = Workload::next(load, timeline, "order");
    let mut outages = Vec::new();
    for _ in 0..kills {
        workload.wait_for(5000, READY);
        let leader = cluster.leader();
        let kill = timeline.at();
        cluster.node_mut(leader).kill();
        workload.wait_for(5000, READY);
        outages.push((kill, timeline.at()));
        cluster.node_mut(leader).start();
        cluster.wait_ready();
    }
    workload.wait_for(5000, READY);
    (0..3).for_each(|i| cluster.node_mut(i).kill());
    let history = workload.finish();
    cluster.start_all();
    cluster.wait_ready();
    let (next, _) = cluster.next(0, "order", 1);
    println!(
        "requests (ok, unknown, refused): {:?} {:?}",
        tally(&history),
        reasons(&history)
    );
    let count = linearizable::strict(&history)?;
    println!("{count} values, distinct and in real-time order");
    lost::strict(&history, 1, next)?;
    println!("after kill -9 of all three the next value is {next}, above all acknowledged ones");
    for (kill, to) in outages {
        let in_flight = history
            .iter()
            .filter(|op| op.call <= kill && kill <= op.back);
        let late = in_flight
            .map(|op| op.back.since(kill))
            .max()
            .unwrap_or_default();
        let (pause, _) = pauses::longest_of_all(&history, kill, to);
        println!("leader killed: in flight answered {late:?} later at most, pause {pause:?}");
        if late > IN_FLIGHT {
            let detail = format!("a request in flight was answered {late:?} after the kill");
            return Err(Violation::new("bounded answers", detail));
        }
    }
    cluster.wait_same_state(&[0, 1, 2]);
    println!("all nodes show the same digest");
    Ok(())
}
