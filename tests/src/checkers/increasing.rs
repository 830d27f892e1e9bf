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

    /// Each answer as (worker, call, back, first, last).
    fn judged(answers: &[(u64, u64, u64, i64, i64)]) -> Result<(), Violation> {
        let op =
            |&(worker, call, back, first, last)| planted::ids(worker, call, back, &[(first, last)]);
        ids_per_worker(&answers.iter().map(op).collect::<Vec<_>>())
    }

    #[test]
    fn answers_in_flight_together_and_of_other_workers_may_have_any_order() {
        assert_eq!(judged(&[(1, 0, 10, 20, 29), (1, 5, 12, 10, 19)]), Ok(()));
        assert_eq!(judged(&[(1, 0, 1, 20, 29), (2, 5, 6, 10, 19)]), Ok(()));
    }

    #[test]
    fn a_step_back_is_found() {
        assert!(judged(&[(1, 0, 4, 20, 29), (1, 5, 6, 10, 19)]).is_err());
        // The violation is after a lower answer.
        let hidden = [(1, 0, 1, 50, 50), (1, 0, 2, 10, 10), (1, 5, 6, 30, 30)];
        assert!(judged(&hidden).is_err());
        // The violation is within one answer.
        assert!(values_per_node(&[planted::values(0, 0, 1, &[(5, 9), (1, 2)])]).is_err());
    }
}
