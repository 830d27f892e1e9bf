//! Runs without a violation, and equal runs from equal seeds.

use std::time::Instant;

use seqd_guards::{Guard, take_out};

use super::plan::Plan;
use super::run::{Run, run, run_caught};
use super::shrink::{shrink, story};

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a decimal number"))
}

/// The first seeds; by command from another one on, and as many as are asked for.
fn seeds(unless_set: u64) -> std::ops::Range<u64> {
    let first = number_of("SEQD_CLUSTER_SEED");
    let count = number_of("SEQD_CLUSTER_RUNS");
    let count = count.unwrap_or(if first.is_some() { 1 } else { unless_set });
    let first = first.unwrap_or(1);
    first..first + count
}

fn passes(seed: u64) -> Run {
    let plan = Plan::new(seed);
    let found = run_caught(seed, &plan);
    if found.violation.is_some() {
        let (found, plan) = shrink(found, &plan);
        panic!("{}", story(&found, &plan));
    }
    found
}

#[test]
fn seeds_find_nothing() {
    let seeds = seeds(8);
    println!(
        "replay with SEQD_CLUSTER_SEED={} SEQD_CLUSTER_RUNS={}",
        seeds.start,
        seeds.end - seeds.start
    );
    let began = Instant::now();
    let (mut lasted, mut ops, mut entries, mut slowest) = (0.0, 0, 0, 0.0_f64);
    for seed in seeds.clone() {
        let run = passes(seed);
        lasted += run.lasted.as_secs_f64();
        ops += run.ops;
        entries += run.entries;
        slowest = slowest.max(run.healed.as_secs_f64());
    }
    let real = began.elapsed().as_secs_f64();
    println!(
        "{} runs: {:.2} virtual hours in {real:.1} s, {:.0} times as fast; {ops} requests, {entries} entries; \
         well {slowest:.2} s after healing at the latest",
        seeds.end - seeds.start,
        lasted / 3600.0,
        lasted / real
    );
}

/// Looks for such seeds, by command: this many for each guard.
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
    }
}

#[test]
fn equal_seeds_are_equal_runs() {
    let first = number_of("SEQD_CLUSTER_SEED").unwrap_or(1);
    let mut other = 0;
    for seed in first..first + 2 {
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
