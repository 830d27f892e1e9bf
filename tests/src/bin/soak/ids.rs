//! Ten million IDs from all nodes at once while each node in turn is killed and started again.

use std::time::Duration;

use seqd_tests::checkers::{Violation, increasing, pauses, unique};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::history::{Timeline, reasons, tally};
use seqd_tests::workload::{Route, Workload};

/// IDs in one request.
const BATCH: u64 = 1000;

/// How long a node that is up may pause.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn run(count: u64) -> Result<(), Violation> {
    let mut cluster = Cluster::started(3);
    let timeline = Timeline::begin();
    let load = cluster.load(6, Route::Fixed, BATCH, 0);
    let workload = Workload::ids(load, timeline);
    let patience = Duration::from_secs(600);
    // Seven stretches: before, between and during the outages.
    let stretch = usize::try_from(count / BATCH / 7 + 1).expect("a count of requests");
    workload.wait_for(stretch, patience);
    let mut outages = Vec::new();
    for victim in 0..3 {
        let begin = timeline.at();
        cluster.node_mut(victim).kill();
        workload.wait_for(stretch, patience);
        cluster.node_mut(victim).start();
        let took = cluster.wait_ready_of(&[victim], READY);
        println!(
            "n{} was killed and is ready {took:?} after its start",
            victim + 1
        );
        workload.wait_for(stretch, patience);
        outages.push((victim, begin, timeline.at()));
    }
    let history = workload.finish();
    println!(
        "requests (ok, unknown, refused): {:?} {:?}",
        tally(&history),
        reasons(&history)
    );
    let minted = unique::numbers(&history)?;
    println!(
        "{minted} IDs, no duplicate, in {:?}",
        timeline.at().since(Default::default())
    );
    increasing::ids_per_worker(&history)?;
    println!("each worker's IDs strictly increase");
    assert!(minted >= count, "only {minted} of {count}");
    for (victim, from, to) in outages {
        for node in (0..3).filter(|&node| node != victim) {
            let pause = pauses::check_node(&history, node, (from, to), PAUSE)?;
            println!(
                "n{} while n{} was down: longest pause {pause:?}",
                node + 1,
                victim + 1
            );
        }
    }
    Ok(())
}
