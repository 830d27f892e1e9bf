//! The damage reference is complete, and each of its entries has a test that reads it.

use std::collections::BTreeSet;
use std::path::Path;

use seqd_tests::damage::{DOCUMENT, rows};

use crate::sources::{assert_none, one};

/// The kinds of damage that an operator must be able to distinguish.
const REQUIRED: [&str; 18] = [
    "torn tail",
    "flipped bit in a synced record",
    "flipped bit in a snapshot",
    "missing segment",
    "missing sled folder",
    "corrupt sled folder",
    "empty folder of a known voter",
    "folder of another node",
    "folder of another cluster",
    "older copy of its own folder",
    "copy of a live node's folder started beside it",
    "newer format version",
    "folder in use by another process",
    "no permission",
    "read-only",
    "full disk",
    "failing fsync",
    "hung disk",
];

#[test]
fn every_damage_has_an_entry_and_every_entry_a_test_that_reads_it() {
    let rows = rows();
    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for row in &rows {
        if !seen.insert(row.damage.as_str()) {
            complaints.push(format!("{} has two entries", row.damage));
        }
        let folder = Path::new(DOCUMENT).parent().unwrap_or(Path::new(""));
        let file = folder.join(&row.file);
        let Some(source) = one(&file.display().to_string()) else {
            complaints.push(format!("{}: {} is not there", row.damage, row.file));
            continue;
        };
        if !source.text.contains(&format!("fn {}(", row.test)) {
            complaints.push(format!("{}: {} has no {}", row.damage, row.file, row.test));
        }
        if !source.text.contains(&format!("\"{}\"", row.damage)) {
            complaints.push(format!("{}: {} does not read it", row.damage, row.file));
        }
    }
    for damage in REQUIRED {
        if !seen.contains(damage) {
            complaints.push(format!("{damage} has no entry"));
        }
    }
    assert_none(&complaints);
}
