//! Entry points for fuzzers, which accept any bytes: entries, rows and frames.
//! `docs/internals/FUZZING.md` lists the targets.
//!
//! A target panics when a guarantee is violated. The tests run the kept inputs in
//! `tests/fuzz/corpus`, so the guarantees are checked without a fuzzer too.

use std::fmt::Debug;

use seqd_idgen::Tick;

use crate::codec::frame::{self, Frame, Framed};
use crate::{
    AcquireLock, Attempt, BeginKey, Command, EncodedEntry, Entry, KeyCommand, LockCommand,
    LockView, NextRequest, Nonce, OneTimeCommand, Outcome, Refusal, Row, SequenceCommand, Stamp,
    State, StateLoader, TakeLease, WorkerCommand, codec,
};

/// The maximum length of an error message, in bytes: several names and texts of maximum length.
const MOST_WORDS: usize = 4096;

/// Splits the input into chunks: a length of two bytes, little-endian, followed by that many bytes
/// or by the rest of the input.
fn chunks(mut input: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = input.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (chunk, rest) = rest.split_at(length);
        input = rest;
        Some(chunk)
    })
}

/// Entries of a log, in chunks, applied one after the other.
///
/// A decoded entry encodes to the same bytes. Every replica has the same outcomes and rows,
/// including a replica that loads its state from rows before each entry. Each command has one
/// outcome.
pub fn state_entries(input: &[u8]) {
    let mut state = State::new();
    for chunk in chunks(input) {
        let Some(entry) = entry(chunk) else {
            return;
        };
        let mut other = loaded(&state);
        let outcomes = state.apply(&entry, None);
        assert_eq!(outcomes.len(), entry.commands.len());
        assert_eq!(other.apply(&entry, None), outcomes);
        assert_eq!(other.digest(), state.digest());
        for outcome in &outcomes {
            framed(outcome);
            if let Outcome::Refused(refusal) = outcome {
                worded(&refusal.to_string());
            }
        }
        looked_at(&state);
    }
    let digest = state.digest();
    state.drain_changes();
    assert_eq!(state.digest(), digest);
    assert_eq!(loaded(&state).digest(), digest);
}

fn entry(bytes: &[u8]) -> Option<Entry> {
    let entry = match EncodedEntry::decode(bytes.to_vec().into()) {
        Ok(entry) => entry,
        Err(error) => {
            worded(&error.to_string());
            return None;
        }
    };
    assert_eq!(&*entry.bytes().0, bytes);
    assert_eq!(codec::encode(&*entry).as_deref(), Ok(bytes));
    Some((*entry).clone())
}

fn loaded(state: &State) -> State {
    match State::from_rows(state.rows()) {
        Ok(loaded) => loaded,
        Err(error) => panic!("the rows of a state cannot be loaded: {error}"),
    }
}

/// Rows of a checkpoint or a snapshot, in chunks that alternate between key and value.
///
/// The loaded state has exactly these rows, byte for byte, and their digest, and it can be used.
pub fn state_rows(input: &[u8]) {
    let mut chunks = chunks(input);
    let mut given: Vec<Row> = Vec::new();
    let mut loader = StateLoader::default();
    while let (Some(key), Some(value)) = (chunks.next(), chunks.next()) {
        if let Err(error) = loader.row(key, value) {
            assert!(!error.to_string().is_empty());
            return;
        }
        given.push((key.to_vec(), value.to_vec()));
    }
    let mut state = loader.finish();
    given.sort();
    let mut rows: Vec<Row> = state.rows().collect();
    rows.sort();
    assert_eq!(rows, given, "other rows than were loaded");
    assert_eq!(state.digest(), loaded(&state).digest());
    looked_at(&state);
    let stamp = Stamp {
        wall_ms: state.last_wall_ms(),
        cluster_ms: state.cluster_ms(),
    };
    let commands = used(&state);
    let count = commands.len();
    assert_eq!(state.apply(&Entry { stamp, commands }, None).len(), count);
    assert_eq!(state.digest(), loaded(&state).digest());
}

