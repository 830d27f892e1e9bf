//! The bytes of everything that this crate writes, held as files.
//!
//! A log, a snapshot or a message of this version must be read by every later one, to the same
//! meaning. So a file in `golden` never changes: a new shape gets a new version and a new file
//! beside the old one. `SEQD_WRITE_GOLDEN=1` writes the files that are missing, and no others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fmt::Write;
use std::path::Path;

use seqd_idgen::{Progression, Tick, WallMs, WorkerId};
use seqd_state::{
    AllocateNodeId, Command, DefinitionError, Entry, Epoch, FoundingError, GrantToken, Holder,
    LeaseGrant, LeaseId, NextGrant, NodeId, Outcome, Outcomes, Refusal, Revision, SegmentGrant,
    SequenceMode, State, TakeLease, TextField, ValueRange, Versioned, decode, encode,
};
use support::{counting, definition, found, founded, name, stamp, strict_next};

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

fn commands() -> Vec<Command> {
    let order = || name("order");
    let layout = || "default".to_owned();
    let worker = WorkerId(17);
    let narrow = Progression::new(5, -3, -9, 8, true).unwrap();
    vec![
        found(),
        Command::AllocateNodeId(AllocateNodeId {
            name: "n4".to_owned(),
            peer: "n4:7401".to_owned(),
            http: "http://n4:7400".to_owned(),
            nonce: 0x0123_4567_89ab_cdef,
        }),
        Command::RegisterStart {
            node: NodeId(4),
            boot: 7,
            nonce: u64::MAX,
        },
        Command::MarkRemoved { node: NodeId(4) },
        Command::TakeLease(TakeLease {
            layout: layout(),
            owner: "n1".to_owned(),
            node: Some(NodeId(1)),
            boot: 7,
            fence: Tick(30_001),
            datacenter: Some(3),
        }),
        Command::ExtendLease {
            layout: layout(),
            worker,
            lease: LeaseId(5),
            fence: Tick(40_001),
        },
        Command::ReleaseLease {
            layout: layout(),
            worker,
            lease: LeaseId(5),
            last_tick: Some(Tick(39_999)),
        },
        Command::ReleaseLease {
            layout: layout(),
            worker,
            lease: LeaseId(5),
            last_tick: None,
        },
        Command::CreateSequence {
            name: order(),
            definition: counting(SequenceMode::Segment),
        },
        Command::CreateSequence {
            name: name("eu:bill-2.x_1"),
            definition: definition(SequenceMode::Strict, narrow),
        },
        Command::DeleteSequence {
            name: order(),
            if_revision: Some(Revision(2)),
        },
        Command::GrantSegment {
            name: order(),
            size: 1_000,
            after: Some(GrantToken(9)),
        },
        Command::ReturnTail {
            name: order(),
            token: GrantToken(10),
            first_unused: 1_234,
        },
        Command::Advance {
            name: order(),
            to: -500,
        },
        strict_next(&[("order", 1), ("bill", 1_000_000)]),
    ]
}

