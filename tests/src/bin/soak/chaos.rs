//! Random faults of processes and links, one after another and sometimes two at a time, under a
//! mixed load. Afterwards every checker must pass, and the cluster must be healthy within ten
//! seconds of the last fault.

use std::time::{Duration, Instant};

use seqd_tests::checkers::{Violation, disjoint, increasing, leases, linearizable, lost, unique};
use seqd_tests::cluster::Cluster;
use seqd_tests::faults::Paused;
use seqd_tests::history::{History, Ids, Timeline, Values, tally};
use seqd_tests::lease_watch::LeaseWatch;
use seqd_tests::link_faults::FAULTS;
use seqd_tests::seed::Random;
use seqd_tests::sequence_load::{SEQUENCES, SequenceLoad};
use seqd_tests::strikes::{self, Counts};
use seqd_tests::workload::{Route, Workload, next_value};
use serde_json::json;

/// The longest time from the end of the last fault until every node is ready.
const RECOVERED: Duration = Duration::from_secs(10);

pub(crate) fn run(seconds: u64) -> Result<(), Violation> {
    let mut random = Random::of_this_run("chaos");
    let (planned, has_links) = strikes::cluster(true);
    let mut cluster = planned.ready();
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    cluster.create_sequence(0, "ticket", &json!({"segment": {"min": 20, "max": 500}}));
    let timeline = Timeline::begin();
    let load = |clients, route, count| cluster.load(clients, route, count, 1);
    let ids = Workload::ids(load(3, Route::Fixed, 100), timeline);
    let values = Workload::next(load(6, Route::Roaming, 1), timeline, "order");
    let tickets = Workload::next(load(3, Route::Fixed, 7), timeline, "ticket");
    let watch = LeaseWatch::begin(&cluster);
    let everything = SEQUENCES.map(|(name, definition)| {
        SequenceLoad::begin(&cluster, name, definition, timeline, &mut random)
    });

    let struck = strikes(&mut cluster, &mut random, seconds, has_links)?;
    let took = cluster.wait_ready_of(&[0, 1, 2], RECOVERED);
    println!("faults that bit: {struck:?}; well again {took:?} after the last");
    for (load, (name, _)) in everything.into_iter().zip(SEQUENCES) {
        let answers = load.judged(&cluster)?;
        println!("{answers} answers of all kinds of the sequence {name} in real-time order");
    }
    check_values(&cluster, values.finish(), timeline)?;
    let tickets = tickets.finish();
    println!("ticket  (ok, unknown, refused): {:?}", tally(&tickets));
    let given = disjoint::segments(&tickets, 1, i64::MAX)?;
    println!("{given} segment values, no duplicate");
    check_ids(ids.finish(), watch)?;
    cluster.wait_same_state(&[0, 1, 2]);
    println!("all nodes show the same digest");
    Ok(())
}

fn check_values(
    cluster: &Cluster,
    mut values: History<Values>,
    timeline: Timeline,
) -> Result<(), Violation> {
    println!("order   (ok, unknown, refused): {:?}", tally(&values));
    let judged = next_value(cluster, 0, "order", timeline);
    let next = judged.runs().first().map(|run| run.first);
    let Some(next) = next else {
        let detail = format!("the judge's request: {:?}", judged.outcome);
        return Err(Violation::new("well after a run", detail));
    };
    lost::strict(&values, 1, next)?;
    values.push(judged);
    let given = linearizable::strict(&values)?;
    println!("{given} strict values in real-time order, no gap without its unknown");
    Ok(())
}

fn check_ids(ids: History<Ids>, watch: LeaseWatch) -> Result<(), Violation> {
    println!("ids     (ok, unknown, refused): {:?}", tally(&ids));
    println!("{} IDs, no duplicate", unique::numbers(&ids)?);
    increasing::ids_per_worker(&ids)?;
    let seen = watch.finish();
    let checked = leases::ids(&ids, &seen)?;
    println!("{checked} answers inside the windows of their workers' leases");
    Ok(())
}

/// Injects faults until the time has passed. A fault without an effect is a violation.
fn strikes(
    cluster: &mut Cluster,
    random: &mut Random,
    seconds: u64,
    has_links: bool,
) -> Result<Counts, Violation> {
    let begin = Instant::now();
    let mut struck = Counts::new();
    while begin.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(Duration::from_millis(random.below(1500)));
        if has_links && random.below(2) == 0 {
            let name = strike_links(cluster, random)?;
            *struck.entry(name).or_default() += 1;
            continue;
        }
        let victims = if random.below(4) == 0 { 2 } else { 1 };
        let first = random.below(3) as usize;
        for step in 0..victims {
            let name = strike(cluster, (first + step) % 3, random)?;
            *struck.entry(name).or_default() += 1;
        }
        std::thread::sleep(Duration::from_millis(random.below(2500)));
        for i in 0..3 {
            if !cluster.node_mut(i).is_running() {
                cluster.node_mut(i).start();
            }
        }
    }
    Ok(struck)
}

/// Injects one fault of the links for a while. Waits for a leader first, because the fault concerns
/// its links.
fn strike_links(cluster: &Cluster, random: &mut Random) -> Result<&'static str, Violation> {
    let fault = FAULTS[random.below(FAULTS.len() as u64) as usize];
    let leader = cluster.leader();
    let length = Duration::from_millis(500 + random.below(4000));
    fault.impose(cluster, leader).hold(fault.name, length)?;
    Ok(fault.name)
}

/// Injects one fault at one node. A pause ends here; the caller starts a node that was ended.
fn strike(
    cluster: &mut Cluster,
    victim: usize,
    random: &mut Random,
) -> Result<&'static str, Violation> {
    if !cluster.node_mut(victim).is_running() {
        return Ok("already down");
    }
    match random.below(4) {
        0 => {
            let length = Duration::from_millis(50 + random.below(3000));
            Paused::new(cluster.node(victim)).hold(length)?;
            Ok("paused")
        }
        1 => {
            let status = cluster.node_mut(victim).stop();
            assert_eq!(status.code(), Some(0), "{}", cluster.node(victim).tail());
            Ok("stopped")
        }
        _ => {
            cluster.node_mut(victim).kill();
            Ok("killed")
        }
    }
}
