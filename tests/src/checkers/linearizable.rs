//! A strict counter is linearizable: the values are distinct, and no response arrived before the
//! call of a request that got a lower value. The check is that of [`sequence`](super::sequence).

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
    use crate::seed::Random;

    #[test]
    fn overlapping_requests_may_take_any_order() {
        let history = [
            planted::values(0, 0, 10, &[(2, 2)]),
            planted::values(1, 5, 12, &[(1, 1)]),
            planted::values(1, 13, 14, &[(3, 4)]),
        ];
        assert_eq!(strict(&history), Ok(4));
    }

    #[test]
    fn a_lower_value_asked_for_later_is_found() {
        let history = [
            planted::values(0, 0, 4, &[(2, 2)]),
            planted::values(1, 5, 12, &[(1, 1)]),
        ];
        assert!(strict(&history).is_err());
    }

    #[test]
    fn a_violation_between_distant_values_is_found() {
        let history = [
            planted::values(0, 0, 1, &[(9, 9)]),
            planted::values(0, 0, 50, &[(5, 5)]),
            planted::values(0, 2, 60, &[(1, 1)]),
        ];
        assert!(strict(&history).is_err());
    }

    #[test]
    fn a_value_told_twice_is_found() {
        let history = [
            planted::values(0, 0, 1, &[(1, 3)]),
            planted::values(0, 2, 3, &[(3, 4)]),
        ];
        assert!(strict(&history).is_err());
    }

    /// Histories of a real counter pass. They fail if two responses are exchanged whose requests
    /// were not concurrent.
    #[test]
    fn exchanged_answers_are_found_in_random_histories() {
        let mut random = Random::of_this_run("exchanged answers");
        for _ in 0..200 {
            let mut history: Vec<_> = (1..=50)
                .map(|value| {
                    let moment = value as u64 * 10;
                    let call = moment - random.below(40).min(moment);
                    planted::values(0, call, moment + random.below(40), &[(value, value)])
                })
                .collect();
            assert_eq!(strict(&history), Ok(50));
            let (a, b) = (random.below(25) as usize, 25 + random.below(25) as usize);
            if history[a].back < history[b].call {
                let taken = history[a].outcome.clone();
                history[a].outcome = history[b].outcome.clone();
                history[b].outcome = taken;
                assert!(strict(&history).is_err());
            }
        }
    }
}
