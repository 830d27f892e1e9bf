//! The nearest name that exists, for messages about one that does not.

use strsim::osa_distance;

/// The candidate that is closest to `name` by edit distance, if any is close enough to be meant.
///
/// Close enough is a third of the length, and at least one edit; case does not count, and a swap of
/// neighbours is one edit.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let wanted = folded(name);
    let length = wanted.chars().count();
    candidates
        .iter()
        .map(|candidate| (osa_distance(&wanted, &folded(candidate)), *candidate))
        .filter(|(edits, candidate)| *edits <= (candidate.len().max(length) / 3).max(1))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Longer names are cut before they are compared: no name that exists is as long, and the cost
/// is quadratic.
const MAX_LEN: usize = 64;

fn folded(name: &str) -> String {
    name.to_lowercase().chars().take(MAX_LEN).collect()
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
