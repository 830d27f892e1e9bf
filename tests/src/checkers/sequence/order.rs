//! The operations take one order that agrees with real time: positions are granted once, and no
//! operation was asked for after the answer to one that comes later in the order was seen.
//!
//! The order of the positions is the only possible order of grants; a read or an advance has its
//! place between two of them. Swept from the highest down with the earliest end of all higher
//! ones: O(n log n). Unknown outcomes may take effect at any time after the call, and bind nothing.

use super::placed::{Place, Placed};
use crate::checkers::Violation;
use crate::history::At;

/// Where an operation may stand in the order: its lowest and its highest place. An advance to the
/// position that was the next one already may stand before or behind reads of it.
fn places(placed: &Placed) -> (u128, u128) {
    let at = u128::from(placed.begin()) * 4;
    match placed.place {
        Place::Advanced(_) => (at, at + 1),
        Place::Read(_) => (at + 1, at + 1),
        Place::Granted(..) => (at + 2, at + 2),
    }
}

pub(super) fn check(placed: &[Placed]) -> Result<(), Violation> {
    check_once(placed)?;
    let mut lower: Vec<&Placed> = placed.iter().collect();
    lower.sort_by_key(|one| std::cmp::Reverse(places(one).1));
    let mut higher: Vec<&Placed> = placed.iter().collect();
    higher.sort_by_key(|one| std::cmp::Reverse(places(one).0));
    let mut higher = higher.into_iter().peekable();
    let mut earliest: Option<(At, &Placed)> = None;
    for one in lower {
        let highest = places(one).1;
        while let Some(other) = higher.next_if(|other| places(other).0 > highest) {
            if earliest.is_none_or(|(back, _)| other.back < back) {
                earliest = Some((other.back, other));
            }
        }
        if let Some((_, other)) = earliest.filter(|(back, _)| *back < one.call) {
            let detail = format!("{one:?} was asked for after {other:?}");
            return Err(Violation::new("linearizable", detail));
        }
    }
    Ok(())
}

/// No position is granted twice, and none is granted in one piece with another that a read or an
/// advance lies between.
fn check_once(placed: &[Placed]) -> Result<(), Violation> {
    let mut grants: Vec<&Placed> = Vec::new();
    let mut points: Vec<&Placed> = Vec::new();
    for one in placed {
        match one.place {
            Place::Granted(..) => grants.push(one),
            Place::Read(_) | Place::Advanced(_) => points.push(one),
        }
    }
    grants.sort_by_key(|grant| grant.begin());
    for pair in grants.windows(2) {
        if pair[1].begin() < pair[0].end() {
            let detail = format!("{:?} and {:?}", pair[0], pair[1]);
            return Err(Violation::new("unique", detail));
        }
    }
    for point in points {
        let before = grants.partition_point(|grant| grant.begin() < point.begin());
        let Some(grant) = before.checked_sub(1).map(|last| grants[last]) else {
            continue;
        };
        if point.begin() < grant.end() {
            let detail = format!("{point:?} inside {grant:?}");
            return Err(Violation::new("linearizable", detail));
        }
    }
    Ok(())
}
