//! The first line of a source file, its length, and words that it must not contain.

use crate::sources::{assert_none, rust};

/// The largest number of lines in a file, including tests and comments.
const MOST_LINES: usize = 500;

#[test]
fn every_file_opens_with_its_purpose() {
    let silent = rust()
        .into_iter()
        .filter(|source| !source.text.starts_with("//! "));
    let complaints: Vec<String> = silent
        .map(|source| format!("{} does not open with //!", source.path))
        .collect();
    assert_none(&complaints);
}

#[test]
fn no_file_outgrows_a_concept() {
    let mut complaints = Vec::new();
    for source in rust() {
        let lines = source.text.lines().count();
        if lines > MOST_LINES {
            complaints.push(format!(
                "{} has {lines} lines, {MOST_LINES} at most",
                source.path
            ));
        }
    }
    assert_none(&complaints);
}

#[test]
fn no_test_is_ignored_and_no_work_is_left_open() {
    // Written in two parts, so that this file does not contain the words itself.
    let banned = [
        concat!("#[", "ignore"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("dbg", "!("),
        concat!("FIX", "ME"),
        concat!("TO", "DO"),
    ];
    let mut complaints = Vec::new();
    for source in rust() {
        for (at, line) in source.text.lines().enumerate() {
            for word in banned.iter().filter(|word| line.contains(**word)) {
                complaints.push(format!("{}:{} holds {word}", source.path, at + 1));
            }
        }
    }
    assert_none(&complaints);
}
