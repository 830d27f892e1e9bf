//! The log under power cuts: simulated disks, thousands of cuts, and a model of what must survive
//! each of them. Planted faults, one at a time, show that the simulation detects them; guards
//! (`docs/internals/GUARDS.md`) show it of further ones.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on, fails"
)]

mod model;
mod world;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use seqd_disk::simulated::{Call, Operation};
use seqd_disk::{Tap, Tapped};
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
    let cuts = number("SEQD_LOG_CUTS").unwrap_or(3000);
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

/// A log that retries a failed sync and trusts its `Ok`. A lie of the disk cannot represent it.
struct RetriedSync;

impl Tap for RetriedSync {
    fn sync(&self, _: &Path, below: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        below().or_else(|error| below().map_err(|_| error))
    }
}

#[test]
fn a_failed_sync_that_is_tried_again_is_caught() {
    let plan = Plan {
        seam: |disk| {
            let (disk, tap) = (Arc::new(disk), Arc::new(RetriedSync));
            Arc::new(Tapped { disk, tap })
        },
        ..Plan::default()
    };
    assert_caught("sync retried", &plan);
}
