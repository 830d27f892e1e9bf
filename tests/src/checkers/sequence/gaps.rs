//! Every position that no response contains has a reason: an advance that skipped it, or a separate
//! request whose outcome is unknown and which was sent before any response showed a later position.

use std::collections::BTreeMap;

use super::definition::Definition;
use super::placed::{Place, Placed};
use super::{Asked, Step};
use crate::checkers::Violation;
use crate::history::{At, Outcome};

/// A request for values whose outcome is unknown.
struct Unknown {
    call: At,
    count: u64,
}

pub(super) fn check(
    definition: &Definition,
    history: &[Step],
    placed: &[Placed],
) -> Result<(), Violation> {
    let mut by_begin: Vec<&Placed> = placed.iter().collect();
    by_begin.sort_by_key(|one| one.begin());
    // The earliest response that shows a position at or above that of each operation.
    let mut shown = vec![At(u64::MAX); by_begin.len() + 1];
    for (index, one) in by_begin.iter().enumerate().rev() {
        shown[index] = shown[index + 1].min(one.back);
    }
    let mut unknown = unknown(history);
    unknown.sort_by_key(|one| one.call);
    let ends = passed_over(definition, history, placed);
    let size = one_size(&unknown).filter(|_| ends.is_empty() && !definition.cycle);

    let (mut next, mut needed) = (0, 0);
    for (index, one) in by_begin.iter().enumerate() {
        // The range is empty if no position is missing.
        let begin = one.begin().max(next);
        // Positions that an advance may have skipped need no other reason.
        let moved = ends.range(next + 1..begin.saturating_add(1)).rev();
        let moved = moved.filter(|(_, call)| **call < shown[index]);
        let from = moved.map(|(to, _)| *to).next().unwrap_or(next);
        if begin > from {
            let missing = begin - from;
            needed += missing;
            let before = unknown.partition_point(|request| request.call < shown[index]);
            let lost: u64 = unknown[..before].iter().map(|request| request.count).sum();
            let is_whole = size.is_none_or(|size| missing % size == 0);
            if needed > lost || !is_whole {
                let detail = format!(
                    "positions {from} to {begin} are missing before {one:?}; {lost} of {needed} \
                     missing so far may have been lost, {size:?} at a time"
                );
                return Err(Violation::new("gapless", detail));
            }
        }
        next = next.max(one.end());
    }
    Ok(())
}

fn unknown(history: &[Step]) -> Vec<Unknown> {
    let nexts = history.iter().filter(|step| step.asked == Asked::Next);
    let unknown = nexts.filter(|step| matches!(step.op.outcome, Outcome::Unknown(_)));
    unknown
        .map(|step| Unknown {
            call: step.op.call,
            count: step.op.count,
        })
        .collect()
}

/// The common count of all requests, if there is one.
fn one_size(unknown: &[Unknown]) -> Option<u64> {
    let size = unknown.first()?.count;
    unknown.iter().all(|one| one.count == size).then_some(size)
}

/// The positions to which an advance moved or may have moved, and the time at which the first such
/// advance was sent.
fn passed_over(definition: &Definition, history: &[Step], placed: &[Placed]) -> BTreeMap<u64, At> {
    let moved = placed.iter().filter_map(|one| match one.place {
        Place::Advanced(next) => Some((next, one.call)),
        Place::Granted(..) | Place::Read(_) => None,
    });
    let unknown = history.iter().filter_map(|step| match step.asked {
        Asked::Advance(to) if matches!(step.op.outcome, Outcome::Unknown(_)) => {
            Some((definition.at_or_beyond(to), step.op.call))
        }
        _ => None,
    });
    let mut ends = BTreeMap::new();
    for (to, call) in moved.chain(unknown) {
        let first = ends.entry(to).or_insert(call);
        *first = call.min(*first);
    }
    ends
}