/// Commands that use the records of a state: each command on a sequence, a key and a one-time
/// token, and the grant of a lease.
fn used(state: &State) -> Vec<Command> {
    let lease = WorkerCommand::TakeLease(TakeLease {
        tenant: crate::Tenant::OPERATOR,
        layout: "default".to_owned(),
        owner: "n1".to_owned(),
        node: None,
        boot: 0,
        fence: Tick(30_000),
        datacenter: None,
    });
    let mut commands = vec![lease.into()];
    for lock in state.locks("", None).take(8) {
        commands.extend(uses_of(lock).map(Command::from));
    }
    for (name, record) in state.sequences("", None).take(8) {
        let name = || name.clone();
        let next = record.next_value().unwrap_or(0);
        let uses = [
            SequenceCommand::Next(NextRequest {
                name: name(),
                count: 3,
            }),
            SequenceCommand::GrantSegment {
                name: name(),
                size: 1000,
                after: record.run.map(|run| run.token),
            },
            SequenceCommand::Advance {
                name: name(),
                to: next.saturating_add(5000),
            },
            SequenceCommand::Delete {
                name: name(),
                if_revision: Some(record.revision),
            },
        ];
        commands.extend(uses.map(Command::from));
    }
    for (name, record) in state.tables.keys.iter().take(8) {
        let claim = record.claim.unwrap_or_default();
        let begin = BeginKey {
            tenant: crate::Tenant::OPERATOR,
            name: name.clone(),
            ttl_ms: 1_000,
            claim_ttl_ms: 100,
            fingerprint: record.fingerprint.clone(),
            nonce: String::new(),
        };
        let complete = KeyCommand::Complete {
            name: name.clone(),
            claim,
            result: b"1".to_vec().into(),
        };
        let name = name.clone();
        let abandon = KeyCommand::Abandon { name, claim };
        commands.extend([KeyCommand::Begin(begin), complete, abandon].map(Command::from));
    }
    for (id, record) in state.tables.one_time.iter().take(8) {
        let (id, hash, nonce) = (*id, record.hash, String::new());
        commands.push(OneTimeCommand::Consume { id, hash, nonce }.into());
    }
    commands
}

/// Each holder renews and releases the lock, and another client acquires it.
fn uses_of(lock: LockView<'_>) -> impl Iterator<Item = LockCommand> {
    let name = || lock.name.clone();
    let asked = AcquireLock {
        tenant: crate::Tenant::OPERATOR,
        name: name(),
        owner: "n1".to_owned(),
        nonce: Nonce(1),
        attempt: Attempt(1),
        ttl_ms: 1000,
        wait_ms: 1000,
        permits: lock.record.permits,
        shared: false,
        lock_delay_ms: 0,
    };
    let holders = lock.holders().take(4).flat_map(move |holder| {
        let (token, ttl_ms) = (holder.token, 1000);
        [
            LockCommand::Renew {
                name: name(),
                token,
                ttl_ms,
            },
            LockCommand::Release {
                name: name(),
                token,
            },
        ]
    });
    [LockCommand::Acquire(asked)].into_iter().chain(holders)
}

/// Reads the state as a node does while it serves.
fn looked_at(state: &State) {
    for (name, record) in state.sequences("", None).take(100) {
        let (next, remaining) = (record.next_value(), record.remaining());
        // The last index has no value, so that the mark after the last value is itself an index.
        let is_over = remaining == Some(0) || record.next_index == u64::MAX;
        assert!(next.is_some() || is_over, "{name}");
    }
    for lease in state.leases() {
        let _ = (lease.record.owner.len(), state.layout(lease.layout));
    }
    for (name, _) in state.tables.keys.iter() {
        let key = state.key(name);
        assert!(key.is_none_or(|key| key.until > state.cluster_ms()));
    }
    for lock in state.locks("", None) {
        let (holders, waiters) = (lock.holders().count(), lock.waiters().count());
        let is_in_use = holders + waiters > 0 || lock.delayed_until().is_some();
        assert_eq!(is_in_use, lock.is_in_use());
        assert_eq!(is_in_use, state.lock(lock.name.as_str()).is_some());
    }
    let _ = (state.next_deadline(), state.secret(), state.restoration());
}

