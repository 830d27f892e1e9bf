//! Correct histories, and histories with one violation, each of which must be found by name.

use super::*;
use crate::seed::Random;

fn step(asked: Asked, call: u64, back: u64, count: u64, outcome: Outcome<Reported>) -> Step {
    Step {
        asked,
        op: Op {
            count,
            ..Op::one(0, (At(call), At(back)), outcome)
        },
    }
}

/// A response with one run of values of a sequence with increment 1.
fn next(call: u64, back: u64, first: i64, last: i64) -> Step {
    run(call, back, first.abs_diff(last) + 1, first, last)
}

fn run(call: u64, back: u64, count: u64, first: i64, last: i64) -> Step {
    let told = Reported::Values(vec![Run { first, last }]);
    step(Asked::Next, call, back, count, Outcome::Ok(told))
}

fn lost_next(call: u64, count: u64) -> Step {
    let unknown = Outcome::Unknown("timeout".into());
    step(Asked::Next, call, call + 1, count, unknown)
}

fn lost_advance(call: u64, to: i64) -> Step {
    let unknown = Outcome::Unknown("timeout".into());
    step(Asked::Advance(to), call, call + 1, 0, unknown)
}

fn read(call: u64, back: u64, allocated: u64) -> Step {
    step(
        Asked::Read,
        call,
        back,
        0,
        Outcome::Ok(Reported::At(allocated)),
    )
}

fn advance(call: u64, back: u64, to: i64, allocated: u64) -> Step {
    let told = Outcome::Ok(Reported::At(allocated));
    step(Asked::Advance(to), call, back, 0, told)
}

fn done(asked: Asked, call: u64, back: u64) -> Step {
    step(asked, call, back, 0, Outcome::Ok(Reported::Done))
}

fn refused(call: u64, back: u64, code: &str) -> Step {
    step(
        Asked::Next,
        call,
        back,
        1,
        Outcome::Refused(code.to_owned()),
    )
}

const BY_FIVE: Definition = Definition {
    start: 10,
    increment: 5,
    min: 1,
    max: i64::MAX,
    cycle: false,
};

const DOWN: Definition = Definition {
    start: -1,
    increment: -3,
    min: i64::MIN,
    max: -1,
    cycle: false,
};

/// 3, 4, 5, then 1 to 5 repeatedly.
const RING: Definition = Definition {
    start: 3,
    increment: 1,
    min: 1,
    max: 5,
    cycle: true,
};

/// 20, 10, then 30, 20, 10 repeatedly.
const RING_DOWN: Definition = Definition {
    start: 20,
    increment: -10,
    min: 10,
    max: 30,
    cycle: true,
};

/// Correct histories of a sequence from 1 on, each with its subject.
fn well() -> Vec<(&'static str, Vec<Step>)> {
    let of = |what, steps: &[Step]| (what, steps.to_vec());
    vec![
        of(
            "in flight",
            &[next(0, 9, 2, 2), next(5, 12, 1, 1), next(13, 14, 3, 4)],
        ),
        of(
            "a read between",
            &[next(0, 1, 1, 3), read(2, 3, 3), next(4, 5, 4, 4)],
        ),
        of("a read beside a grant", &[next(0, 9, 1, 3), read(1, 8, 0)]),
        of(
            "and an advance",
            &[advance(0, 1, 5, 4), next(2, 9, 5, 6), read(3, 8, 4)],
        ),
        of("a gap of one unknown", &[lost_next(0, 1), next(2, 3, 2, 2)]),
        of(
            "of two",
            &[lost_next(0, 1), lost_next(1, 1), next(2, 3, 3, 3)],
        ),
        of(
            "an unknown without effect",
            &[lost_next(0, 1), next(2, 3, 1, 1)],
        ),
        of(
            "an advance",
            &[next(0, 1, 1, 1), advance(2, 3, 10, 9), next(4, 5, 10, 10)],
        ),
        of(
            "an unknown advance",
            &[lost_advance(0, 10), next(4, 5, 10, 10)],
        ),
        of(
            "and a value",
            &[lost_advance(0, 10), lost_next(1, 2), next(4, 5, 12, 12)],
        ),
        of(
            "deleted and created",
            &[
                next(0, 1, 1, 1),
                done(Asked::Delete, 2, 3),
                refused(4, 5, "not-found"),
                done(Asked::Create, 6, 7),
                next(8, 9, 2, 2),
            ],
        ),
    ]
}

#[test]
fn histories_that_are_well_pass() {
    for (what, history) in well() {
        let verdict = check(&Definition::from(1), &history);
        assert!(verdict.is_ok(), "{what}: {verdict:?}");
    }
}

