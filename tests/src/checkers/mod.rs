//! One file per invariant of a history, each tested with planted bad histories.
//!
//! The checks are exact and cost at most O(n log n), so they run on every acknowledgement of a run
//! and not on a sample.

pub mod disjoint;
pub mod increasing;
pub mod keys;
pub mod leases;
pub mod linearizable;
pub mod lock_queue;
pub mod locks;
pub mod lost;
pub mod pauses;
pub mod sequence;
pub mod unique;

use std::fmt;

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub detail: String,
}

impl Violation {
    pub fn new(invariant: &'static str, detail: impl Into<String>) -> Self {
        Self {
            invariant,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violated: {}", self.invariant, self.detail)
    }
}

impl std::error::Error for Violation {}

/// An error unless the invariant holds.
pub fn require(
    holds: bool,
    invariant: &'static str,
    detail: impl Into<String>,
) -> Result<(), Violation> {
    match holds {
        true => Ok(()),
        false => Err(Violation::new(invariant, detail)),
    }
}

/// Shorthands for histories in the checkers' tests.
#[cfg(test)]
mod planted {
    use crate::history::{At, Ids, Op, Outcome, Run, Values};

    pub(crate) fn ids(worker: u64, call: u64, back: u64, runs: &[(i64, i64)]) -> Op<Ids> {
        op(
            0,
            call,
            back,
            Outcome::Ok(Ids {
                worker,
                runs: to_runs(runs),
            }),
        )
    }

    pub(crate) fn values(node: usize, call: u64, back: u64, runs: &[(i64, i64)]) -> Op<Values> {
        let runs = to_runs(runs);
        let count = runs.iter().map(|run| run.count()).sum();
        of_count(op(node, call, back, Outcome::Ok(Values { runs })), count)
    }

    /// Like [`values`], for a request for more than one.
    pub(crate) fn of_count<T>(mut op: Op<T>, count: u64) -> Op<T> {
        op.count = count;
        op
    }

    pub(crate) fn op<T>(node: usize, call: u64, back: u64, outcome: Outcome<T>) -> Op<T> {
        Op::one(node, (At(call), At(back)), outcome)
    }

    fn to_runs(runs: &[(i64, i64)]) -> Vec<Run> {
        runs.iter()
            .map(|&(first, last)| Run { first, last })
            .collect()
    }
}
