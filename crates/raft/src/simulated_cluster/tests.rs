//! Runs without a violation, and equal runs from equal seeds.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use seqd_guards::{Guard, take_out};

use super::minters::Minting;
use super::net::LAN;
use super::plan::{Fault, Plan, Planned, is_long};
use super::run::{Run, run, run_caught};
use super::shrink::{shrink, story};
use crate::seeds::{fresh, number_of};

/// Number of fresh seeds in each run of the tests. They have short lives, which take a second or
/// two of one core each.
const FRESH: usize = 50;

/// The first seeds. The environment can set another first seed and their number.
fn seeds(unless_set: u64) -> Range<u64> {
    let first = number_of("SEQD_CLUSTER_SEED");
    let count = number_of("SEQD_CLUSTER_RUNS");
    let count = count.unwrap_or(if first.is_some() { 1 } else { unless_set });
    let first = first.unwrap_or(1);
    first..first + count
}

/// The totals of several runs.
#[derive(Default)]
struct Sum {
    runs: u64,
    lasted: Duration,
    ops: usize,
    ids: usize,
    entries: u64,
    healed: Duration,
    failed: Vec<(u64, String)>,
}

impl Sum {
    fn add(&mut self, run: Run) {
        self.runs += 1;
        self.lasted += run.lasted;
        self.ops += run.ops;
        self.ids += run.ids;
        self.entries += run.entries;
        self.healed = self.healed.max(run.healed);
        if let Some(violation) = run.violation {
            println!("seed {}: {}: {}", run.seed, violation.check, violation.what);
            self.failed.push((run.seed, violation.check.to_owned()));
        }
    }
}

/// Runs all seeds on `threads` threads. Each run uses one thread.
fn run_all(seeds: &[u64], threads: u64) -> Sum {
    let (next, sum) = (AtomicUsize::new(0), Mutex::new(Sum::default()));
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let run = run_caught(*seed, &Plan::new(*seed));
            sum.lock().expect("no run panics here").add(run);
        }
    };
    thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    sum.into_inner().expect("no run panics here")
}

/// Runs the seeds and prints their totals. Panics with the story of the first run that failed.
fn find_nothing(seeds: &[u64]) {
    let threads = number_of("SEQD_CLUSTER_THREADS").unwrap_or(1);
    println!("seeds from {} on", seeds[0]);
    let began = Instant::now();
    let mut sum = run_all(seeds, threads);
    let (real, virtually) = (began.elapsed().as_secs_f64(), sum.lasted.as_secs_f64());
    println!(
        "{} runs, {:.2} virtual hours in {real:.1} s, {:.0} times as fast on {threads} threads; \
         {} requests, {} IDs, {} entries; well {:.2} s after healing at the latest; {} violations",
        sum.runs,
        virtually / 3600.0,
        virtually / real,
        sum.ops,
        sum.ids,
        sum.entries,
        sum.healed.as_secs_f64(),
        sum.failed.len()
    );
    sum.failed.sort();
    for (seed, check) in &sum.failed {
        println!("{check}: SEQD_CLUSTER_SEED={seed} shows it again");
    }
    if let Some((seed, _)) = sum.failed.first() {
        let plan = Plan::new(*seed);
        let (found, plan) = shrink(run_caught(*seed, &plan), &plan);
        panic!("{}", story(&found, &plan));
    }
}

#[test]
fn seeds_find_nothing() {
    find_nothing(&seeds(8).collect::<Vec<_>>());
}

#[test]
fn fresh_seeds_find_nothing() {
    let short = (fresh()..).filter(|seed| !is_long(*seed));
    find_nothing(&short.take(FRESH).collect::<Vec<_>>());
}

/// The plan of a seed, without minting.
fn without_minting(seed: u64) -> Plan {
    Plan {
        minting: Minting::Nobody,
        ..Plan::new(seed)
    }
}

/// The log's sync fails, and a refused entry is applied because the other nodes have it. If the
/// last checkpoint contained it, the node could not start again.
#[test]
fn a_failed_log_is_passed_by_no_checkpoint_in_seed_73() {
    assert_eq!(run_caught(73, &without_minting(73)).violation, None);
}

/// Two groups whose callers have given up must not be tried forever, because they would occupy the
/// places of all others.
#[test]
fn an_abandoned_proposal_is_not_retried_for_ever_in_seed_401037() {
    assert_eq!(run_caught(401_037, &Plan::new(401_037)).violation, None);
}

const fn planned(at: u64, lasts: u64, fault: Fault) -> Planned {
    Planned {
        at: Duration::from_millis(at),
        lasts: Duration::from_millis(lasts),
        fault,
    }
}

