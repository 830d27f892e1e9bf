//! The descriptions of the formats on disk and on connections between nodes: the examples are bytes
//! of the golden files, and the tables have every kind that the code writes.

use std::collections::BTreeSet;

use seqd_tests::binary::workspace;

use crate::sources::{one, product};

const DOCUMENT: &str = "docs/internals/FORMAT.md";
const GOLDEN: &str = "crates/raft/tests/golden/data-v1";
const PEERS_MESSAGES: [&str; 2] = [
    "crates/raft/src/messages.rs",
    "crates/peers/src/wire/hello.rs",
];

/// The examples: a golden file, and bytes that must be in it.
fn examples(text: &str) -> Vec<(String, String)> {
    let named = text.lines().filter_map(|line| line.split_once(": "));
    let is_hex = |hex: &str| !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit());
    named
        .filter(|(file, hex)| !file.contains(' ') && is_hex(hex))
        .map(|(file, hex)| (file.to_owned(), hex.to_owned()))
        .collect()
}

#[test]
fn examples_of_the_format_are_the_bytes_of_the_golden_files() {
    let document = one(DOCUMENT).unwrap();
    let examples = examples(&document.text);
    let files: BTreeSet<_> = examples.iter().map(|(file, _)| file.as_str()).collect();
    for (file, hex) in &examples {
        let bytes = std::fs::read(workspace().join(GOLDEN).join(file)).expect(file);
        let golden: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let at = golden.find(hex.as_str());
        assert!(at.is_some_and(|at| at % 2 == 0), "{file} lacks {hex}");
    }
    let expected = [
        "CURRENT",
        "boot",
        "identity",
        "last-tick",
        "peers",
        "snap/30-1.snap",
        "state-1/witness",
        "wal/0000000001.seg",
        "wal/0000000003.seg",
    ];
    assert_eq!(files, expected.into());
}

/// The kinds of all commands, as hexadecimal digits.
fn command_kinds() -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for source in product() {
        let is_of_state = source.path.starts_with("crates/state/src/");
        if !is_of_state || source.path.ends_with("/notes.rs") {
            continue;
        }
        let mut is_table = false;
        for (_, line) in source.code() {
            if line.starts_with("impl FrameTable for ") {
                is_table = line.contains("Command {");
            }
            let row = line.trim().strip_prefix("row(0x").filter(|_| is_table);
            kinds.extend(row.and_then(|row| row.get(..4)).map(str::to_owned));
        }
    }
    kinds
}

#[test]
fn every_command_is_described_by_its_kind() {
    let document = one(DOCUMENT).unwrap();
    let kinds = command_kinds();
    assert!(kinds.len() > 30, "{kinds:?}");
    let is_missing = |kind: &&String| !document.text.contains(&format!("`{kind}`"));
    let missing: Vec<&String> = kinds.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{DOCUMENT} lacks {missing:?}");
}

/// The kind and version of each value that the code can write.
fn kinds_in_code() -> BTreeSet<(u8, u8)> {
    let mut kinds = BTreeSet::new();
    for source in product() {
        // The tests of the codec and of tables have kinds that are never stored, and the table of
        // the next level is never released.
        let unreleased = ["codec.rs", "table.rs", "notes.rs"];
        let is = |file: &str| source.path.ends_with(&format!("state/src/{file}"));
        if unreleased.into_iter().any(is) {
            continue;
        }
        let mut kind = None;
        for (_, line) in source.code() {
            let number = |after: &str| {
                let digits = line.split_once(after)?.1;
                let end = digits.find(|c: char| !c.is_ascii_digit())?;
                digits[..end].parse::<u8>().ok()
            };
            kind = number("const KIND: u8 = ").or(kind);
            if let (Some(of), Some(version)) = (kind, number("const VERSION: u8 = ")) {
                kinds.insert((of, version));
                kind = None;
            }
            // The tables of messages between peers, which all have version 1.
            if PEERS_MESSAGES.contains(&source.path.as_str())
                && let Some(kind) = number(" = ").filter(|_| line.trim_end().ends_with(','))
            {
                kinds.insert((kind, 1));
            }
            if let (Some(of), Some(version)) = (number(", kind "), number(", version ")) {
                kinds.insert((of, version));
            }
        }
    }
    kinds
}

/// The kind and name of each frame of a connection between nodes, from its source file.
fn frames_in_code() -> BTreeSet<(u8, String)> {
    let source = one("crates/peers/src/wire/frame.rs").unwrap();
    let constants = source
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("const ")?.strip_suffix(';'));
    let kinds = constants.filter_map(|constant| {
        let (name, kind) = constant.split_once(": u8 = ")?;
        Some((kind.parse().ok()?, name.to_lowercase()))
    });
    kinds.collect()
}

#[test]
fn the_protocol_of_peers_has_every_kind_of_frame() {
    let document = one("docs/internals/PEERS.md").unwrap();
    let rows = document.text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let kind = cells.next()?.parse().ok()?;
        Some((kind, cells.next()?.to_owned()))
    });
    let described: BTreeSet<(u8, String)> = rows.collect();
    assert_eq!(described.len(), 7);
    assert_eq!(described, frames_in_code());
}

#[test]
fn the_table_of_kinds_has_every_kind_that_is_written() {
    let document = one(DOCUMENT).unwrap();
    let rows = document.text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let kinds = cells.next()?;
        let (first, last) = kinds.split_once(" to ").unwrap_or((kinds, kinds));
        let (first, last) = (first.parse::<u8>().ok()?, last.parse::<u8>().ok()?);
        let version = cells.next()?.parse::<u8>().ok()?;
        Some((first..=last).map(move |kind| (kind, version)))
    });
    let described: BTreeSet<(u8, u8)> = rows.flatten().collect();
    let in_code = kinds_in_code();
    assert!(in_code.len() > 20, "{in_code:?}");
    // The code names the newest version. Older versions remain readable.
    let all = in_code.iter();
    let all: BTreeSet<_> = all
        .flat_map(|(kind, newest)| (1..=*newest).map(|version| (*kind, version)))
        .collect();
    let differing: Vec<_> = described.symmetric_difference(&all).collect();
    assert!(
        differing.is_empty(),
        "in the code or in FORMAT alone: {differing:?}"
    );
}
