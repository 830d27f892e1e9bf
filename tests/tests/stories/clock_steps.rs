//! Clocks that are set repeatedly under a load of IDs: a short run of `soak clocks steps`.
//!
//! If clocks cannot be set here (see `seqd_tests::clock`), the story is skipped.

use seqd_tests::clock_steps::ClockSteps;
use seqd_tests::seed::Random;

/// One round of all kinds of phases, which has some three hundred steps and takes half a minute.
const STEPS: u64 = 150;

#[test]
fn clocks_that_are_set_hundreds_of_times_repeat_no_id_and_stop_no_node_whose_clock_is_right() {
    let run = ClockSteps {
        steps: STEPS,
        is_short: true,
    };
    let random = Random::of_this_run("clock steps");
    if let Some(verdict) = run.judged(random) {
        assert_eq!(verdict, Ok(()));
    }
}
