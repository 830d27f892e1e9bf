//! Finds the nearest known name, for messages about an unknown name.

use strsim::osa_distance;

/// Returns the candidate with the smallest edit distance from `name`, if it is close enough.
///
/// The largest accepted distance is a third of the length, and at least one edit. Case is ignored,
/// and a swap of two neighbours counts as one edit.
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

/// Longer names are truncated before the comparison: no known name is as long, and the cost is
/// quadratic.
const MAX_LEN: usize = 64;

fn folded(name: &str) -> String {
    name.to_lowercase().chars().take(MAX_LEN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_finds_the_nearest_name() {
        let keys = ["count", "contiguous", "expand", "timeout_ms"];
        assert_eq!(nearest("cuont", &keys), Some("count"));
        assert_eq!(nearest("Counts", &keys), Some("count"));
        assert_eq!(nearest("contigous", &keys), Some("contiguous"));
        assert_eq!(nearest("zebra", &keys), None);
        assert_eq!(nearest("", &keys), None);
    }
}
