//! Compares the bytes of rows and of a whole log, and the digest after the log, with golden files.
//!
//! The digest after a log of an earlier version never changes, and neither do the rows of a level.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod files;
mod support;

use files::{Lines, check, hex, lines_of, unhex};
use seqd_idgen::{Progression, Tick, WorkerId};
use seqd_state::{
    AccessCommand, AccessId, AcquireLock, Attempt, BeginKey, ClusterCommand, ClusterOutcome,
    Command, EncodedEntry, Entry, FencingToken, KeyClaim, KeyCommand, KeyName, KeySpace, LeaseId,
    Level, LockCommand, LockName, LogPosition, NodeId, Nonce, Outcome, Restoration, SecretKey,
    SequenceMode, State, TakeLease, WorkerCommand, decode,
};
use support::commands::*;
use support::{counting, definition, name, stamp};

/// The position of the log's only membership.
const MEMBERSHIP: Option<LogPosition> = Some(LogPosition { term: 1, index: 0 });

/// A log after which the state has rows of every kind in every shape.
fn full_log() -> Vec<Entry> {
    let mut log = Vec::new();
    let mut apply = |wall, commands| {
        log.push(Entry {
            stamp: stamp(wall, wall),
            commands,
        });
    };
    apply(0, vec![found()]);
    let take = |owner: &str, node| {
        Command::Workers(WorkerCommand::TakeLease(TakeLease {
            tenant: seqd_state::Tenant::OPERATOR,
            layout: "js53".to_owned(),
            owner: owner.to_owned(),
            node,
            boot: if node.is_some() { 1 } else { 0 },
            fence: Tick(30_000),
            datacenter: None,
        }))
    };
    apply(
        10,
        vec![
            start(NodeId(1), 1, 11),
            take("n1", Some(NodeId(1))),
            take("external", None),
            join("n4", 44),
            remove(NodeId(3)),
        ],
    );
    let layout = || "js53".to_owned();
    apply(
        20,
        vec![
            extend(layout(), WorkerId(0), LeaseId(4), Tick(30_020)),
            release(layout(), WorkerId(1), LeaseId(5), Some(Tick(15))),
        ],
    );
    let down = Progression::new(5, -3, -9, 8, true).unwrap();
    apply(
        30,
        vec![
            create(name("order"), counting(SequenceMode::Segment)),
            create(name("bill"), definition(SequenceMode::Strict, down)),
            create(name("gone"), counting(SequenceMode::Strict)),
            grant(name("order"), 100, None),
            strict_next("bill", 12),
            strict_next("gone", 7),
            delete(name("gone"), None),
        ],
    );
    log.extend(tokens_and_layouts());
    log.extend([keys(), locks(), at(2_200, Vec::new())]);
    log
}

fn replay(log: impl IntoIterator<Item = Entry>) -> State {
    let mut state = State::new();
    for entry in log {
        for outcome in state.apply(&entry, MEMBERSHIP) {
            assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
        }
    }
    state
}

fn full_state() -> State {
    replay(full_log())
}

/// Tokens, one of them revoked; a layout created by a command; and a lease followed by another
/// lease of its worker.
fn tokens_and_layouts() -> Vec<Entry> {
    let key = SecretKey([7; 32]);
    let revoke = AccessCommand::Revoke { id: AccessId(2) };
    let tokens = vec![
        ClusterCommand::KeepSecret { key }.into(),
        create_token(AccessId(1)),
        create_token(AccessId(2)),
        revoke.into(),
    ];
    let take = |owner: &str, fence| {
        Command::Workers(WorkerCommand::TakeLease(TakeLease {
            tenant: seqd_state::Tenant::OPERATOR,
            layout: "short".to_owned(),
            owner: owner.to_owned(),
            node: None,
            boot: 0,
            fence: Tick(fence),
            datacenter: Some(1),
        }))
    };
    let worker = WorkerId(64);
    let leases = vec![
        create_layout("short", 39),
        take("pod-1", 3_000),
        release("short".to_owned(), worker, LeaseId(8), Some(Tick(90))),
    ];
    vec![
        at(40, tokens),
        at(900, leases),
        at(1_000, vec![take("pod-1", 3_090)]),
    ]
}

/// Keys and one-time tokens in every shape.
fn keys() -> Entry {
    let of_a_request = KeyName {
        space: KeySpace::Requests { access: 7 },
        key: "order 42".to_owned(),
    };
    let begin_request = KeyCommand::Begin(BeginKey {
        tenant: seqd_state::Tenant::OPERATOR,
        name: of_a_request.clone(),
        ttl_ms: 86_400_000,
        claim_ttl_ms: 60_000,
        fingerprint: String::new(),
        nonce: String::new(),
    });
    let commands = vec![
        begin("pay-1", "sha:5f", "n1"),
        begin("pay-2", "", ""),
        begin("pay-3", "", "n3"),
        begin_request.into(),
        complete(user_key("pay-1"), KeyClaim(10), "{\"paid\":true}"),
        abandon(user_key("pay-2"), KeyClaim(11)),
        complete(of_a_request, KeyClaim(13), "200 text/plain\n1\n"),
        issue([5, 6, 7], 60_000),
        consume(6, 6, "n1"),
        consume(7, 7, ""),
    ];
    at(1_100, commands)
}

