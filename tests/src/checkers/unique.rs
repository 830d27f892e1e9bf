//! No number occurs twice, across nodes, restarts and batches, over *all* acknowledged responses.
//!
//! Responses are stored as runs of consecutive numbers. When they are sorted by their first
//! numbers, two runs overlap exactly if two neighbours do.

use super::Violation;
use crate::history::{Numbers, Op, Run};

/// Checks the numbers of a history. Returns their count.
pub fn numbers(history: &[Op<impl Numbers>]) -> Result<u64, Violation> {
    let mut runs: Vec<Run> = history.iter().flat_map(|op| op.runs()).copied().collect();
    runs.sort_unstable();
    for pair in runs.windows(2) {
        if pair[1].first <= pair[0].last {
            let detail = format!("{:?} and {:?} overlap", pair[0], pair[1]);
            return Err(Violation::new("unique", detail));
        }
    }
    Ok(runs.iter().map(|run| run.count()).sum())
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn distinct_runs_pass_and_are_counted() {
        let history = [
            planted::ids(1, 0, 1, &[(10, 19), (40, 40)]),
            planted::ids(2, 0, 1, &[(20, 29)]),
        ];
        assert_eq!(numbers(&history), Ok(21));
    }

    #[test]
    fn runs_that_overlap_are_found() {
        for (one, other) in [((10, 19), (19, 19)), ((1, 100), (7, 8)), ((1, 5), (1, 5))] {
            let of = |run| planted::ids(1, 0, 1, &[run]);
            assert!(numbers(&[of(one), of(other)]).is_err());
            assert!(numbers(&[planted::values(0, 0, 1, &[one, other])]).is_err());
        }
    }
}
