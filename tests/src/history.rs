//! Requests of clients and their outcomes, on one monotonic clock.
//!
//! All clients of a run live in one process, so one `Instant` orders them. A request that timed
//! out or whose connection broke is *unknown*: it may have had its effect or may still have it.

use std::time::{Duration, Instant};

/// Nanoseconds on the run's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct At(pub u64);

impl At {
    /// The time from `earlier` to this; zero if this is earlier.
    pub fn since(self, earlier: At) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Timeline(Instant);

impl Timeline {
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    pub fn at(self) -> At {
        At(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The outcome of a request, as its client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<T> {
    /// Acknowledged with this answer.
    Ok(T),
    /// The request may or may not have had an effect; the reason.
    Unknown(String),
    /// The request certainly had no effect; the error code.
    Refused(String),
}

#[derive(Debug, Clone)]
pub struct Op<T> {
    /// The index of the requested node, from zero.
    pub node: usize,
    pub call: At,
    /// The time of the response or failure.
    pub back: At,
    pub count: u64,
    pub outcome: Outcome<T>,
}

impl<T> Op<T> {
    /// A request for one number.
    pub fn one(node: usize, (call, back): (At, At), outcome: Outcome<T>) -> Self {
        Self {
            node,
            call,
            back,
            count: 1,
            outcome,
        }
    }

    pub fn answer(&self) -> Option<&T> {
        match &self.outcome {
            Outcome::Ok(answer) => Some(answer),
            _ => None,
        }
    }
}

/// A response with numbers.
pub trait Numbers {
    fn runs(&self) -> &[Run];
}

impl<T: Numbers> Op<T> {
    /// The numbers that were acknowledged.
    pub fn runs(&self) -> &[Run] {
        self.answer().map_or(&[], Numbers::runs)
    }
}

impl Numbers for Ids {
    fn runs(&self) -> &[Run] {
        &self.runs
    }
}

impl Numbers for Values {
    fn runs(&self) -> &[Run] {
        &self.runs
    }
}

/// A run of consecutive numbers, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    pub first: i64,
    pub last: i64,
}

impl Run {
    pub fn count(self) -> u64 {
        self.first.abs_diff(self.last) + 1
    }
}

/// Joins consecutive numbers, kept in the given order, to runs.
pub fn runs_of(numbers: impl IntoIterator<Item = i64>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some(run) if run.last.checked_add(1) == Some(number) => run.last = number,
            _ => runs.push(Run {
                first: number,
                last: number,
            }),
        }
    }
    runs
}

/// The response to an ID request: one worker's IDs in the order of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// The worker in the response.
    pub worker: u64,
    pub runs: Vec<Run>,
}

/// The response to `next`: values in the order of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    pub runs: Vec<Run>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    pub name: String,
}

/// A time in which the responses of some nodes prove nothing.
#[derive(Debug, Clone)]
pub struct Doubt {
    pub nodes: Vec<usize>,
    pub from: At,
    pub to: At,
}

/// Withdraws the acknowledgements of these nodes at these times: the outcomes count as unknown.
pub fn doubt<T>(history: &mut [Op<T>], doubts: &[Doubt]) {
    for op in history {
        let is_in_doubt = |doubt: &Doubt| {
            doubt.nodes.contains(&op.node) && op.call <= doubt.to && op.back >= doubt.from
        };
        if op.answer().is_some() && doubts.iter().any(is_in_doubt) {
            op.outcome = Outcome::Unknown("answered while a cut went on".to_owned());
        }
    }
}

pub type History<T> = Vec<Op<T>>;

/// Counts of (acknowledged, unknown, refused) requests.
pub fn tally<T>(history: &[Op<T>]) -> (usize, usize, usize) {
    let mut counts = (0, 0, 0);
    for op in history {
        match op.outcome {
            Outcome::Ok(_) => counts.0 += 1,
            Outcome::Unknown(_) => counts.1 += 1,
            Outcome::Refused(_) => counts.2 += 1,
        }
    }
    counts
}

/// The count of each code or reason, the most frequent first, for the report of a failed run.
pub fn reasons<T>(history: &[Op<T>]) -> Vec<(String, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for op in history {
        let reason = match &op.outcome {
            Outcome::Ok(_) => continue,
            Outcome::Unknown(why) => format!("unknown: {why}"),
            Outcome::Refused(why) => format!("refused: {why}"),
        };
        *counts.entry(reason).or_insert(0) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_a_node_during_its_cut_count_as_unknown() {
        let op = |node, call, back| Op::one(node, (At(call), At(back)), Outcome::Ok(()));
        let times = [(1, 9), (5, 10), (12, 13), (19, 30), (21, 22)];
        let cut = Doubt {
            nodes: vec![0],
            from: At(10),
            to: At(20),
        };
        for (node, expected) in [(0, [true, false, false, false, true]), (1, [true; 5])] {
            let mut history = times.map(|(call, back)| op(node, call, back));
            doubt(&mut history, std::slice::from_ref(&cut));
            let counted = history.map(|op| op.answer().is_some());
            assert_eq!(counted, expected, "of node {node}");
        }
    }
}
