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
    fn a_range_of_two_nodes_past_the_maximum_or_backwards_is_found() {
        let own = planted::values(0, 0, 1, &[(1, 9)]);
        let with = |first, last| {
            let other = planted::values(1, 0, 1, &[(first, last)]);
            segments(&[own.clone(), other], 1, 100).ok()
        };
        assert_eq!(with(10, 12), Some(12));
        assert_eq!(
            [(9, 12), (99, 101), (30, 20)].map(|(a, b)| with(a, b)),
            [None; 3]
        );
    }
}
