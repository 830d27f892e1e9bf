//! A strict counter is linearizable: the values are distinct, and no value was received before a
//! lower value was requested. The check is that of [`sequence`](super::sequence).

use super::Violation;
use super::sequence::{Definition, check_order, steps};
use crate::history::{Op, Run, Values};

/// Checks a history of `next` on one strict sequence of the numbers from 1 on. Returns the number
/// of acknowledged values.
pub fn strict(history: &[Op<Values>]) -> Result<u64, Violation> {
    check_order(&Definition::from(1), &steps(history))?;
    Ok(history
        .iter()
        .flat_map(Op::runs)
        .map(|run| Run::count(*run))
        .sum())
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn a_lower_value_asked_for_later_is_found() {
        let of = |call| {
            [
                planted::values(0, 0, 4, &[(2, 2)]),
                planted::values(1, call, 12, &[(1, 1)]),
            ]
        };
        assert_eq!(strict(&of(4)), Ok(2));
        assert!(strict(&of(5)).is_err());
    }
}
