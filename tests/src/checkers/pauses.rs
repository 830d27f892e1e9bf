//! The longest time that a node, or the whole service, was without an acknowledgement while it
//! should serve.

use std::time::Duration;

use super::Violation;
use crate::history::{At, Op};

/// The longest time without an acknowledgement from `node` between `from` and `to`, and its
/// beginning.
pub fn longest_of_node<T>(history: &[Op<T>], node: usize, from: At, to: At) -> (Duration, At) {
    longest(history.iter().filter(|op| op.node == node), from, to)
}

/// The longest time without an acknowledgement from any node between `from` and `to`, and its
/// beginning.
pub fn longest_of_all<T>(history: &[Op<T>], from: At, to: At) -> (Duration, At) {
    longest(history.iter(), from, to)
}

/// Checks that no pause of `node` between `from` and `to` was longer than `limit`.
pub fn check_node<T>(
    history: &[Op<T>],
    node: usize,
    (from, to): (At, At),
    limit: Duration,
) -> Result<Duration, Violation> {
    within(
        longest_of_node(history, node, from, to),
        limit,
        &format!("node {node}"),
    )
}

/// Checks that no pause of the whole service between `from` and `to` was longer than `limit`.
pub fn check_all<T>(
    history: &[Op<T>],
    (from, to): (At, At),
    limit: Duration,
) -> Result<Duration, Violation> {
    within(longest_of_all(history, from, to), limit, "the service")
}

fn within(
    (pause, begin): (Duration, At),
    limit: Duration,
    who: &str,
) -> Result<Duration, Violation> {
    if pause > limit {
        let detail =
            format!("{who} paused for {pause:?} from {begin:?} on, {limit:?} is the limit");
        return Err(Violation::new("availability", detail));
    }
    Ok(pause)
}

fn longest<'a, T: 'a>(ops: impl Iterator<Item = &'a Op<T>>, from: At, to: At) -> (Duration, At) {
    let mut acknowledged: Vec<At> = ops
        .filter(|op| op.answer().is_some())
        .map(|op| op.back)
        .filter(|back| (from..=to).contains(back))
        .collect();
    acknowledged.push(to);
    acknowledged.sort_unstable();
    let mut longest = (Duration::ZERO, from);
    let mut last = from;
    for back in acknowledged {
        if back.since(last) > longest.0 {
            longest = (back.since(last), last);
        }
        last = back;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    const LIMIT: Duration = Duration::from_nanos(10);

    #[test]
    fn steady_answers_pass() {
        let history: Vec<_> = (0..10)
            .map(|i| planted::values(0, i * 8, i * 8 + 8, &[(1, 1)]))
            .collect();
        assert!(check_node(&history, 0, (At(0), At(80)), LIMIT).is_ok());
    }

    #[test]
    fn a_pause_in_the_middle_at_the_begin_and_at_the_end_is_found() {
        let history = [
            planted::values(0, 18, 20, &[(1, 1)]),
            planted::values(0, 40, 41, &[(2, 2)]),
        ];
        assert_eq!(
            longest_of_node(&history, 0, At(15), At(45)),
            (Duration::from_nanos(21), At(20))
        );
        assert!(check_node(&history, 0, (At(15), At(45)), LIMIT).is_err());
        assert!(check_node(&history, 0, (At(0), At(25)), LIMIT).is_err());
        assert!(check_node(&history, 0, (At(35), At(60)), LIMIT).is_err());
    }

    #[test]
    fn refusals_and_other_nodes_do_not_end_a_pause() {
        let refused = crate::history::Outcome::Refused("no-quorum".to_owned());
        let history = [
            planted::op(0, 3, 5, refused),
            planted::values(1, 3, 5, &[(1, 1)]),
        ];
        assert!(check_node(&history, 0, (At(0), At(11)), LIMIT).is_err());
        assert!(check_all(&history, (At(0), At(11)), LIMIT).is_ok());
    }
}
