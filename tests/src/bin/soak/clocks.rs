//! Wrong clocks: thousands of steps on three nodes, and a table of the cost of single ones.

use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::clock_steps::ClockSteps;
use seqd_tests::permits;

use crate::arguments::Arguments;
use crate::clock_table;

/// The default number of steps, which takes about ten minutes.
const STEPS: u64 = 3_000;

pub(crate) fn run(arguments: &mut Arguments) -> Result<(), Violation> {
    match arguments.command().as_str() {
        "steps" => steps(arguments),
        "table" => {
            arguments.allow("--long --at-once");
            permits::allow(arguments.value("--at-once", 2));
            clock_table::table(Duration::from_secs(arguments.value("--long", 120)))
        }
        other => panic!("clocks {other:?} is not understood; steps and table are"),
    }
}

fn steps(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--steps --seed");
    let run = ClockSteps {
        steps: arguments.value("--steps", STEPS),
        is_short: false,
    };
    run.judged(arguments.random("clocks steps"))
        .unwrap_or_else(|| Err(Violation::new("clocks", "no clock can be set here")))
}
