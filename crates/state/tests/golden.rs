//! The bytes of everything that this crate writes, held as files.
//!
//! A log, a snapshot or a message of this version must be read by every later one, to the same
//! meaning. So a line in `golden` never changes: a new variant adds its own, and a new shape gets a
//! new version and a new file beside the old one. `SEQD_WRITE_GOLDEN=1` writes the files that are
//! missing, and no others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod samples;
mod support;

use std::fmt::Write;
use std::path::Path;

use samples::{commands, outcomes, refusals};
use seqd_idgen::{Progression, Tick, WorkerId};
use seqd_state::{
    AllocateNodeId, Command, Entry, LeaseId, NodeId, Outcome, Outcomes, Restoration, SequenceMode,
    State, TakeLease, Versioned, decode, encode,
};
use support::{counting, definition, founded, name, stamp, strict_next};

/// The lines of a file: a label and the bytes in hexadecimal.
type Lines = Vec<(String, Vec<u8>)>;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text
        .chars()
        .map(|digit| digit.to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn check(file: &str, lines: &Lines) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(file);
    let written: String = lines
        .iter()
        .map(|(label, bytes)| format!("{label} {}\n", hex(bytes)))
        .collect();
    let exists = std::fs::metadata(&path).is_ok_and(|file| file.len() > 0);
    if std::env::var_os("SEQD_WRITE_GOLDEN").is_some() && !exists {
        std::fs::write(&path, &written).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (written, golden) in written.lines().zip(golden.lines()) {
        assert_eq!(written, golden, "{file}: these bytes are fixed for ever");
    }
    assert_eq!(written.lines().count(), golden.lines().count(), "{file}");
}

fn read_back<T: Versioned + PartialEq + std::fmt::Debug>(value: &T) -> Vec<u8> {
    let bytes = encode(value).unwrap();
    assert_eq!(&decode::<T>(&bytes).unwrap(), value);
    bytes
}

/// The variant's name, as `Debug` says it.
fn label(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}")
        .chars()
        .take_while(|c| c.is_alphanumeric())
        .collect()
}

#[test]
fn the_bytes_of_entries_are_fixed() {
    let stamp = stamp(1_234, 5_678);
    let mut lines = vec![(
        "empty".to_owned(),
        read_back(&Entry {
            stamp,
            commands: vec![],
        }),
    )];
    for command in commands() {
        let label = label(&command);
        lines.push((
            label,
            read_back(&Entry {
                stamp,
                commands: vec![command],
            }),
        ));
    }
    check("entry-v1.hex", &lines);
}

#[test]
fn the_bytes_of_outcomes_are_fixed() {
    let mut lines = Lines::new();
    for outcome in outcomes() {
        lines.push((label(&outcome), read_back(&Outcomes(vec![outcome]))));
    }
    for refusal in refusals() {
        let label = label(&refusal);
        lines.push((label, read_back(&Outcomes(vec![Outcome::Refused(refusal)]))));
    }
    check("outcomes-v1.hex", &lines);
}

