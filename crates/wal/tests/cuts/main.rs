//! The log under power cuts: simulated disks, thousands of cuts, and a model of what must survive
//! each of them. Planted faults, one at a time, show that the simulation detects them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on, fails"
)]

mod meddling;
mod model;
mod world;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use meddling::Wrong;
use seqd_disk::Disk;
use seqd_disk::simulated::{Call, Operation, SimulatedDisk};
use world::{Carried, Plan, Seen, run};

/// Runs worlds from this seed on until this many cuts were made.
fn run_until(cuts: u64, first: u64, plan: &Plan) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut seed = first;
    while seen.cuts < cuts {
        seen.add(run(seed, plan)?);
        seed += 1;
    }
    Ok(seen)
}

#[test]
fn no_power_cut_loses_acknowledged_entries_or_restores_truncated_ones() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|value| value.parse().ok())
    };
    let plan = Plan::default();
    if let Some(seed) = number("SEQD_LOG_SEED") {
        println!("{:?}", run(seed, &plan).unwrap_or_else(|e| panic!("{e}")));
        return;
    }
    let since = std::time::Instant::now();
    let cuts = number("SEQD_LOG_CUTS").unwrap_or(2500);
    let seen = run_until(cuts, 0, &plan).unwrap_or_else(|e| panic!("{e}"));
    println!("{seen:?} in {:?}", since.elapsed());
    let met = [
        seen.cuts_in_open,
        seen.kills,
        seen.closes,
        seen.errors,
        seen.torn,
        seen.rolls,
        seen.removals,
    ];
    assert!(met.iter().all(|count| *count >= 50), "{seen:?}");
}

/// The number of cuts in new worlds, in addition to those of every run. It takes about a second.
const FRESH_CUTS: u64 = 500;

#[test]
fn no_power_cut_of_worlds_that_were_never_run_before_loses_anything() {
    // A seed that is printed in full, with room to count up from.
    let first = RandomState::new().build_hasher().finish() >> 1;
    println!("worlds from seed {first} on; one alone: SEQD_LOG_SEED={first}");
    let seen = run_until(FRESH_CUTS, first, &Plan::default());
    let seen = seen.unwrap_or_else(|e| panic!("{e}"));
    assert!(seen.cuts >= FRESH_CUTS, "{seen:?}");
}

#[test]
fn the_same_seed_makes_the_same_operations() {
    for seed in 0..20 {
        let plan = Plan::default();
        let (once, again) = (run(seed, &plan).unwrap(), run(seed, &plan).unwrap());
        assert_eq!(once, again, "seed {seed}");
        assert_ne!(once.fingerprint, run(seed + 1, &plan).unwrap().fingerprint);
    }
}

/// The number of worlds within which a planted fault must be caught.
const WORLDS: u64 = 200;

#[track_caller]
fn assert_caught(what: &str, plan: &Plan) {
    for seed in 0..WORLDS {
        if let Err(violation) = run(seed, plan) {
            let first = violation.lines().next().unwrap_or_default();
            println!("{what}: {first}");
            return;
        }
    }
    panic!("{what}: not caught in {WORLDS} worlds");
}

fn lying(lie: fn(&Operation, &Carried) -> bool) -> Plan {
    Plan {
        lie: Some(lie),
        // Only the lie should be caught.
        errors: false,
        ..Plan::default()
    }
}

fn meddling(seam: fn(SimulatedDisk) -> Arc<dyn Disk>) -> Plan {
    Plan {
        seam,
        ..Plan::default()
    }
}

fn is_segment(operation: &Operation) -> bool {
    operation
        .path
        .extension()
        .is_some_and(|extension| extension == "seg")
}

fn is_sync(operation: &Operation) -> bool {
    matches!(operation.call, Call::SyncData | Call::SyncAll)
}

#[test]
fn an_answer_before_the_sync_is_caught() {
    let plan = lying(|operation, _| operation.call == Call::SyncData && is_segment(operation));
    assert_caught("answered unsynced", &plan);
}

#[test]
fn a_segment_that_is_named_before_it_is_synced_is_caught() {
    let plan = lying(|operation, _| is_sync(operation) && operation.is_on(".seg.tmp"));
    assert_caught("preallocation unsynced", &plan);
}

#[test]
fn a_new_segment_whose_folder_is_not_synced_is_caught() {
    assert_caught(
        "folder unsynced",
        &lying(|operation, _| operation.call == Call::SyncDir),
    );
}

#[test]
fn a_vote_that_is_answered_before_it_is_durable_is_caught() {
    let plan = lying(|operation, carried| {
        is_sync(operation) && is_segment(operation) && carried.vote.load(Relaxed)
    });
    assert_caught("vote unsynced", &plan);
}

#[test]
fn a_truncation_that_is_answered_before_it_is_durable_is_caught() {
    let plan = lying(|operation, carried| {
        is_sync(operation) && is_segment(operation) && carried.truncate.load(Relaxed)
    });
    assert_caught("truncation unsynced", &plan);
}

#[test]
fn a_torn_tail_whose_rest_is_not_zeroed_is_caught() {
    let plan = Plan {
        // Values of two sectors and equal lengths: the remains of one fit after the next. Lives
        // that end in their first write leave such remains.
        lens: &[900],
        records: 1,
        appends_alone: true,
        cut_within: &[(6, 8)],
        lives: 100,
        ..lying(|operation, _| {
            operation.call == Call::Write && is_segment(operation) && operation.zeroes
        })
    };
    assert_caught("rest not zeroed", &plan);
}

#[test]
fn a_vote_that_only_a_purged_segment_contains_is_detected() {
    let plan = meddling(|disk| Wrong::VoteLeftBehind.on(disk));
    assert_caught("vote left behind", &plan);
}

#[test]
fn a_failed_sync_that_is_tried_again_is_caught() {
    let plan = meddling(|disk| Wrong::SyncRetried.on(disk));
    assert_caught("sync retried", &plan);
}
