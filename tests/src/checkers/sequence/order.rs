//! The operations have one order that agrees with real time: positions are granted once, and no
//! operation was called after the response of an operation that follows it in the order.
//!
//! The order of the positions is the only possible order of grants. A read or an advance has its
//! place between two of them. The sweep goes from the highest position down and keeps the earliest
//! response of all higher ones: O(n log n). An operation with an unknown outcome may take effect at
//! any time after its call, and constrains nothing.

use super::placed::{Place, Placed};
use crate::checkers::Violation;
use crate::history::At;

/// The lowest and the highest place of an operation in the order. An advance to a position that was
/// already the next one may be before or after reads of it.
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

/// No position is granted twice, and no grant spans the place of a read or an advance.
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
