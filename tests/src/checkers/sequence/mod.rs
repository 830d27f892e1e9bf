//! A strict sequence is linearizable in all of its operations: values, reads, advances, deletion
//! and creation; ascending and descending, with any increment, and cycling.
//!
//! Each value is converted to its position, the number of values before it. The checks are:
//!
//! - The values belong to the sequence, and each response has as many as requested.
//! - No position is granted twice.
//! - There is one order that agrees with real time.
//! - Every position that no response contains has a reason.
//! - No request is served while the sequence is deleted.

mod definition;
mod existence;
mod gaps;
mod order;
mod placed;

use super::Violation;
use crate::history::{At, Op, Outcome, Run, Values};

pub use definition::Definition;

/// A request to a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The next values, as many as the operation's count.
    Next,
    /// A linearizable read of the current position.
    Read,
    /// Continue at this value or beyond it.
    Advance(i64),
    Delete,
    Create,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reported {
    Values(Vec<Run>),
    /// The number of values that were granted or skipped.
    At(u64),
    Done,
}

/// An operation on one sequence.
#[derive(Debug, Clone)]
pub struct Step {
    pub asked: Asked,
    pub op: Op<Reported>,
}

/// Checks all operations on one strict sequence, which existed from the beginning. Returns the
/// number of acknowledged operations.
pub fn check(definition: &Definition, history: &[Step]) -> Result<usize, Violation> {
    let placed = placed::place(definition, history)?;
    order::check(&placed)?;
    gaps::check(definition, history, &placed)?;
    existence::check(history)?;
    Ok(placed.len())
}

/// Checks only the order, for a history of values that may be incomplete.
pub(super) fn check_order(definition: &Definition, history: &[Step]) -> Result<(), Violation> {
    order::check(&placed::place(definition, history)?)
}

/// Converts a history of `next` to a history of operations.
pub(super) fn steps(history: &[Op<Values>]) -> Vec<Step> {
    let told = |outcome: &Outcome<Values>| match outcome {
        Outcome::Ok(values) => Outcome::Ok(Reported::Values(values.runs.clone())),
        Outcome::Unknown(why) => Outcome::Unknown(why.clone()),
        Outcome::Refused(code) => Outcome::Refused(code.clone()),
    };
    let step = |op: &Op<Values>| Step {
        asked: Asked::Next,
        op: Op {
            node: op.node,
            call: op.call,
            back: op.back,
            count: op.count,
            outcome: told(&op.outcome),
        },
    };
    history.iter().map(step).collect()
}

/// A read after all operations of a history.
pub(super) fn read_at_the_end(allocated: u64) -> Step {
    Step {
        asked: Asked::Read,
        op: Op::one(
            0,
            (At(u64::MAX), At(u64::MAX)),
            Outcome::Ok(Reported::At(allocated)),
        ),
    }
}

#[cfg(test)]
mod tests;