/// A state with a row of every kind in every shape.
#[expect(clippy::too_many_lines, reason = "one example of each, in a row")]
fn full_state() -> State {
    let mut state = founded();
    let mut apply = |wall, commands| {
        let outcomes = state.apply(&Entry {
            stamp: stamp(wall, wall),
            commands,
        });
        for outcome in outcomes {
            assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
        }
    };
    let take = |owner: &str, node| {
        Command::TakeLease(TakeLease {
            layout: "js53".to_owned(),
            owner: owner.to_owned(),
            node,
            boot: if node.is_some() { 1 } else { 0 },
            fence: Tick(30_000),
            datacenter: None,
        })
    };
    apply(
        10,
        vec![
            Command::RegisterStart {
                node: NodeId(1),
                boot: 1,
                nonce: 11,
            },
            take("n1", Some(NodeId(1))),
            take("external", None),
            Command::AllocateNodeId(AllocateNodeId {
                name: "n4".to_owned(),
                peer: "n4:7401".to_owned(),
                http: "http://n4:7400".to_owned(),
                nonce: 44,
            }),
            Command::MarkRemoved { node: NodeId(3) },
        ],
    );
    let layout = || "js53".to_owned();
    apply(
        20,
        vec![
            Command::ExtendLease {
                layout: layout(),
                worker: WorkerId(0),
                lease: LeaseId(4),
                fence: Tick(30_020),
            },
            Command::ReleaseLease {
                layout: layout(),
                worker: WorkerId(1),
                lease: LeaseId(5),
                last_tick: Some(Tick(15)),
            },
        ],
    );
    let down = Progression::new(5, -3, -9, 8, true).unwrap();
    apply(
        30,
        vec![
            Command::CreateSequence {
                name: name("order"),
                definition: counting(SequenceMode::Segment),
            },
            Command::CreateSequence {
                name: name("bill"),
                definition: definition(SequenceMode::Strict, down),
            },
            Command::CreateSequence {
                name: name("gone"),
                definition: counting(SequenceMode::Strict),
            },
            Command::GrantSegment {
                name: name("order"),
                size: 100,
                after: None,
            },
            strict_next(&[("bill", 12), ("gone", 7)]),
            Command::DeleteSequence {
                name: name("gone"),
                if_revision: None,
            },
        ],
    );
    state
}

#[test]
fn the_bytes_of_rows_and_their_digest_are_fixed() {
    let state = full_state();
    let mut lines: Lines = state
        .rows()
        .map(|(key, value)| (format!("row {}", hex(&key)), value))
        .collect();
    lines.push(("digest".to_owned(), state.digest().0.to_be_bytes().to_vec()));
    check("rows-v1.hex", &lines);
}

/// The same, as another cluster takes it over.
fn restored_state() -> State {
    let mut state = full_state();
    let restoration = Restoration {
        cluster_id: "c2".to_owned(),
        founder: "n1".to_owned(),
        ancestors: vec!["c1".to_owned(), "c0".to_owned()],
        floors: [(name("order"), 500)].into(),
        margin: Some(5),
    };
    state.restore(&restoration).unwrap();
    let stamped = state.apply(&Entry {
        stamp: stamp(40, 40),
        commands: vec![Command::StampRestoration {
            wall_ms: stamp(40, 40).wall_ms,
        }],
    });
    assert!(matches!(stamped[..], [Outcome::RestorationStamped { .. }]));
    state
}

#[test]
fn the_bytes_of_a_restored_state_are_fixed() {
    let state = restored_state();
    let mut lines: Lines = state
        .rows()
        .map(|(key, value)| (format!("row {}", hex(&key)), value))
        .collect();
    lines.push(("digest".to_owned(), state.digest().0.to_be_bytes().to_vec()));
    check("rows-restored-v1.hex", &lines);
    let read_back = State::from_rows(state.rows()).unwrap();
    assert_eq!(read_back.digest(), state.digest());
}

#[test]
fn the_golden_rows_are_still_the_state_that_wrote_them() {
    let golden = include_str!("golden/rows-v1.hex");
    let rows = golden.lines().filter_map(|line| {
        let (key, value) = line.strip_prefix("row ")?.split_once(' ')?;
        Some((unhex(key), unhex(value)))
    });
    let read_back = State::from_rows(rows).unwrap();
    assert_eq!(read_back.digest(), full_state().digest());
    assert_eq!(read_back.next_deadline(), full_state().next_deadline());
}

#[test]
fn a_refusal_says_a_sentence_with_its_figures() {
    let told: Vec<String> = refusals().iter().map(ToString::to_string).collect();
    for sentence in &told {
        assert!(
            !sentence.is_empty() && !sentence.ends_with('.'),
            "{sentence}"
        );
        assert!(
            !sentence.contains("Some(") && !sentence.contains("Tick("),
            "{sentence}"
        );
    }
    assert!(told.contains(&"the sequence order has 3 values left, 4 were asked for".to_owned()));
}