#[test]
fn sequences_of_any_definition_pass() {
    let by_five = [
        run(0, 1, 3, 10, 20),
        advance(2, 3, 31, 5),
        run(4, 5, 1, 35, 35),
    ];
    assert_eq!(check(&BY_FIVE, &by_five), Ok(3));
    let down = [run(0, 1, 2, -1, -4), read(2, 3, 2), run(4, 5, 1, -7, -7)];
    assert_eq!(check(&DOWN, &down), Ok(3));
    let ring = [
        next(0, 1, 3, 5),
        next(2, 3, 1, 5),
        read(4, 5, 8),
        next(6, 7, 1, 1),
    ];
    assert_eq!(check(&RING, &ring), Ok(4));
    let ring = [
        run(0, 1, 2, 20, 10),
        run(2, 3, 3, 30, 10),
        run(4, 5, 1, 30, 30),
    ];
    assert_eq!(check(&RING_DOWN, &ring), Ok(3));
}

/// Histories with one violation, and the invariant that it breaks.
fn bad() -> Vec<(&'static str, Definition, Vec<Step>)> {
    let ones = Definition::from(1);
    let of = |invariant, definition, steps: &[Step]| (invariant, definition, steps.to_vec());
    vec![
        of("unique", ones, &[next(0, 1, 1, 3), next(2, 3, 3, 4)]),
        of("unique", ones, &[next(0, 9, 1, 5), next(0, 9, 2, 3)]),
        of("linearizable", ones, &[next(0, 4, 2, 2), next(5, 12, 1, 1)]),
        of("linearizable", ones, &[next(0, 1, 1, 3), read(2, 3, 2)]),
        of("linearizable", ones, &[next(0, 9, 1, 3), read(1, 8, 2)]),
        of("linearizable", ones, &[read(0, 1, 1), next(2, 3, 1, 1)]),
        of("linearizable", ones, &[read(0, 1, 2), read(2, 3, 1)]),
        of(
            "linearizable",
            ones,
            &[advance(0, 1, 10, 9), next(2, 3, 1, 1)],
        ),
        of(
            "linearizable",
            ones,
            &[next(0, 1, 1, 20), advance(2, 3, 10, 9)],
        ),
        of("gapless", ones, &[next(0, 1, 1, 1), next(2, 3, 3, 3)]),
        // The unknown request was sent after a later value had arrived.
        of(
            "gapless",
            ones,
            &[next(0, 1, 2, 2), lost_next(2, 1), next(5, 6, 3, 3)],
        ),
        of("gapless", ones, &[next(0, 1, 10, 10), lost_advance(2, 10)]),
        // One unknown request explains one value.
        of("gapless", ones, &[lost_next(0, 1), next(2, 3, 3, 3)]),
        // A request for three values leaves no gap of one.
        of("gapless", ones, &[lost_next(0, 3), next(2, 3, 2, 2)]),
        of("counts", ones, &[run(0, 1, 4, 1, 3)]),
        of("values of the sequence", BY_FIVE, &[run(0, 1, 1, 11, 11)]),
        of("values of the sequence", DOWN, &[run(0, 1, 2, -4, -1)]),
        // A ring of five returns 4 again, although only two values were requested since.
        of(
            "values of the sequence",
            RING,
            &[next(0, 1, 3, 4), next(2, 3, 4, 4)],
        ),
        of(
            "existence",
            ones,
            &[done(Asked::Delete, 0, 1), next(2, 3, 1, 1)],
        ),
        of(
            "existence",
            ones,
            &[next(0, 1, 1, 1), refused(2, 3, "not-found")],
        ),
    ]
}

#[test]
fn planted_violations_are_found_by_name() {
    for (invariant, definition, history) in bad() {
        let violation = check(&definition, &history).expect_err(invariant);
        assert_eq!(violation.invariant, invariant, "{violation}: {history:?}");
    }
}

/// A counter whose operations take effect at their times passes, with any definition. It fails if
/// one value is exchanged between two requests that were not concurrent.
#[test]
fn exchanged_answers_are_found_in_random_histories() {
    let mut random = Random::of_this_run("exchanged answers of sequences");
    for definition in [Definition::from(1), BY_FIVE, DOWN] {
        for _ in 0..100 {
            let mut history: Vec<Step> = (0..40)
                .map(|position| {
                    let moment = position * 10;
                    let call = moment - random.below(40).min(moment);
                    let value = definition.value(position);
                    run(call, moment + random.below(40), 1, value, value)
                })
                .collect();
            assert_eq!(check(&definition, &history), Ok(40));
            let (a, b) = (random.below(20) as usize, 20 + random.below(20) as usize);
            if history[a].op.back < history[b].op.call {
                let taken = history[a].op.outcome.clone();
                history[a].op.outcome = history[b].op.outcome.clone();
                history[b].op.outcome = taken;
                assert!(check(&definition, &history).is_err());
            }
        }
    }
}
