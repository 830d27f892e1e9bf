//! A short run of `soak locks`, half a minute: fifty clients on ten locks while leaders are killed,
//! stopped and moved, and clocks are set.
//!
//! If clocks cannot be set here (see `seqd_tests::clock`), the story is skipped.

use seqd_tests::lock_runs::locks_under_faults;
use seqd_tests::seed::Random;

#[test]
fn no_fault_of_a_process_or_a_clock_lets_two_hold_a_lock_or_ends_a_hold_early() {
    let random = Random::of_this_run("locks under faults");
    if let Some(verdict) = locks_under_faults(None, false, random) {
        assert_eq!(verdict, Ok(()));
    }
}
