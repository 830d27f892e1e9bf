//! Ranges granted to different nodes are disjoint, and every value lies inside the sequence.
//!
//! The grant of a value is not visible outside. The check is that no value came from two nodes.

use super::{Violation, unique};
use crate::history::{Op, Values};

/// Checks a history of `next` on one segment sequence with values in `min..=max`. Returns the
/// number of acknowledged values.
pub fn segments(history: &[Op<Values>], min: i64, max: i64) -> Result<u64, Violation> {
    for op in history {
        for run in op.runs() {
            if run.first < min || run.last > max || run.first > run.last {
                let detail = format!("{run:?} from node {} outside {min}..={max}", op.node);
                return Err(Violation::new("disjoint", detail));
            }
        }
    }
    unique::numbers(history)
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn two_nodes_with_own_ranges_pass() {
        let history = [
            planted::values(0, 0, 1, &[(1, 9)]),
            planted::values(1, 0, 1, &[(10, 12)]),
        ];
        assert_eq!(segments(&history, 1, 100), Ok(12));
    }

    #[test]
    fn a_range_granted_to_two_nodes_is_found() {
        let history = [
            planted::values(0, 0, 1, &[(1, 9)]),
            planted::values(1, 0, 1, &[(9, 12)]),
        ];
        assert!(segments(&history, 1, 100).is_err());
    }

    #[test]
    fn a_value_past_the_maximum_is_found() {
        assert!(segments(&[planted::values(0, 0, 1, &[(99, 101)])], 1, 100).is_err());
    }

    #[test]
    fn a_range_that_runs_backwards_is_found() {
        assert!(segments(&[planted::values(0, 0, 1, &[(9, 1)])], 1, 100).is_err());
    }
}
