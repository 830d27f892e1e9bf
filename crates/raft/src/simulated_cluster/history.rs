//! The requests and answers of all clients, and the check whether one consistent cluster can have
//! given these answers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::record::Violation;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ask {
    /// Values of a strict sequence, or a range of a segment sequence.
    Take {
        sequence: usize,
        count: u64,
    },
    Read {
        sequence: usize,
    },
    Advance {
        sequence: usize,
        by: u64,
    },
    Delete {
        sequence: usize,
    },
    Create {
        sequence: usize,
    },
    Lease {
        owner: usize,
    },
    Extend {
        owner: usize,
    },
    Release {
        owner: usize,
    },
    /// A change of members, as text.
    Change(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Got {
    /// No answer yet. At the end, this is equivalent to unknown.
    Waits,
    /// `count` indices of a sequence, starting at `first`.
    Range {
        first: u64,
        count: u64,
    },
    /// The next index of a sequence.
    Mark(u64),
    Window {
        worker: u32,
        lease: u64,
        from: u64,
        fence: u64,
    },
    Done(String),
    /// Certainly without effect.
    Refused(String),
    Unknown(String),
}

#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) node: usize,
    pub(super) ask: Ask,
    pub(super) called: Duration,
    pub(super) returned: Option<Duration>,
    pub(super) got: Got,
}

impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "n{}: {:?}", self.node + 1, self.ask)
    }
}

impl fmt::Display for Got {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self:?}")
    }
}

/// A step of one sequence's counter: its value before, if known, and after.
struct Step {
    number: usize,
    called: Duration,
    returned: Duration,
    before: Option<u64>,
    after: u64,
}

/// The final index of each sequence, by number. The values of a sequence that was never advanced
/// are counted.
pub(super) struct End {
    pub(super) next: u64,
    pub(super) is_counted: bool,
}

pub(super) fn check(ops: &[Op], ends: &BTreeMap<usize, End>) -> Result<(), Violation> {
    for (sequence, end) in ends {
        let steps = steps_of(ops, *sequence);
        distinct(ops, *sequence)?;
        in_order(&steps, *sequence)?;
        if let Some(step) = steps.iter().find(|step| step.after > end.next) {
            return Err(Violation::new(
                "acknowledged is kept",
                format!(
                    "sequence s{sequence} ends at {}, #{} had reached {}",
                    end.next, step.number, step.after
                ),
            ));
        }
        if end.is_counted {
            counted(ops, *sequence, end.next)?;
        }
    }
    windows(ops)
}

fn steps_of(ops: &[Op], sequence: usize) -> Vec<Step> {
    let of_sequence = |op: &Op| match op.ask {
        Ask::Take { sequence: of, .. }
        | Ask::Read { sequence: of }
        | Ask::Advance { sequence: of, .. } => of == sequence,
        _ => false,
    };
    let numbered = ops.iter().enumerate().filter(|(_, op)| of_sequence(op));
    let steps = numbered.filter_map(|(number, op)| {
        let (before, after) = match (&op.ask, &op.got) {
            (_, Got::Range { first, count }) => (Some(*first), first + count),
            (Ask::Read { .. }, Got::Mark(next)) => (Some(*next), *next),
            (_, Got::Mark(next)) => (None, *next),
            _ => return None,
        };
        Some(Step {
            number,
            called: op.called,
            returned: op.returned?,
            before,
            after,
        })
    });
    steps.collect()
}

/// Checks that no index was returned twice.
fn distinct(ops: &[Op], sequence: usize) -> Result<(), Violation> {
    let mut told: Vec<(u64, u64, usize)> = Vec::new();
    for (number, op) in ops.iter().enumerate() {
        if let (Ask::Take { sequence: of, .. }, Got::Range { first, count }) = (&op.ask, &op.got)
            && *of == sequence
        {
            told.push((*first, *count, number));
        }
    }
    told.sort_unstable();
    for pair in told.windows(2) {
        let [(first, count, one), (next, _, other)] = [pair[0], pair[1]];
        if first + count > next {
            return Err(Violation::new(
                "no value twice",
                format!("s{sequence}: #{one} and #{other} both got index {next}"),
            ));
        }
    }
    Ok(())
}

/// Checks that a request that was sent after another had returned finds the counter at least as
/// high.
fn in_order(steps: &[Step], sequence: usize) -> Result<(), Violation> {
    let mut by_return: Vec<&Step> = steps.iter().collect();
    by_return.sort_by_key(|step| step.returned);
    let mut by_call: Vec<&Step> = steps.iter().collect();
    by_call.sort_by_key(|step| step.called);
    let mut returned = by_return.into_iter().peekable();
    let mut highest: Option<&Step> = None;
    for step in by_call {
        while let Some(earlier) = returned.next_if(|earlier| earlier.returned < step.called) {
            if highest.is_none_or(|highest| highest.after < earlier.after) {
                highest = Some(earlier);
            }
        }
        if let Some(highest) = highest
            && highest.after > step.before.unwrap_or(step.after)
        {
            return Err(Violation::new(
                "linearizable",
                format!(
                    "s{sequence}: #{} found the counter at {}, after #{} had returned with {}",
                    step.number,
                    step.before.unwrap_or(step.after),
                    highest.number,
                    highest.after
                ),
            ));
        }
    }
    Ok(())
}

/// Indices that no client received belong to requests with an unknown outcome. Checks that there
/// are not more of them, so that no request was carried out twice.
fn counted(ops: &[Op], sequence: usize, next: u64) -> Result<(), Violation> {
    let (mut known, mut unknown) = (0, 0);
    for op in ops {
        let Ask::Take {
            sequence: of,
            count,
        } = op.ask
        else {
            continue;
        };
        match &op.got {
            _ if of != sequence => {}
            Got::Range { count, .. } => known += count,
            Got::Unknown(_) | Got::Waits => unknown += count,
            _ => {}
        }
    }
    if next > known + unknown {
        return Err(Violation::new(
            "carried out once",
            format!(
                "s{sequence}: {next} indices are gone, {known} were told, and {unknown} at most \
                 were asked for without an answer"
            ),
        ));
    }
    Ok(())
}

/// Checks that the windows of a worker do not overlap.
fn windows(ops: &[Op]) -> Result<(), Violation> {
    let mut leases: BTreeMap<(u32, u64), (u64, u64)> = BTreeMap::new();
    for op in ops {
        if let Got::Window {
            worker,
            lease,
            from,
            fence,
        } = op.got
        {
            let window = leases.entry((worker, lease)).or_insert((from, fence));
            *window = (window.0.min(from), window.1.max(fence));
        }
    }
    let mut before: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut ordered: Vec<_> = leases.into_iter().collect();
    ordered.sort_by_key(|((worker, lease), (from, _))| (*worker, *from, *lease));
    for ((worker, lease), (from, fence)) in ordered {
        if let Some((other, until)) = before.insert(worker, (lease, fence))
            && until > from
        {
            return Err(Violation::new(
                "windows are disjoint",
                format!(
                    "worker {worker}: lease {other} has the ticks below {until}, and lease {lease} \
                     begins at {from}"
                ),
            ));
        }
    }
    Ok(())
}
