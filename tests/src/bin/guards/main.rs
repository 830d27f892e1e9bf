//! Removes each guard, runs the test that must fail without it, and prints the results.
//!
//! ```console
//! $ cargo run -p seqd-tests --bin guards                 # every guard
//! $ cargo run -p seqd-tests --bin guards -- PreVote      # some of them
//! ```
//!
//! It builds the tests once, in the dev profile, with `--cfg seqd_bugs` for the crates of the
//! workspace. Each test runs first with every guard in place, and must pass. Then it runs without
//! its guard, and must fail with the words of the table; any other failure does not count. The
//! table is printed with the times of these second runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a program of the tests: a panic with a message is how it fails"
)]

mod build;
mod trial;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use seqd_guards::Guard;
use seqd_tests::guards::{Row, rows};

use build::Built;
use trial::TrialResult;

/// The number of tests that run at the same time. They measure no time, and most of them wait for
/// other work.
const AT_ONCE: usize = 2;

struct Found {
    row: Row,
    verdict: TrialResult,
    took: Duration,
}

fn main() -> ExitCode {
    if build::is_compiler() {
        let error = build::compile();
        eprintln!("the compiler does not start: {error}");
        return ExitCode::FAILURE;
    }
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = asked.iter().find(|name| Guard::named(name).is_none()) {
        let names: Vec<&str> = Guard::ALL.iter().map(|guard| guard.name()).collect();
        eprintln!(
            "there is no guard {unknown}; there are: {}",
            names.join(", ")
        );
        return ExitCode::from(2);
    }
    let is_asked =
        |row: &Row| asked.is_empty() || asked.iter().any(|name| name == row.guard.name());
    let all = rows();
    let rows: Vec<Row> = all.iter().filter(|row| is_asked(row)).cloned().collect();
    let began = Instant::now();
    let built = Built::new(&all, &rows);
    println!("built in {:.0} s", began.elapsed().as_secs_f64());
    let began = Instant::now();
    let mut found = try_all(&rows, &built);
    found.sort_by_key(|found| {
        Guard::ALL
            .iter()
            .position(|guard| *guard == found.row.guard)
    });
    let table = table(&found);
    println!("{table}");
    let missed = found
        .iter()
        .filter(|found| found.verdict != TrialResult::Caught);
    let missed = missed.count();
    println!(
        "{} of {} guards are missed when they are gone, in {:.0} s",
        found.len() - missed,
        found.len(),
        began.elapsed().as_secs_f64()
    );
    if missed > 0 {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn try_all(rows: &[Row], built: &Built) -> Vec<Found> {
    let (left, found) = (Mutex::new(rows.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(row) = left.lock().unwrap().next() else {
                        return;
                    };
                    let (verdict, took) = trial::verdict(row, built);
                    println!(
                        "{}: {verdict}, {:.1} s",
                        row.guard.name(),
                        took.as_secs_f64()
                    );
                    let row = row.clone();
                    found.lock().unwrap().push(Found { row, verdict, took });
                }
            });
        }
    });
    found.into_inner().unwrap()
}

fn table(found: &[Found]) -> String {
    let mut table = "| guard taken out | what it holds | test | violation | | s |\n\
                     |---|---|---|---|---|---|\n"
        .to_owned();
    for Found { row, verdict, took } in found {
        table += &format!(
            "| {} | {} | {}: {} | {} | {verdict} | {:.1} |\n",
            row.guard.name(),
            row.holds,
            row.place.package(),
            row.test,
            row.violation,
            took.as_secs_f64()
        );
    }
    table
}
