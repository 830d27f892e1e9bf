//! The nearest name that exists, for messages about one that does not.

/// The candidate that is closest to `name` by edit distance, if any is close enough to be meant.
///
/// Close enough is a third of the length, and at least one edit; case does not count.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let wanted: Vec<char> = name.to_lowercase().chars().take(MAX_LEN).collect();
    candidates
        .iter()
        .map(|candidate| (distance(&wanted, candidate), *candidate))
        .filter(|(edits, candidate)| *edits <= (candidate.len().max(wanted.len()) / 3).max(1))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Longer names are cut before they are compared: nothing that exists is as long, and the cost
/// is quadratic.
const MAX_LEN: usize = 64;

/// Edits (insert, delete, replace, swap of neighbours) between two names: optimal string
/// alignment, after Damerau.
fn distance(wanted: &[char], candidate: &str) -> usize {
    let other: Vec<char> = candidate.to_lowercase().chars().take(MAX_LEN).collect();
    let width = other.len() + 1;
    let mut table = vec![0_usize; (wanted.len() + 1) * width];
    for row in 0..=wanted.len() {
        for column in 0..=other.len() {
            let at = |r: usize, c: usize| table[r * width + c];
            let value = if row == 0 || column == 0 {
                row + column
            } else {
                let differs = usize::from(wanted[row - 1] != other[column - 1]);
                let mut best = (at(row - 1, column) + 1)
                    .min(at(row, column - 1) + 1)
                    .min(at(row - 1, column - 1) + differs);
                let swapped = row > 1
                    && column > 1
                    && wanted[row - 1] == other[column - 2]
                    && wanted[row - 2] == other[column - 1];
                if swapped {
                    best = best.min(at(row - 2, column - 2) + 1);
                }
                best
            };
            table[row * width + column] = value;
        }
    }
    table[wanted.len() * width + other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_name() {
        let keys = ["count", "contiguous", "expand", "timeout_ms"];
        assert_eq!(nearest("cuont", &keys), Some("count"));
        assert_eq!(nearest("Counts", &keys), Some("count"));
        assert_eq!(nearest("contigous", &keys), Some("contiguous"));
        assert_eq!(nearest("zebra", &keys), None);
        assert_eq!(nearest("", &keys), None);
    }
}