#[expect(clippy::too_many_lines, reason = "one example of each, in a row")]
fn refusals() -> Vec<Refusal> {
    let order = || name("order");
    let layout = || "default".to_owned();
    let holder = Holder {
        lease: LeaseId(8),
        owner: "n2".to_owned(),
        node: Some(NodeId(2)),
        from_tick: Tick(1),
        fence: Tick(2),
    };
    let kept = Box::new(counting(SequenceMode::Strict));
    let lease_lost = |holder| Refusal::LeaseLost {
        layout: layout(),
        worker: WorkerId(17),
        lease: LeaseId(5),
        holder,
    };
    vec![
        Refusal::NotFounded,
        Refusal::AlreadyFounded {
            cluster_id: "c1".to_owned(),
        },
        Refusal::InvalidFounding(FoundingError::Window),
        Refusal::TooManyCommands {
            count: 9_999,
            limit: 4_096,
        },
        Refusal::TooManyRequests {
            count: 9_999,
            limit: 4_096,
        },
        Refusal::InvalidText {
            field: TextField::Owner,
            length: 256,
            limit: 255,
        },
        Refusal::UnknownNode { node: NodeId(9) },
        Refusal::NodeRemoved { node: NodeId(9) },
        Refusal::NodeNameTaken {
            name: "n1".to_owned(),
            node: NodeId(1),
        },
        Refusal::StaleStart {
            node: NodeId(1),
            registered: Some(7),
        },
        Refusal::UnknownLayout {
            layout: "none".to_owned(),
        },
        Refusal::UnknownDatacenter {
            layout: layout(),
            datacenter: 9,
            datacenters: 0,
        },
        Refusal::BeforeLayoutEpoch {
            layout: layout(),
            epoch_ms: 2,
            wall_ms: WallMs(1),
        },
        Refusal::LayoutExhausted {
            layout: layout(),
            since: WallMs(3),
        },
        Refusal::WorkersExhausted {
            layout: layout(),
            datacenter: Some(1),
            retry_after_ms: 2_500,
        },
        Refusal::FenceTooFar {
            asked: Tick(11),
            limit: Tick(10),
        },
        Refusal::FenceTooLow {
            asked: Tick(9),
            from_tick: Tick(10),
        },
        lease_lost(Some(Box::new(holder))),
        lease_lost(None),
        Refusal::ReleaseOutsideWindow {
            last_tick: Tick(3),
            from_tick: Tick(1),
            fence: Tick(2),
        },
        Refusal::SequenceNotFound { name: order() },
        Refusal::SequenceExists {
            name: order(),
            revision: Revision(2),
        },
        Refusal::DefinitionDiffers {
            name: order(),
            kept,
        },
        Refusal::InvalidDefinition(DefinitionError::SegmentTarget),
        Refusal::RevisionMismatch {
            name: order(),
            expected: Revision(1),
            actual: Revision(2),
        },
        Refusal::WrongMode {
            name: order(),
            mode: SequenceMode::Strict,
        },
        Refusal::SequenceExhausted {
            name: order(),
            asked: 4,
            remaining: 3,
        },
        Refusal::CountOutOfRange {
            count: 0,
            limit: 1_000_000,
        },
        Refusal::WouldGoBackwards {
            name: order(),
            to: 4,
            next: Some(5),
        },
        Refusal::CannotAdvanceCycling { name: order() },
        Refusal::AdvanceOutOfRange {
            name: order(),
            to: 11,
            min: 1,
            max: 10,
        },
        Refusal::GrantSuperseded {
            name: order(),
            token: GrantToken(9),
        },
        Refusal::TailOutsideRun {
            first_unused: 4,
            run_start: 5,
            next: 10,
        },
    ]
}

fn outcomes() -> Vec<Outcome> {
    let range = ValueRange {
        first: 5,
        last: -7,
        count: 5,
    };
    let next = NextGrant {
        first_index: 3,
        count: 5,
        increment: -3,
        ranges: vec![range],
    };
    let exhausted = Refusal::SequenceExhausted {
        name: name("a"),
        asked: 1,
        remaining: 0,
    };
    vec![
        Outcome::Founded,
        Outcome::NodeIdAllocated { node: NodeId(4) },
        Outcome::StartRegistered {
            node: NodeId(4),
            boot: 7,
        },
        Outcome::MarkedRemoved { node: NodeId(4) },
        Outcome::LeaseTaken(LeaseGrant {
            layout: "default".to_owned(),
            worker: WorkerId(17),
            lease: LeaseId(5),
            from_tick: Tick(1),
            fence: Tick(30_001),
        }),
        Outcome::LeaseExtended {
            fence: Tick(40_001),
        },
        Outcome::LeaseReleased {
            fence: Tick(39_999),
        },
        Outcome::SequenceCreated {
            created: true,
            revision: Revision(1),
            epoch: Epoch(1),
        },
        Outcome::SequenceDeleted { epoch: Epoch(2) },
        Outcome::SegmentGranted(SegmentGrant {
            token: GrantToken(9),
            epoch: Epoch(1),
            run_start: 100,
            first_index: 200,
            count: 100,
            first: 201,
            last: 300,
            increment: 1,
        }),
        Outcome::TailReturned {
            next_index: 250,
            returned: 50,
        },
        Outcome::Advanced {
            next: 500,
            next_index: 499,
            epoch: Epoch(3),
        },
        Outcome::StrictNext(vec![Ok(next), Err(exhausted)]),
    ]
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
