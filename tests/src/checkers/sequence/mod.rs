//! A strict sequence is linearizable in all that can be asked of it: values, reads, advances,
//! deletion and creation; ascending and descending, by any increment, and cycling.
//!
//! Each value is turned into its position, the count of values before it. What is then checked:
//! the values are the sequence's, as many as were asked for; no position is granted twice; there
//! is one order that agrees with real time; every position that nobody was told has its reason;
//! and nothing is answered while the sequence is deleted.

mod definition;
mod existence;
mod gaps;
mod order;
mod placed;

use super::Violation;
use crate::history::{At, Op, Outcome, Run, Values};

pub use definition::Definition;

/// What was asked of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The next values, as many as the operation's count.
    Next,
    /// How far it is, linearizably.
    Read,
    /// To go on at this value or beyond it.
    Advance(i64),
    Delete,
    Create,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    Values(Vec<Run>),
    /// So many values are granted or passed over.
    At(u64),
    Done,
}

/// An operation on one sequence.
#[derive(Debug, Clone)]
pub struct Step {
    pub asked: Asked,
    pub op: Op<Told>,
}

/// Checks all that was asked of one strict sequence, which was there from the beginning; answers
/// how many operations were acknowledged.
pub fn check(definition: &Definition, history: &[Step]) -> Result<usize, Violation> {
    let placed = placed::place(definition, history)?;
    order::check(&placed)?;
    gaps::check(definition, history, &placed)?;
    existence::check(history)?;
    Ok(placed.len())
}

/// The order alone, of a history of values that may not be whole.
pub(super) fn check_order(definition: &Definition, history: &[Step]) -> Result<(), Violation> {
    order::check(&placed::place(definition, history)?)
}

/// A history of `next` as one of all operations.
pub(super) fn steps(history: &[Op<Values>]) -> Vec<Step> {
    let told = |outcome: &Outcome<Values>| match outcome {
        Outcome::Ok(values) => Outcome::Ok(Told::Values(values.runs.clone())),
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

/// A read after the whole of a history.
pub(super) fn read_at_the_end(allocated: u64) -> Step {
    Step {
        asked: Asked::Read,
        op: Op::one(
            0,
            (At(u64::MAX), At(u64::MAX)),
            Outcome::Ok(Told::At(allocated)),
        ),
    }
}

#[cfg(test)]
mod tests;
