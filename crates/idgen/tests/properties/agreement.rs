//! The agreement of clocks: known cases, and properties of arbitrary clocks.

use std::time::Duration;

use proptest::prelude::*;
use seqd_idgen::{Agreement, Line, Standing, WallMs};

const LIMIT_MS: u64 = 500;

fn line(ms: i64) -> Line {
    Line {
        ms,
        uncertain_ms: 0,
    }
}

fn around(ms: i64, uncertain_ms: u64) -> Line {
    Line { ms, uncertain_ms }
}

fn of(voters: usize, known: &[i64]) -> Agreement {
    let known: Vec<Line> = known.iter().map(|ms| line(*ms)).collect();
    Agreement::of(voters, &known, LIMIT_MS)
}

#[test]
fn one_clock_of_three_that_is_wrong_is_named_and_the_others_are_right() {
    for off in [502, 3_000, 3_600_000, 315_360_000_000] {
        for off in [off, -off] {
            let agreement = of(3, &[0, 1, off]);
            assert_eq!(agreement.judge(line(0)), Standing::Right);
            assert_eq!(agreement.judge(line(1)), Standing::Right);
            let Standing::Wrong { ahead_ms } = agreement.judge(line(off)) else {
                panic!("{off} is wrong")
            };
            assert!(ahead_ms.abs_diff(off) <= 1, "{ahead_ms} for {off}");
        }
    }
}

#[test]
fn clocks_that_agree_with_a_neighbour_are_all_right() {
    let agreement = of(3, &[0, 400, 800]);
    for ms in [0, 400, 800] {
        assert_eq!(agreement.judge(line(ms)), Standing::Right, "{ms}");
    }
}

#[test]
fn two_clocks_that_disagree_are_split_and_no_clock_is_called_wrong() {
    for known in [&[0, 501][..], &[0, 3_000, 6_000]] {
        let agreement = of(3, known);
        assert_eq!(agreement, Agreement::Split);
        assert_eq!(agreement.judge(line(0)), Standing::Split);
    }
    assert_ne!(of(3, &[0, 500]), Agreement::Split);
}

#[test]
fn less_than_a_majority_decides_nothing_and_one_voter_is_a_majority() {
    assert_eq!(of(3, &[0]), Agreement::Unknown);
    assert_eq!(of(5, &[0, 0]), Agreement::Unknown);
    assert_eq!(of(2, &[0]), Agreement::Unknown);
    assert_eq!(of(1, &[7]).judge(line(7)), Standing::Right);
}

#[test]
fn an_uncertain_measurement_does_not_make_a_clock_wrong() {
    let known = [line(0), line(10), around(900, 400)];
    let agreement = Agreement::of(3, &known, LIMIT_MS);
    assert_eq!(agreement.judge(around(900, 400)), Standing::Right);
    assert!(matches!(
        agreement.judge(line(1300)),
        Standing::Wrong { .. }
    ));
}

#[test]
fn a_line_returns_the_reading_from_which_it_was_made() {
    let (wall, monotonic) = (WallMs(1_795_228_001_118), Duration::from_millis(77_123));
    let line = Line::of(wall, monotonic, 3);
    assert_eq!(line.wall_at(monotonic), wall);
    let later = monotonic + Duration::from_millis(250);
    assert_eq!(line.wall_at(later), WallMs(wall.0 + 250));
    // There are no readings before 1970.
    assert_eq!(line.wall_at(Duration::ZERO).0, wall.0 - 77_123);
    assert_eq!(
        Line::of(WallMs(0), monotonic, 0).wall_at(Duration::ZERO),
        WallMs(0)
    );
}

fn clocks() -> impl Strategy<Value = Vec<Line>> {
    let one = (-3_000_i64..3_000, 0_u64..300).prop_map(|(ms, uncertain)| around(ms, uncertain));
    prop::collection::vec(one, 1..8)
}

/// Returns whether two clocks agree, as far as they are known.
fn agree(one: Line, other: Line) -> bool {
    one.ms.abs_diff(other.ms) <= LIMIT_MS + one.uncertain_ms + other.uncertain_ms
}

proptest! {
    /// A clock that agrees with a majority whose clocks all agree with each other is right. A clock
    /// that agrees with no other clock is not.
    #[test]
    fn a_clock_is_right_if_it_agrees_with_a_majority(clocks in clocks()) {
        let majority = clocks.len() / 2 + 1;
        let agreement = Agreement::of(clocks.len(), &clocks, LIMIT_MS);
        for one in &clocks {
            let near: Vec<Line> = clocks.iter().copied().filter(|other| agree(*one, *other)).collect();
            let all_agree = near.iter().all(|a| near.iter().all(|b| agree(*a, *b)));
            let standing = agreement.judge(*one);
            if near.len() >= majority && all_agree {
                prop_assert_eq!(standing, Standing::Right);
            }
            if standing == Standing::Right && clocks.len() > 1 {
                prop_assert!(near.len() > 1, "{:?} agrees with nobody", one);
            }
        }
    }

    /// A majority is never judged wrong.
    #[test]
    fn fewer_than_half_are_wrong(clocks in clocks()) {
        let agreement = Agreement::of(clocks.len(), &clocks, LIMIT_MS);
        let is_wrong = |line: &&Line| matches!(agreement.judge(**line), Standing::Wrong { .. });
        let wrong = clocks.iter().filter(is_wrong).count();
        prop_assert!(2 * wrong < clocks.len(), "{} of {}", wrong, clocks.len());
    }

    /// The result does not depend on the measuring node: all lines are shifted by the same amount.
    #[test]
    fn equal_measurements_give_equal_verdicts(clocks in clocks(), moved in -1_000_000_i64..1_000_000) {
        let elsewhere: Vec<Line> =
            clocks.iter().map(|line| Line { ms: line.ms + moved, ..*line }).collect();
        let here = Agreement::of(clocks.len(), &clocks, LIMIT_MS);
        let there = Agreement::of(clocks.len(), &elsewhere, LIMIT_MS);
        for (one, other) in clocks.iter().zip(&elsewhere) {
            let (one, other) = (here.judge(*one), there.judge(*other));
            match (one, other) {
                (Standing::Wrong { ahead_ms: a }, Standing::Wrong { ahead_ms: b }) =>
                    prop_assert!(a.abs_diff(b) <= 1),
                _ => prop_assert_eq!(one, other),
            }
        }
    }

    /// The bounds that a fast path compares with equal those of `judge`.
    #[test]
    fn the_bounds_of_the_right_interval_are_exact(clocks in clocks()) {
        if let Agreement::Agreed(agreed) = Agreement::of(clocks.len(), &clocks, LIMIT_MS) {
            let agreement = Agreement::Agreed(agreed);
            let (first, last) = agreed.right();
            for (ms, right) in [(first, true), (first - 1, false), (last, true), (last + 1, false)] {
                let standing = agreement.judge(line(ms));
                prop_assert_eq!(standing == Standing::Right, right, "{} of {:?}", ms, agreed);
            }
            let middle = agreed.middle();
            prop_assert_eq!(agreement.judge(middle), Standing::Right);
        }
    }
}
