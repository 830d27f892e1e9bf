//! Numbers from one source strictly increase: within a response, and from one response to any
//! response whose request was sent after the first one arrived.
//!
//! Two concurrent requests may be answered in either order, so only the real-time order applies.
//! The sweep takes the responses in the order of their calls and keeps the highest number that
//! arrived before each call: O(n log n).

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Ids, Numbers, Op, Values};

pub fn ids_per_worker(history: &[Op<Ids>]) -> Result<(), Violation> {
    check(history, |_, ids| ids.worker)
}

/// Checks the values of each node, because a segment sequence increases per node.
pub fn values_per_node(history: &[Op<Values>]) -> Result<(), Violation> {
    check(history, |op, _| op.node as u64)
}

fn check<T: Numbers>(
    history: &[Op<T>],
    source: impl Fn(&Op<T>, &T) -> u64,
) -> Result<(), Violation> {
    let mut sources: BTreeMap<u64, Vec<&Op<T>>> = BTreeMap::new();
    for op in history {
        if let Some(answer) = op.answer() {
            sources.entry(source(op, answer)).or_default().push(op);
        }
    }
    let mut sources = sources.into_iter();
    sources.try_for_each(|(source, answers)| check_source(source, answers))
}

/// Returns an error for the first response that is not above every response that arrived before its
/// call.
fn check_source<T: Numbers>(source: u64, mut by_call: Vec<&Op<T>>) -> Result<(), Violation> {
    by_call.sort_by_key(|answer| answer.call);
    let mut by_back = by_call.clone();
    by_back.sort_by_key(|answer| answer.back);
    let mut seen = by_back.into_iter().peekable();
    let mut highest = None;
    for answer in by_call {
        while let Some(before) = seen.next_if(|before| before.back < answer.call) {
            highest = highest.max(before.runs().last().map(|run| run.last));
        }
        let mut floor = highest;
        for run in answer.runs() {
            if floor.is_some_and(|floor| run.first <= floor) {
                let detail = format!("source {source}: {run:?} answered after {floor:?}");
                return Err(Violation::new("increasing", detail));
            }
            floor = Some(run.last);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn answers_in_flight_together_may_swap() {
        let history = [
            planted::ids(1, 0, 10, &[(20, 29)]),
            planted::ids(1, 5, 12, &[(10, 19)]),
        ];
        assert_eq!(ids_per_worker(&history), Ok(()));
    }

    #[test]
    fn workers_do_not_bind_each_other() {
        let history = [
            planted::ids(1, 0, 1, &[(20, 29)]),
            planted::ids(2, 5, 6, &[(10, 19)]),
        ];
        assert_eq!(ids_per_worker(&history), Ok(()));
    }

    #[test]
    fn a_step_back_after_an_answer_was_seen_is_found() {
        let history = [
            planted::ids(1, 0, 4, &[(20, 29)]),
            planted::ids(1, 5, 6, &[(10, 19)]),
        ];
        assert!(ids_per_worker(&history).is_err());
    }

    #[test]
    fn a_step_back_hidden_behind_a_lower_answer_is_found() {
        let history = [
            planted::ids(1, 0, 1, &[(50, 50)]),
            planted::ids(1, 0, 2, &[(10, 10)]),
            planted::ids(1, 5, 6, &[(30, 30)]),
        ];
        assert!(ids_per_worker(&history).is_err());
    }

    #[test]
    fn a_step_back_inside_an_answer_is_found() {
        let history = [planted::values(0, 0, 1, &[(5, 9), (1, 2)])];
        assert!(values_per_node(&history).is_err());
    }
}
