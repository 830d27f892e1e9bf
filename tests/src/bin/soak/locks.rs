//! Locks under faults of processes, links and clocks, and a thousand waiters for one lock.

use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::lock_runs::{LockRun, queue};

use crate::arguments::Arguments;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow(&["--seconds", "--seed"]);
    let random = arguments.random("locks");
    let run = LockRun {
        length: Duration::from_secs(arguments.value("--seconds", 600)),
        may_have_links: true,
    };
    let Some((figures, verdict)) = run.judged(random) else {
        return Err(Violation::new("locks", "no clock can be set here"));
    };
    println!("{figures}");
    verdict
}

/// Runs with the largest number of waiters that a lock may have.
pub(crate) fn queue(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow(&["--waiters", "--seed"]);
    let random = arguments.random("lock-queue");
    let (figures, verdict) = queue::judged(arguments.value("--waiters", 1_000), random);
    println!("{figures}");
    verdict
}
