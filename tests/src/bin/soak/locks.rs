//! Locks under faults of processes, links and clocks, and a thousand waiters for one lock.

use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::lock_runs::{locks_under_faults, queue};

use crate::arguments::Arguments;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--seconds --seed");
    let length = Duration::from_secs(arguments.value("--seconds", 600));
    locks_under_faults(Some(length), true, arguments.random("locks"))
        .unwrap_or_else(|| Err(Violation::new("locks", "no clock can be set here")))
}

/// Runs with the largest number of waiters that a lock may have.
pub(crate) fn queue(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--waiters --seed");
    queue::judged(
        arguments.value("--waiters", 1_000),
        arguments.random("lock-queue"),
    )
}
