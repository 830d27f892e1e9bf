//! Simulated power cuts of whole data folders: many histories, each from its own seed.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use seqd_raft::simulation::{CUTS_PER_HISTORY, Figures, Plant, history};
use seqd_tests::checkers::Violation;

/// Lives histories from `seed` on until `cuts` cuts are done, one thread for each processor.
pub(crate) fn run(cuts: u64, seed: u64) -> Result<(), Violation> {
    let began = Instant::now();
    let histories = cuts.div_ceil(CUTS_PER_HISTORY);
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let (total, found) = (Mutex::new(Figures::default()), Mutex::new(None));
    let fingerprints = Mutex::new(BTreeSet::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    println!("{histories} histories of {CUTS_PER_HISTORY} cuts from seed {seed} on");
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while found.lock().unwrap().is_none() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= histories {
                        return;
                    }
                    match history(seed + number, CUTS_PER_HISTORY, Plant::Nothing) {
                        Ok(figures) => {
                            add(&mut total.lock().unwrap(), &figures);
                            fingerprints.lock().unwrap().insert(figures.fingerprint);
                        }
                        Err(violation) => *found.lock().unwrap() = Some(violation.to_string()),
                    }
                    if done.fetch_add(1, Ordering::Relaxed) % 2_000 == 1_999 {
                        print_progress(&total.lock().unwrap(), began);
                    }
                }
            });
        }
    });
    let total = *total.lock().unwrap();
    print_progress(&total, began);
    println!(
        "{} cuts while opening, {} restarts, {} snapshots, {} installs, {} purges, {} truncations, \
         {} operations of the disk",
        total.cuts_while_opening,
        total.restarts,
        total.snapshots,
        total.installs,
        total.purges,
        total.truncations,
        total.operations
    );
    if let Some(what) = found.lock().unwrap().take() {
        return Err(violated(what));
    }
    let different = fingerprints.lock().unwrap().len() as u64;
    if total.cuts < cuts || different * 100 < histories * 99 {
        let why = format!("{} cuts, {different} different histories", total.cuts);
        return Err(violated(why));
    }
    Ok(())
}

fn violated(detail: String) -> Violation {
    Violation::new("what is acknowledged survives a power cut", detail)
}

fn add(total: &mut Figures, figures: &Figures) {
    total.cuts += figures.cuts;
    total.cuts_while_opening += figures.cuts_while_opening;
    total.restarts += figures.restarts;
    total.operations += figures.operations;
    total.snapshots += figures.snapshots;
    total.installs += figures.installs;
    total.purges += figures.purges;
    total.truncations += figures.truncations;
}

fn print_progress(total: &Figures, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{} cuts in {seconds:.1} s: {:.0} a second",
        total.cuts,
        total.cuts as f64 / seconds
    );
}
