//! The clock guard: starts with a mark, rollbacks while running, and forward jumps.

use std::time::Duration;

use proptest::prelude::*;
use seqd_idgen::ClockVerdict::{Behind, ForwardJump, Good, Skewed, Split, Wait};
use seqd_idgen::{
    ClockGuard, ClockPolicy, ClockVerdict, FORWARD_JUMP_CONFIRM, MARK_LEAD_MS, OnRollback,
    Standing, StoredMark, WallMs,
};

use crate::cases;

const DAY_MS: u64 = 86_400_000;
const BASE_MS: u64 = 1_800_000_000_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A guard and its clocks: the wall clock differs from the monotonic clock by `offset_ms`.
struct Bench {
    guard: ClockGuard,
    mono_ms: u64,
    offset_ms: i64,
    last_used: Option<WallMs>,
    /// The result of the comparison with the peers' clocks.
    standing: Standing,
}

impl Bench {
    fn new(policy: ClockPolicy, mark: Option<StoredMark>) -> Self {
        let guard = ClockGuard::new(policy, mark);
        Self {
            guard,
            mono_ms: 0,
            offset_ms: 0,
            last_used: None,
            standing: Standing::Unknown,
        }
    }

    fn wall(&self) -> WallMs {
        WallMs((BASE_MS + self.mono_ms).saturating_add_signed(self.offset_ms))
    }

    fn read(&mut self) -> ClockVerdict {
        let wall = self.wall();
        self.guard
            .observe(wall, ms(self.mono_ms), self.last_used, self.standing)
    }

    fn after(&mut self, passed_ms: u64) -> ClockVerdict {
        self.mono_ms += passed_ms;
        self.read()
    }

    fn step(&mut self, by_ms: i64) {
        self.offset_ms += by_ms;
    }
}

fn behind(by_ms: u64, until: WallMs) -> ClockVerdict {
    Behind { by_ms, until }
}

/// Returns a mark whose last used tick is at `BASE_MS` and that reaches 500 ms further.
fn crashed() -> StoredMark {
    StoredMark::running(WallMs(BASE_MS), WallMs(BASE_MS), WallMs(BASE_MS + 30_000))
}

#[test]
fn a_first_start_serves_at_once() {
    assert_eq!(Bench::new(ClockPolicy::default(), None).read(), Good);
}

#[test]
fn a_crash_and_a_quick_restart_on_a_good_clock_are_not_a_rollback() {
    let mut bench = Bench::new(ClockPolicy::default(), Some(crashed()));
    assert_eq!(bench.after(100), Wait { ms: 400 });
    assert_eq!(bench.after(400), Good);
}

#[test]
fn a_restart_after_a_clean_stop_serves_in_the_next_millisecond() {
    let mark = StoredMark::stopped(WallMs(BASE_MS));
    let mut bench = Bench::new(ClockPolicy::default(), Some(mark));
    assert_eq!(bench.read(), Wait { ms: 1 });
    assert_eq!(bench.after(1), Good);
}

#[test]
fn a_start_with_the_clock_20_ms_back_waits() {
    let mark = StoredMark::stopped(WallMs(BASE_MS));
    let mut bench = Bench::new(ClockPolicy::default(), Some(mark));
    bench.step(-20);
    assert_eq!(bench.read(), Wait { ms: 21 });
    assert_eq!(bench.after(21), Good);
}

#[test]
fn a_start_with_the_clock_10_s_back_refuses_until_it_has_caught_up() {
    let mut bench = Bench::new(ClockPolicy::default(), Some(crashed()));
    let until = WallMs(BASE_MS + MARK_LEAD_MS);
    bench.step(-10_000);
    assert_eq!(bench.read(), behind(10_500, until));
    assert_eq!(bench.after(9_949), behind(551, until));
    assert_eq!(bench.after(1), Wait { ms: 550 });
    assert_eq!(bench.after(550), Good);
}

#[test]
fn a_jump_that_the_peers_agree_with_is_good_at_once_and_one_that_they_do_not_never() {
    let mut bench = Bench::new(ClockPolicy::default(), None);
    assert_eq!(bench.read(), Good);
    bench.step(3_600_000);
    bench.standing = Standing::Wrong {
        ahead_ms: 3_600_000,
    };
    let skewed = Skewed {
        ahead_ms: 3_600_000,
    };
    assert_eq!(bench.after(1_000), skewed);
    assert_eq!(bench.after(DAY_MS), skewed);
    bench.standing = Standing::Split;
    assert_eq!(bench.after(1_000), Split);
    bench.standing = Standing::Right;
    assert_eq!(bench.after(1_000), Good);
    // Without the peers, the trusted line is still the line that they agreed with.
    bench.standing = Standing::Unknown;
    assert_eq!(bench.after(1_000), Good);
    assert_eq!(bench.guard.last_line_ms(), Some(BASE_MS as i64 + 3_601_000));
}