/// An empty machine replaces a learner that was just removed, and contacts a node that has not
/// applied the removal. It must not be refused as a member that has lost its disk.
#[test]
fn an_empty_machine_in_the_place_of_a_removed_learner_waits_to_be_added_in_seeds_114_and_118() {
    for seed in [114, 118] {
        assert_eq!(run_caught(seed, &without_minting(seed)).violation, None);
    }
}

/// The same case, next to a node that is cut off from a majority for longer than an empty node
/// waits for a leader: the faults of seed 600144.
#[test]
fn an_empty_machine_beside_a_node_without_a_majority_waits_to_be_added() {
    let plan = Plan {
        founders: 3,
        others: 1,
        clients: 1,
        everywhere: LAN,
        until: Duration::from_secs(40),
        faults: vec![
            planned(1_000, 3_000, Fault::Add(3)),
            planned(6_000, 30_000, Fault::Split(vec![2, 3])),
            planned(8_000, 0, Fault::Remove(3)),
        ],
        ..without_minting(1)
    };
    assert_eq!(run_caught(1, &plan).violation, None);
}

/// A node that is being added opens its log long after its start. If a sync of the first segment
/// fails, the node refuses its ID or stops. When it is added again, it takes the ID.
#[test]
fn a_node_whose_disk_fails_while_it_is_added_can_be_added_again() {
    for after in 0..4 {
        let plan = Plan {
            founders: 3,
            others: 1,
            clients: 1,
            everywhere: LAN,
            until: Duration::from_secs(10),
            faults: vec![
                planned(500, 2_000, Fault::FailingDisk(3, after)),
                planned(1_000, 0, Fault::Add(3)),
                planned(5_000, 0, Fault::Add(3)),
            ],
            ..without_minting(1)
        };
        let run = run_caught(1, &plan);
        assert_eq!(run.violation, None, "sync {after} fails");
        let not_taken = (run.lines.iter()).filter(|line| line.contains(" its ID: "));
        let expected = usize::from(after < 2);
        assert_eq!(not_taken.count(), expected, "sync {after} fails");
    }
}

/// A plan with a planted fault, which one of its faults makes visible, is shrunk to that fault.
#[test]
fn a_story_keeps_the_faults_that_it_needs() {
    let drawn = Plan {
        founders: 3,
        others: 0,
        clients: 1,
        minting: Minting::BeforeCommit,
        everywhere: LAN,
        until: Duration::from_secs(9),
        faults: vec![
            planned(200, 0, Fault::Reset(0, 1)),
            planned(400, 100, Fault::SlowDisk(1, Duration::from_millis(20))),
            planned(1_500, 7_000, Fault::Split(vec![2])),
            planned(2_000, 200, Fault::Refuse(1, 0)),
        ],
        ..Plan::new(1)
    };
    let found = run_caught(1, &drawn);
    let check = found.violation.as_ref().map(|violation| violation.check);
    assert_eq!(check, Some("IDs are in their committed window"));
    let (again, shrunk) = shrink(found, &drawn);
    assert_eq!(again.violation.map(|violation| violation.check), check);
    assert_eq!(shrunk.faults, drawn.faults[2..3], "{shrunk:?}");
}

/// Searches for seeds that detect missing guards, if `SEQD_CLUSTER_HUNT` sets their number. For
/// each guard, one of the seeds must detect that it is missing.
#[test]
fn seeds_that_miss_guards_by_command() {
    let count = number_of("SEQD_CLUSTER_HUNT").unwrap_or(0);
    let guards = [
        Guard::VoteSynced,
        Guard::EntriesSynced,
        Guard::PurgeClamp,
        Guard::PreVote,
        Guard::ReadConfirmed,
        Guard::SameLeadership,
        Guard::UnknownStaysUnknown,
    ];
    let mut not_missed = Vec::new();
    for guard in guards.into_iter().filter(|_| count > 0) {
        let began = Instant::now();
        take_out(Some(guard));
        let found = (1..=count).find_map(|seed| {
            let run = run_caught(seed, &Plan::new(seed));
            Some((seed, run.violation?))
        });
        take_out(None);
        println!(
            "without {guard:?}: {found:?}, {:.1} s",
            began.elapsed().as_secs_f64()
        );
        not_missed.extend(found.is_none().then_some(guard));
    }
    assert_eq!(not_missed, [], "of {count} seeds");
}

#[test]
fn equal_seeds_are_equal_runs() {
    let first = number_of("SEQD_CLUSTER_SEED").unwrap_or(1);
    let mut other = 0;
    for seed in first..first + 3 {
        let plan = Plan::new(seed);
        let (one, two) = (run(seed, &plan), run(seed, &plan));
        for (one, two) in one.lines.iter().zip(&two.lines) {
            assert_eq!(one, two, "seed {seed}");
        }
        assert_eq!(one, two);
        assert_ne!(one.delivered, other);
        other = one.delivered;
    }
}
