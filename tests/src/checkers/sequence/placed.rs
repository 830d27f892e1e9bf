//! The acknowledged operations on a sequence, by the positions in their responses.

use super::definition::Definition;
use super::{Asked, Reported, Step};
use crate::checkers::Violation;
use crate::history::{At, Outcome, Run};

/// The statement of a response about the counter of positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// These positions were granted, both ends included.
    Granted(u64, u64),
    /// This many positions were granted or skipped before.
    Read(u64),
    /// Grants continue at this position, or it was already the next one.
    Advanced(u64),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) place: Place,
    pub(super) call: At,
    pub(super) back: At,
}

impl Placed {
    /// The first position after the operation.
    pub(super) fn end(&self) -> u64 {
        match self.place {
            Place::Granted(_, last) => last + 1,
            Place::Read(next) | Place::Advanced(next) => next,
        }
    }

    /// The first position in the response.
    pub(super) fn begin(&self) -> u64 {
        match self.place {
            Place::Granted(first, _) => first,
            Place::Read(next) | Place::Advanced(next) => next,
        }
    }
}

/// Places every acknowledged operation, in the order of the calls. The pass of a cycling sequence
/// follows from the operations that were acknowledged before the call. If several passes are
/// possible, the sequence has too few values for the history, which then cannot be checked.
pub(super) fn place(definition: &Definition, history: &[Step]) -> Result<Vec<Placed>, Violation> {
    let mut by_call: Vec<&Step> = history.iter().collect();
    by_call.sort_by_key(|step| step.op.call);
    let asked = Asks::new(&by_call);
    let mut placed: Vec<Placed> = Vec::new();
    // Ends, ordered by the time of the response. The calls increase, so each end is examined once.
    let mut open: Vec<(At, u64)> = Vec::new();
    let mut floor = 0;
    for step in by_call {
        let op = &step.op;
        let Outcome::Ok(told) = &op.outcome else {
            continue;
        };
        open.retain(|(back, end)| {
            let is_over = *back < op.call;
            floor = if is_over { floor.max(*end) } else { floor };
            !is_over
        });
        let mut add = |place| {
            let one = Placed {
                place,
                call: op.call,
                back: op.back,
            };
            open.push((op.back, one.end()));
            placed.push(one);
        };
        match told {
            Reported::Values(runs) => {
                let mut granted = 0;
                for run in runs {
                    let of = |value| position(definition, value, floor, asked.until(op.back));
                    let (first, last) = (of(run.first)?, of(run.last)?);
                    if first > last {
                        let detail = format!("{run:?} runs backwards");
                        return Err(Violation::new("values of the sequence", detail));
                    }
                    granted += last - first + 1;
                    add(Place::Granted(first, last));
                }
                check_count(op.count, granted, runs)?;
            }
            Reported::At(next) if matches!(step.asked, Asked::Advance(_)) => {
                add(Place::Advanced(*next));
            }
            Reported::At(next) => add(Place::Read(*next)),
            Reported::Done => {}
        }
    }
    Ok(placed)
}

fn check_count(asked: u64, granted: u64, runs: &[Run]) -> Result<(), Violation> {
    if granted == asked {
        return Ok(());
    }
    let detail = format!("{asked} were asked for, {granted} answered: {runs:?}");
    Err(Violation::new("counts", detail))
}

fn position(definition: &Definition, value: i64, floor: u64, asked: u64) -> Result<u64, Violation> {
    let foreign = |why: &str| {
        let detail = format!("{value} {why} of {definition:?}");
        Violation::new("values of the sequence", detail)
    };
    if !definition.cycle {
        return definition
            .position(value, 0)
            .ok_or_else(|| foreign("is none"));
    }
    let position = definition.position(value, floor);
    let position = position.ok_or_else(|| foreign("is none"))?;
    if position >= asked {
        return Err(foreign(
            "was given before, or lies beyond all that was asked for,",
        ));
    }
    if position + definition.pass() < asked {
        return Err(foreign(
            "has no certain pass: too much is unknown or in flight",
        ));
    }
    Ok(position)
}

/// The number of values requested until some time, whatever the outcome of the requests.
struct Asks(Vec<(At, u64)>);

impl Asks {
    fn new(by_call: &[&Step]) -> Self {
        let mut sum = 0;
        let nexts = by_call.iter().filter(|step| {
            step.asked == Asked::Next && !matches!(step.op.outcome, Outcome::Refused(_))
        });
        let sums = nexts.map(|step| {
            sum += step.op.count;
            (step.op.call, sum)
        });
        Self(sums.collect())
    }

    fn until(&self, at: At) -> u64 {
        let before = self.0.partition_point(|(call, _)| *call <= at);
        before.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}