#[test]
fn a_clock_that_was_wrong_stays_so_when_the_peers_fall_silent_until_it_is_right() {
    for off_ms in [10_000, -10_000] {
        let mut bench = Bench::new(ClockPolicy::default(), None);
        bench.standing = Standing::Right;
        assert_eq!(bench.read(), Good);
        bench.step(off_ms);
        bench.standing = Standing::Wrong { ahead_ms: off_ms };
        let skewed = Skewed { ahead_ms: off_ms };
        assert_eq!(bench.after(1_000), skewed);
        bench.standing = Standing::Unknown;
        for _ in 0..20 {
            assert_eq!(bench.after(1_000), skewed);
        }
        bench.step(-off_ms);
        assert_eq!(bench.after(1_000), Good);
    }
}

#[test]
fn a_jump_before_contact_with_peers_is_not_confirmed_by_the_time_of_contact() {
    let mut bench = Bench::new(ClockPolicy::default(), None);
    assert_eq!(bench.read(), Good);
    bench.step(10_000);
    assert_eq!(bench.after(1_000), ForwardJump { by_ms: 10_000 });
    bench.standing = Standing::Split;
    assert_eq!(bench.after(20_000), Split);
    bench.standing = Standing::Unknown;
    assert_eq!(bench.after(1_000), Split);
}

#[test]
fn a_clock_before_the_last_tick_is_reported_as_such_before_wrong() {
    let mut bench = Bench::new(ClockPolicy::default(), None);
    bench.last_used = Some(WallMs(BASE_MS));
    bench.step(-600_000);
    bench.standing = Standing::Wrong { ahead_ms: -600_000 };
    assert_eq!(bench.read(), behind(600_000, WallMs(BASE_MS)));
    let logical = ClockPolicy {
        on_rollback: OnRollback::Continue,
        ..ClockPolicy::default()
    };
    let mut bench = Bench::new(logical, None);
    bench.last_used = Some(WallMs(BASE_MS));
    bench.step(-600_000);
    bench.standing = Standing::Wrong { ahead_ms: -600_000 };
    assert_eq!(bench.read(), Good, "logical time goes on");
}

#[test]
fn a_node_serves_at_once_after_its_clock_is_corrected() {
    // The correction is the expected event, even if it is by years.
    for behind_ms in [10_000, 10_000 * DAY_MS as i64] {
        let mut bench = Bench::new(ClockPolicy::default(), Some(crashed()));
        bench.step(-behind_ms);
        assert!(matches!(bench.read(), Behind { .. }));
        bench.mono_ms += 3_000;
        bench.step(behind_ms);
        assert_eq!(bench.read(), Good);
    }
}

#[test]
fn a_rollback_while_running_is_refused_and_its_correction_is_not_a_jump() {
    let mut bench = Bench::new(ClockPolicy::default(), None);
    assert_eq!(bench.read(), Good);
    bench.last_used = Some(bench.wall());
    let until = bench.wall();
    bench.step(-10_000);
    assert_eq!(bench.after(1_000), behind(9_000, until));
    // Long enough for a line to be trusted if it were not known to be wrong.
    assert_eq!(bench.after(7_000), behind(2_000, until));
    bench.step(10_000);
    assert_eq!(bench.after(1), Good);
}

#[test]
fn a_rollback_within_the_tolerance_waits() {
    let mut bench = Bench::new(ClockPolicy::default(), None);
    bench.read();
    bench.last_used = Some(bench.wall());
    bench.step(-50);
    assert_eq!(bench.read(), Wait { ms: 50 });
    bench.step(-1);
    assert!(matches!(bench.read(), Behind { by_ms: 51, .. }));
}

#[test]
fn logical_time_is_good_while_running_and_refused_at_a_start() {
    let policy = ClockPolicy {
        on_rollback: OnRollback::Continue,
        ..ClockPolicy::default()
    };
    let mut bench = Bench::new(policy, Some(crashed()));
    bench.step(-10_000);
    assert!(matches!(bench.read(), Behind { .. }));
    bench.step(20_000);
    assert_eq!(bench.read(), Good);
    bench.last_used = Some(bench.wall());
    bench.step(-20_000);
    assert_eq!(bench.after(1), Good);
}

#[test]
fn a_forward_jump_is_good_only_once_it_has_stood_for_a_while() {
    let mut bench = Bench::new(ClockPolicy::default(), None);
    bench.read();
    bench.step(1_001);
    assert_eq!(bench.after(250), ForwardJump { by_ms: 1_001 });
    assert_eq!(bench.after(4_999), ForwardJump { by_ms: 1_001 });
    assert_eq!(bench.after(1), Good);
    assert_eq!(bench.after(1), Good);
}

