//! Random faults of processes and links, one after another and sometimes two at a time, under a
//! mixed load. Then runs every checker; the cluster must be healthy within ten seconds of the last
//! fault.

use std::time::{Duration, Instant};

use seqd_tests::checkers::{Violation, leases};
use seqd_tests::cluster::Cluster;
use seqd_tests::history::Timeline;
use seqd_tests::lease_watch::LeaseWatch;
use seqd_tests::link_faults::FAULTS;
use seqd_tests::mixed::{self, Mixed};
use seqd_tests::report::{Counts, count};
use seqd_tests::seed::Random;
use seqd_tests::sequence_load::{SEQUENCES, SequenceLoad};
use seqd_tests::strikes::{self, Strike};
use seqd_tests::workload::Route;

/// The time limit from the last fault's end until every node is ready.
const RECOVERED: Duration = Duration::from_secs(10);

/// The faults of a process; a kill is twice as frequent.
const STRIKES: [Strike; 4] = [
    Strike::Stopped,
    Strike::Ended,
    Strike::Killed,
    Strike::Killed,
];

pub(crate) fn run(seconds: u64) -> Result<(), Violation> {
    let mut random = Random::of_this_run("chaos");
    let (planned, has_links) = strikes::cluster(true);
    let mut cluster = planned.ready();
    mixed::create(&cluster);
    let timeline = Timeline::begin();
    let load = |clients, route, count| cluster.load(clients, route, count, 1);
    let (ids, order) = (load(3, Route::Fixed, 100), load(6, Route::Roaming, 1));
    let mixed = Mixed::begin(timeline, [ids, order, load(3, Route::Fixed, 7)]);
    let watch = LeaseWatch::begin(&cluster);
    let everything = SEQUENCES.map(|(name, definition)| {
        SequenceLoad::begin(&cluster, name, definition, timeline, &mut random)
    });

    let struck = strike_for(&mut cluster, &mut random, seconds, has_links)?;
    let took = cluster.wait_ready_of(&[0, 1, 2], RECOVERED);
    println!("faults that bit: {struck:?}; well again {took:?} after the last");
    for (load, (name, _)) in everything.into_iter().zip(SEQUENCES) {
        let answers = load.judged(&cluster)?;
        println!("{answers} answers of all kinds of the sequence {name} in real-time order");
    }
    let mut histories = mixed.finish();
    println!("{histories}");
    println!("{:?}, none twice", histories.check(&cluster, timeline)?);
    let checked = leases::ids(&histories.ids, &watch.finish())?;
    println!("{checked} answers inside the windows of their workers' leases");
    Ok(())
}

/// Injects faults until the time has passed. A fault without an effect is a violation.
fn strike_for(
    cluster: &mut Cluster,
    random: &mut Random,
    seconds: u64,
    has_links: bool,
) -> Result<Counts, Violation> {
    let begin = Instant::now();
    let mut struck = Counts::new();
    while begin.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(random.between((0, 1_500)));
        if has_links && random.below(2) == 0 {
            let fault = FAULTS[random.below(FAULTS.len() as u64) as usize];
            // A fault needs a leader, whose links it affects.
            let in_force = fault.impose(cluster, cluster.leader());
            std::thread::sleep(random.between((500, 4_500)));
            in_force.heal()?;
            count(&mut struck, fault.name);
            continue;
        }
        let victims = if random.below(4) == 0 { 2 } else { 1 };
        let first = random.below(3) as usize;
        let mut in_force = Vec::new();
        for step in 0..victims {
            let strike = STRIKES[random.below(4) as usize];
            in_force.push(strike.impose(cluster, (first + step) % 3));
            count(&mut struck, format!("{strike:?}"));
        }
        std::thread::sleep(random.between((50, 3_000)));
        in_force
            .into_iter()
            .try_for_each(|fault| fault.heal(cluster))?;
    }
    Ok(struck)
}
