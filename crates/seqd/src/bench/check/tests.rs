//! Planted repeats and planted violations of the order are found, and nothing else is.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn numbers(values: &[i64]) -> Numbers {
    let mut numbers = Numbers::default();
    values.iter().for_each(|value| numbers.push(*value));
    numbers
}

/// The findings for these responses, each requested after the response before.
fn in_turn(step: i64, is_ordered: bool, responses: &[&[i64]]) -> Findings {
    let mut checker = Checker::new(step, is_ordered);
    for response in responses {
        let before = checker.before();
        checker.answered(before, &numbers(response));
    }
    checker.finish()
}

#[test]
fn a_planted_repeat_is_found() {
    let good = in_turn(1, false, &[&[5, 6], &[1, 2], &[3, 4], &[9]]);
    assert_eq!((good.checked, good.repeats), (7, 0));
    assert!(!good.is_violated() && good.order_violations.is_none());
    let bad = in_turn(1, false, &[&[5, 6, 7], &[1, 2], &[6, 7, 8], &[1]]);
    assert_eq!((bad.checked, bad.repeats), (9, 3));
    assert_eq!(bad.repeat_examples, ["1", "6"]);
    assert!(in_turn(1, false, &[&[7, 7]]).is_violated());
    let down = in_turn(-2, false, &[&[9], &[7], &[5], &[7]]);
    assert_eq!((down.checked, down.repeats), (4, 1));
    assert_eq!(down.repeat_examples, ["7"]);
    let (most, least) = (i64::MAX, i64::MIN);
    assert_eq!(
        in_turn(1, false, &[&[most], &[least], &[most, least]]).repeats,
        2
    );
}

#[test]
fn a_planted_violation_of_the_order_is_found() {
    let good = in_turn(1, true, &[&[1], &[2, 3], &[10], &[11]]);
    assert_eq!(good.order_violations, Some(0));
    let bad = in_turn(1, true, &[&[1], &[5, 6], &[4], &[7]]);
    assert_eq!(bad.order_violations, Some(1));
    assert_eq!(bad.order_examples, ["4 after 6"]);
    assert!(bad.is_violated() && bad.repeats == 0);
    let down = in_turn(-2, true, &[&[9], &[7], &[8], &[5]]);
    assert_eq!(down.order_violations, Some(1));
    assert_eq!(down.order_examples, ["8 after 7"]);
}

#[test]
fn requests_at_the_same_time_have_no_order() {
    let mut checker = Checker::new(1, true);
    let (one, other) = (checker.before(), checker.before());
    checker.answered(one, &numbers(&[2]));
    checker.answered(other, &numbers(&[1]));
    let late = checker.before();
    checker.answered(late, &numbers(&[3]));
    assert!(!checker.finish().is_violated());
}

#[test]
fn runs_with_a_step_count_their_numbers() {
    let mut repeats = Repeats::new(10, RUNS);
    let run = |low, high| Run { low, high };
    repeats.add(&[run(1, 91), run(101, 191), run(151, 211)]);
    let found = repeats.finish();
    assert_eq!((found.checked, found.repeats), (27, 5));
}

#[test]
fn the_check_stops_at_its_bound_and_reports_it() {
    let mut repeats = Repeats::new(1, 10);
    let apart: Vec<Run> = (0..GATHERED as i64)
        .map(|at| Run {
            low: at * 2,
            high: at * 2,
        })
        .collect();
    repeats.add(&apart);
    repeats.add(&apart[..5]);
    let found = repeats.finish();
    assert_eq!((found.checked, found.unchecked), (GATHERED as u64, 5));
    assert_eq!(found.repeats, 0);
}

proptest! {
    #[test]
    fn as_many_repeats_are_found_as_a_set_finds(
        responses in prop::collection::vec(prop::collection::vec(-50_i64..50, 1..8), 0..40),
        step in prop::sample::select(vec![1, -1]),
    ) {
        let mut seen = HashSet::new();
        let repeats = responses.iter().flatten().filter(|value| !seen.insert(**value)).count();
        let slices: Vec<&[i64]> = responses.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(in_turn(step, false, &slices).repeats, repeats as u64);
    }

    #[test]
    fn the_order_is_judged_as_by_definition(
        // Times of sending and of the response, and the number.
        requests in prop::collection::vec((0_u8..60, 1_u8..20, -20_i64..20), 1..30)
    ) {
        let mut events = Vec::new();
        for (at, (sent, takes, _)) in requests.iter().enumerate() {
            events.push((u16::from(*sent) * 2, at, false));
            events.push((u16::from(sent + takes) * 2 + 1, at, true));
        }
        events.sort_unstable();
        let mut checker = Checker::new(1, true);
        let mut before = vec![Before::default(); requests.len()];
        for (_, at, is_answer) in events {
            if is_answer {
                checker.answered(before[at], &numbers(&[requests[at].2]));
            } else {
                before[at] = checker.before();
            }
        }
        let ended = |(sent, takes, _): &(u8, u8, i64)| u16::from(sent + takes) * 2 + 1;
        let is_bad = |late: &(u8, u8, i64)| {
            requests.iter().any(|early| ended(early) < u16::from(late.0) * 2 && late.2 <= early.2)
        };
        let expected = requests.iter().filter(|request| is_bad(request)).count() as u64;
        prop_assert_eq!(checker.finish().order_violations, Some(expected));
    }
}