#[test]
fn a_forward_jump_that_is_taken_back_was_a_passing_error() {
    let mut bench = Bench::new(ClockPolicy::default(), None);
    bench.read();
    bench.step(DAY_MS as i64);
    assert_eq!(bench.after(1_000), ForwardJump { by_ms: DAY_MS });
    bench.step(-(DAY_MS as i64));
    assert_eq!(bench.after(1_000), Good);
    // A later jump starts the confirmation time again.
    bench.step(DAY_MS as i64);
    assert_eq!(bench.after(4_000), ForwardJump { by_ms: DAY_MS });
    assert_eq!(bench.after(4_000), ForwardJump { by_ms: DAY_MS });
    assert_eq!(bench.after(1_000), Good);
}

#[test]
fn a_rollback_between_two_jumps_restarts_the_steady_time_of_the_second() {
    let mut bench = Bench::new(ClockPolicy::default(), None);
    bench.read();
    bench.last_used = Some(bench.wall());
    bench.step(10_000);
    assert_eq!(bench.after(1_000), ForwardJump { by_ms: 10_000 });
    bench.step(-30_000);
    assert!(matches!(bench.after(6_000), Behind { .. }));
    bench.step(30_000);
    assert_eq!(bench.after(1_000), ForwardJump { by_ms: 10_000 });
    assert_eq!(bench.after(5_000), Good);
}

#[test]
fn a_clock_that_keeps_jumping_is_never_confirmed() {
    let mut bench = Bench::new(ClockPolicy::default(), None);
    bench.read();
    for _ in 0..100 {
        bench.step(5_000);
        assert!(matches!(bench.after(1_000), ForwardJump { .. }));
    }
}

#[test]
fn drift_within_the_tolerance_never_adds_up_to_a_jump() {
    let mut bench = Bench::new(ClockPolicy::default(), None);
    for _ in 0..1_000 {
        bench.step(500);
        assert_eq!(bench.after(250), Good);
    }
}

#[test]
fn a_clock_set_back_for_good_on_an_idle_node_becomes_the_line_to_jump_from() {
    let mut bench = Bench::new(ClockPolicy::default(), None);
    bench.read();
    bench.step(-60_000);
    assert_eq!(
        bench.read(),
        Good,
        "nothing was minted, so nothing is behind"
    );
    bench.step(60_000);
    assert_eq!(
        bench.after(1_000),
        Good,
        "back and at once forth is no jump"
    );
    bench.step(-60_000);
    bench.read();
    assert_eq!(bench.after(5_000), Good);
    bench.step(60_000);
    assert_eq!(bench.after(1), ForwardJump { by_ms: 60_000 });
}

#[test]
fn a_running_mark_reaches_past_the_clock_but_not_past_the_window() {
    let mark = |last, now, end| {
        StoredMark::running(WallMs(last), WallMs(now), WallMs(end))
            .ahead
            .0
    };
    assert_eq!(mark(1_000, 1_200, 30_000), 1_700);
    assert_eq!(
        mark(1_000, 900, 30_000),
        1_500,
        "a clock that is behind does not count"
    );
    assert_eq!(
        mark(1_000, DAY_MS, 30_000),
        30_000,
        "nor one that is far ahead"
    );
    assert_eq!(mark(29_999, 40_000, 29_999), 30_000);
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn no_sequence_of_steps_makes_a_reading_before_the_last_tick_valid(
        start_ms in -2_000i64..2_000,
        steps in proptest::collection::vec(
            (prop_oneof![3 => Just(0i64), 1 => -20_000i64..20_000], 0u64..2_000, any::<bool>()),
            1..60),
    ) {
        let mark = crashed();
        let mut bench = Bench::new(ClockPolicy::default(), Some(mark));
        bench.step(start_ms);
        for (step, passed, mints) in steps {
            bench.step(step);
            match bench.after(passed) {
                Good | ForwardJump { .. } => {
                    prop_assert!(bench.wall() >= mark.ahead);
                    prop_assert!(bench.last_used.is_none_or(|last| last <= bench.wall()));
                    if mints {
                        bench.last_used = Some(bench.wall());
                    }
                }
                Wait { ms } => {
                    prop_assert!(ms >= 1);
                    let served = WallMs(bench.wall().0 + ms);
                    prop_assert!(served >= mark.ahead);
                }
                Behind { by_ms, until } => {
                    prop_assert!(by_ms > 50);
                    prop_assert_eq!(until, WallMs(bench.wall().0 + by_ms));
                }
                Skewed { .. } | Split => prop_assert!(false, "nobody was asked"),
            }
        }
        // Recovery: a steady clock that has passed all marks is good again after the confirmation
        // time of a jump.
        bench.mono_ms += 2_000 * 60 + 20_000 * 60;
        bench.read();
        prop_assert_eq!(bench.after(FORWARD_JUMP_CONFIRM.as_millis() as u64), Good);
    }
}