/// A frame, as one peer sends it to another: a kind, a version and a body.
///
/// A decoded frame encodes to the same frame, and its size can be computed without encoding it.
pub fn state_frame(input: &[u8]) {
    let [low, high, version, body @ ..] = input else {
        return;
    };
    let frame = Frame {
        kind: u16::from_le_bytes([*low, *high]),
        version: *version,
        body: body.to_vec().into(),
    };
    read::<Command>(&frame);
    read::<Outcome>(&frame);
    if let Some(refusal) = read::<Refusal>(&frame) {
        assert!(!refusal.to_string().is_empty());
    }
}

fn read<T: Framed>(frame: &Frame) -> Option<T> {
    match frame::read::<T>(frame) {
        Ok(value) => {
            assert_eq!(value.to_frame().as_ref(), Ok(frame));
            Some(value)
        }
        Err(error) => {
            worded(&error.to_string());
            None
        }
    }
}

fn framed<T: Framed + PartialEq + Debug>(value: &T) {
    let Ok(frame) = value.to_frame() else {
        panic!("no frame for {value:?}");
    };
    assert_eq!(frame::read::<T>(&frame).as_ref(), Ok(value));
    let bytes = codec::body_bytes(0, &frame);
    assert_eq!(value.frame_bytes(), bytes);
}

fn worded(words: &str) {
    assert!(!words.is_empty() && words.len() <= MOST_WORDS, "{words}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{replay, seeds};

    const LOG: &str = include_str!("../tests/golden/log-v1.hex");
    const ENTRIES: &str = include_str!("../tests/golden/entry-v1.hex");
    const ROWS: [&str; 2] = [
        include_str!("../tests/golden/rows-v1.hex"),
        include_str!("../tests/golden/rows-restored-v1.hex"),
    ];
    const OUTCOMES: &str = include_str!("../tests/golden/outcomes-v1.hex");

    fn unhex(text: &str) -> Vec<u8> {
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair).unwrap();
            u8::from_str_radix(pair, 16).unwrap()
        };
        text.as_bytes().chunks(2).map(byte).collect()
    }

    fn chunk(bytes: &[u8]) -> Vec<u8> {
        let length = u16::try_from(bytes.len()).unwrap();
        [&length.to_le_bytes()[..], bytes].concat()
    }

    /// Returns the bytes at the end of each line that begins with this word.
    fn lines(text: &'static str, word: &str) -> Vec<Vec<u8>> {
        let lines = text.lines().filter(|line| line.starts_with(word));
        lines
            .map(|line| unhex(line.rsplit(' ').next().unwrap()))
            .collect()
    }

    #[test]
    fn kept_entries_have_the_same_outcomes_on_each_replica() {
        let log = lines(LOG, "entry");
        // Apply each entry after the entry that founds the cluster.
        let founding = chunk(&log[0]);
        let entries = lines(ENTRIES, "").into_iter();
        let after = entries.map(|entry| [founding.clone(), chunk(&entry)].concat());
        let whole = log.iter().flat_map(|entry| chunk(entry)).collect();
        let inputs: Vec<Vec<u8>> = std::iter::once(whole).chain(after).collect();
        replay("state_entries", &seeds(inputs), state_entries);
    }

    #[test]
    fn kept_rows_equal_the_rows_of_the_state() {
        let inputs = ROWS.map(|rows| {
            let rows = rows.lines().filter(|line| line.starts_with("row "));
            let rows = rows.flat_map(|row| row.split(' ').skip(1).map(unhex).collect::<Vec<_>>());
            rows.flat_map(|bytes| chunk(&bytes)).collect()
        });
        replay("state_rows", &seeds(inputs), state_rows);
    }

    #[test]
    fn kept_frames_are_written_as_they_were_read() {
        let inputs = OUTCOMES.lines().filter_map(|line| {
            let bytes = unhex(line.rsplit(' ').next()?);
            // Kind and version; the body follows after its length.
            (bytes.len() >= 11).then(|| [&bytes[..3], &bytes[11..]].concat())
        });
        replay("state_frame", &seeds(inputs), state_frame);
    }
}
