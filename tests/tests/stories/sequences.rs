//! All operations on strict sequences of any definition, and IDs compared with their leases, while
//! leaders are killed. `soak chaos` does this at length, under more faults.

use seqd_tests::checkers::{increasing, leases, unique};
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::history::Timeline;
use seqd_tests::lease_watch::LeaseWatch;
use seqd_tests::seed::Random;
use seqd_tests::sequence_load::{SEQUENCES, SequenceLoad};
use seqd_tests::workload::{Route, Workload};

/// Responses with IDs between two faults.
const BETWEEN: usize = 200;

#[test]
fn sequences_stay_linearizable_and_ids_inside_their_leases_while_leaders_are_killed() {
    let mut random = Random::of_this_run("sequences while leaders are killed");
    let mut cluster = Cluster::started(3);
    let timeline = Timeline::begin();
    let ids = Workload::ids(cluster.load(3, Route::Fixed, 100, 5), timeline);
    let watch = LeaseWatch::begin(&cluster);
    let loads = SEQUENCES.map(|(name, definition)| {
        SequenceLoad::begin(&cluster, name, definition, timeline, &mut random)
    });
    for _ in 0..2 {
        ids.wait_for(BETWEEN, READY);
        let leader = cluster.leader();
        cluster.node_mut(leader).kill();
        ids.wait_for(BETWEEN, READY);
        cluster.node_mut(leader).start();
        cluster.wait_ready();
    }
    for (load, (name, _)) in loads.into_iter().zip(SEQUENCES) {
        let answers = load.judged(&cluster).unwrap();
        println!("{answers} answers of the sequence {name}");
        assert!(answers > 0, "nothing was answered of {name}");
    }
    let ids = ids.finish();
    unique::numbers(&ids).unwrap();
    increasing::ids_per_worker(&ids).unwrap();
    let checked = leases::ids(&ids, &watch.finish()).unwrap();
    assert!(checked > 2 * BETWEEN, "only {checked} answers with IDs");
    cluster.wait_same_state(&[0, 1, 2]);
}