/// A lock with a holder and a waiter, a shared lock, and a delayed lock.
fn locks() -> Entry {
    let lock = |name: &str, owner: &str, nonce: u128, shared, wait_ms| {
        let asked = AcquireLock {
            tenant: seqd_state::Tenant::OPERATOR,
            name: LockName::new(name).unwrap(),
            owner: owner.to_owned(),
            nonce: Nonce(nonce),
            attempt: Attempt(7),
            ttl_ms: 1_000,
            wait_ms,
            permits: 1,
            shared,
            lock_delay_ms: if name == "delayed" { 60_000 } else { 0 },
        };
        Command::from(LockCommand::Acquire(asked))
    };
    let renew = |name: &str, token| LockCommand::Renew {
        name: LockName::new(name).unwrap(),
        token: FencingToken(token),
        ttl_ms: 30_000,
    };
    let commands = vec![
        lock("delayed", "pod-1", 1, false, 0),
        lock("jobs/nightly 1", "pod-1", 2, false, 0),
        lock("jobs/nightly 1", "pod-2", 3, false, 9_000),
        lock("shared", "pod-1", 4, true, 0),
        lock("shared", "pod-2", 5, true, 0),
        renew("jobs/nightly 1", 15).into(),
        renew("shared", 17).into(),
    ];
    at(1_100, commands)
}

/// Returns an entry with both clocks at `time`.
fn at(time: u64, commands: Vec<Command>) -> Entry {
    let stamp = stamp(time, time);
    Entry { stamp, commands }
}

fn digest_line(state: &State) -> (String, Vec<u8>) {
    ("digest".to_owned(), state.digest().0.to_be_bytes().to_vec())
}

fn lines_of_rows(state: &State) -> Lines {
    let rows = state.rows();
    let mut lines: Lines = rows
        .map(|(key, value)| (format!("row {}", hex(&key)), value))
        .collect();
    lines.push(digest_line(state));
    lines
}

#[test]
fn the_bytes_of_rows_and_their_digest_are_fixed() {
    let state = full_state();
    check("rows-v1.hex", &lines_of_rows(&state));
    let read_back = State::from_rows(state.rows()).unwrap();
    assert_eq!(read_back.level(), Level::FIRST);
    assert_eq!(read_back.secret(), state.secret());
    assert!(read_back.tokens().eq(state.tokens()));
    assert_eq!(lines_of_rows(&read_back), lines_of_rows(&state));
}

/// The state of the full log, restored into another cluster.
fn restored_state() -> State {
    let mut state = full_state();
    let restoration = Restoration {
        cluster_id: "c2".to_owned(),
        founder: "n1".to_owned(),
        ancestors: vec!["c1".to_owned(), "c0".to_owned()],
        floors: [(name("order"), 500)].into(),
        margin: Some(5),
        written: None,
    };
    state.restore(&restoration).unwrap();
    let at = stamp(2_300, 2_300);
    let stamped = apply_one(&mut state, at, stamp_restoration(at.wall_ms));
    assert!(matches!(
        stamped,
        Outcome::Cluster(ClusterOutcome::RestorationStamped { .. })
    ));
    state
}

#[test]
fn the_bytes_of_a_restored_state_are_fixed() {
    let state = restored_state();
    check("rows-restored-v1.hex", &lines_of_rows(&state));
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

/// Returns the bytes of a log's entries, and the digest after them.
fn lines_of_log(log: Vec<Entry>) -> Lines {
    let mut lines = Lines::new();
    let mut state = State::new();
    for (at, entry) in log.into_iter().enumerate() {
        let encoded = EncodedEntry::new(entry, state.level()).unwrap();
        state.apply(&encoded, MEMBERSHIP);
        lines.push((format!("entry-{at}"), encoded.bytes().0.to_vec()));
    }
    lines.push(digest_line(&state));
    lines
}

#[test]
fn a_log_of_version_1_leads_to_its_digest() {
    check("log-v1.hex", &lines_of_log(full_log()));
    let mut lines = lines_of(include_str!("golden/log-v1.hex"));
    let (_, digest) = lines.pop().unwrap();
    let state = replay(lines.iter().map(|(_, bytes)| decode(bytes).unwrap()));
    assert_eq!(digest_line(&state).1, digest);
    assert_eq!(lines_of_rows(&state), lines_of_rows(&full_state()));
}
