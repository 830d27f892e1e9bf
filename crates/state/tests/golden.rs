//! Compares the bytes of everything that this crate writes with golden files.
//!
//! Every later version must read a log, a snapshot or a message of this version with the same
//! meaning. A line in `golden` therefore never changes: a new variant adds a line, and a new shape
//! gets a new version and a new file next to the old one. `SEQD_WRITE_GOLDEN=1` writes missing
//! files and no others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod files;
mod samples;
mod support;

use std::collections::BTreeSet;

use files::{Lines, check};
use samples::{commands, outcomes, refusals};
use seqd_state::codec::frame::{self, Frame, FrameRow, Framed};
use seqd_state::{
    ClusterCommand, Command, Entry, Level, LogPosition, Outcome, Versioned, decode, encode,
};
use support::stamp;

fn read_back<T: Versioned + PartialEq + std::fmt::Debug>(value: &T) -> Vec<u8> {
    let bytes = encode(value).unwrap();
    assert_eq!(&decode::<T>(&bytes).unwrap(), value);
    bytes
}

/// Returns the names of the variant and of the variants that contain it.
fn label(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    let is_name = |part: &&str| part.chars().all(char::is_alphanumeric);
    let mut parts: Vec<&str> = text.split('(').take_while(is_name).collect();
    let rest = text.split('(').nth(parts.len()).unwrap_or_default();
    let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(0);
    parts.push(&rest[..end]);
    parts.retain(|part| !part.is_empty() && part.starts_with(char::is_alphabetic));
    parts.join(".")
}

/// Encodes a frame's bytes independently of the codec.
fn bytes_of(frame: &Frame) -> Vec<u8> {
    let mut bytes = frame.kind.to_le_bytes().to_vec();
    bytes.push(frame.version);
    bytes.extend((frame.body.0.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&frame.body.0);
    bytes
}

fn entry_of(commands: Vec<Command>) -> Entry {
    Entry {
        stamp: stamp(1_234, 5_678),
        commands,
    }
}

#[test]
fn the_bytes_of_entries_are_fixed() {
    let mut lines = vec![("empty".to_owned(), read_back(&entry_of(vec![])))];
    for command in commands() {
        lines.push((label(&command), read_back(&entry_of(vec![command]))));
    }
    check("entry-v1.hex", &lines);
}

#[test]
fn the_bytes_of_outcomes_are_fixed() {
    let mut lines = Lines::new();
    let refused = refusals().into_iter().map(Outcome::Refused);
    for outcome in outcomes().into_iter().chain(refused) {
        let frame = outcome.to_frame().unwrap();
        assert_eq!(frame::read::<Outcome>(&frame).unwrap(), outcome);
        lines.push((label(&outcome), bytes_of(&frame)));
    }
    check("outcomes-v1.hex", &lines);
}

#[test]
fn each_frame_has_one_row_in_the_table_and_a_golden_line() {
    let row = |frame: Frame| (frame.kind, frame.version);
    let shown: BTreeSet<_> = (commands().iter().map(|it| row(it.to_frame().unwrap())))
        .chain(outcomes().iter().map(|it| row(it.to_frame().unwrap())))
        .chain(refusals().iter().map(|it| row(it.to_frame().unwrap())))
        .collect();
    let mut rows = Command::frame_rows();
    rows.extend(Outcome::frame_rows());
    let known: BTreeSet<_> = rows.iter().map(|row| (row.kind, row.version)).collect();
    assert_eq!(known.len(), rows.len(), "a kind was given twice");
    // The level that exists only in tests is never released and has no golden bytes.
    let released =
        |row: &&FrameRow| !cfg!(feature = "test-next-level") || row.since < Level::NEWEST;
    let released = rows.iter().filter(released);
    let known: BTreeSet<_> = released.map(|row| (row.kind, row.version)).collect();
    let differing: Vec<_> = shown.symmetric_difference(&known).collect();
    assert!(differing.is_empty(), "a row or a sample: {differing:?}");
    assert!(rows.iter().all(|row| row.kind > 255), "those are of values");
}

#[test]
fn a_frame_has_as_many_bytes_as_are_counted() {
    for command in commands() {
        let written = bytes_of(&command.to_frame().unwrap());
        assert_eq!(command.frame_bytes().unwrap(), written.len(), "{command:?}");
    }
}

#[test]
fn data_of_a_newer_program_is_distinguished_from_damage() {
    let known = commands()[0].to_frame().unwrap();
    let frame = |kind, version, body: &[u8]| Frame {
        kind,
        version,
        body: body.to_vec().into(),
    };
    let read = |frame: &Frame| frame::read::<Command>(frame).unwrap_err();
    assert!(read(&frame(known.kind, 2, b"?")).is_newer());
    assert!(read(&frame(0x7fff, 1, b"")).is_newer());
    assert!(!read(&frame(known.kind, 0, &known.body.0)).is_newer());
    assert!(!read(&frame(known.kind, 1, b"?")).is_newer());
    // Within an entry, the classification is the same.
    let mut entry = encode(&entry_of(vec![])).unwrap();
    let count = entry.len() - 8;
    entry[count..].copy_from_slice(&1u64.to_le_bytes());
    entry.extend(bytes_of(&frame(0x7fff, 9, b"later")));
    let error = decode::<Entry>(&entry).unwrap_err();
    assert!(error.is_newer(), "{error}");
    let above = Command::Cluster(ClusterCommand::RaiseLevel {
        to: Level::NEWEST.next(),
        membership: LogPosition { term: 1, index: 0 },
    });
    let raised = encode(&entry_of(vec![above])).unwrap();
    let error = decode::<Entry>(&raised).unwrap_err();
    assert!(error.is_newer(), "{error}");
}

#[test]
fn a_refusal_is_a_sentence_with_its_figures() {
    let sentences: Vec<String> = refusals().iter().map(ToString::to_string).collect();
    for sentence in &sentences {
        assert!(
            !sentence.is_empty() && !sentence.ends_with('.'),
            "{sentence}"
        );
        assert!(
            !sentence.contains("Some(") && !sentence.contains("Tick("),
            "{sentence}"
        );
    }
    assert!(
        sentences
            .contains(&"the sequence order has 3 values left, but 4 were requested".to_owned())
    );
}
