//! How a source file opens, how long it is, and what it must not hold.

use crate::sources::{assert_none, rust};

/// The longest file, tests and comments included.
const MOST_LINES: usize = 500;

#[test]
fn every_file_opens_with_what_it_is_for() {
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
fn nothing_is_skipped_or_left_for_later() {
    // Written in two parts so that this file does not hold them itself.
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
