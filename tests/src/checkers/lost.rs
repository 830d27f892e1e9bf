//! No acknowledged value of a strict sequence is lost, and every gap has a reason: a separate
//! request whose response was lost and which was sent before a later value arrived. The check is
//! that of [`sequence`](super::sequence).

use std::collections::BTreeSet;

use super::Violation;
use super::sequence::{Definition, check, read_at_the_end, steps};
use crate::history::{Created, Op, Values};

/// Checks the whole history of a strict sequence with increment 1 that began at `first`. `next` is
/// the value that a request after the history received.
pub fn strict(history: &[Op<Values>], first: i64, next: i64) -> Result<(), Violation> {
    let Ok(allocated) = u64::try_from(next - first) else {
        let detail = format!("{next} is next, before {first}, the first");
        return Err(Violation::new("no lost acknowledgement", detail));
    };
    let mut steps = steps(history);
    steps.push(read_at_the_end(allocated));
    check(&Definition::from(first), &steps).map(|_| ())
}

/// Checks that a value that a request after the history received is above all acknowledged ones.
pub fn none_above(history: &[Op<Values>], next: i64) -> Result<(), Violation> {
    let last = history.iter().flat_map(Op::runs).map(|run| run.last).max();
    if last.is_some_and(|last| last >= next) {
        let detail = format!("{next} is next, after {last:?} was acknowledged");
        return Err(Violation::new("no lost acknowledgement", detail));
    }
    Ok(())
}

/// Checks that every sequence whose creation was acknowledged exists. Returns the number of
/// acknowledged creations.
pub fn created(history: &[Op<Created>], there: &BTreeSet<String>) -> Result<u64, Violation> {
    let mut count = 0;
    for answer in history.iter().filter_map(Op::answer) {
        count += 1;
        if !there.contains(&answer.name) {
            let detail = format!("{} was created and is not there", answer.name);
            return Err(Violation::new("no lost acknowledgement", detail));
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;
    use crate::history::Outcome;

    #[test]
    fn a_gap_that_is_wider_than_the_unknown_requests_and_a_value_given_again_are_found() {
        let unknown = planted::op(0, 0, 1, Outcome::Unknown("timeout".into()));
        let history = [planted::values(0, 0, 1, &[(1, 3)]), unknown];
        assert_eq!(
            [5, 4].map(|next| strict(&history, 1, next)),
            [Ok(()), Ok(())]
        );
        assert!(strict(&history, 1, 6).is_err() && strict(&history, 1, 3).is_err());
        // A refused request explains no gap.
        let refused = planted::op(0, 0, 1, Outcome::Refused("no-quorum".into()));
        assert!(strict(&[planted::values(0, 0, 1, &[(1, 3)]), refused], 1, 5).is_err());
    }

    #[test]
    fn a_creation_that_was_acknowledged_and_is_gone_is_found() {
        let name = "order".to_owned();
        let made = Created { name: name.clone() };
        let history = [planted::op(0, 0, 1, Outcome::Ok(made))];
        assert_eq!(created(&history, &BTreeSet::from([name])), Ok(1));
        assert!(created(&history, &BTreeSet::new()).is_err());
    }
}
