//! The bytes of rows and of whole logs, held as files, and the digests that they lead to.
//!
//! What a log of an earlier version leads to never changes, and neither do the rows of a level.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod files;
mod support;

use files::{Lines, check, hex, lines_of, path_of, unhex};
use seqd_idgen::{Progression, Tick, WorkerId};
use seqd_state::{
    AccessCommand, AccessId, AcquireLock, Attempt, BeginKey, ClusterCommand, ClusterOutcome,
    Command, EncodedEntry, Entry, FencingToken, KeyClaim, KeyCommand, KeyName, KeySpace, LeaseId,
    Level, LockCommand, LockName, LogPosition, NodeId, Nonce, Outcome, Restoration, SecretKey,
    SequenceMode, State, TakeLease, WorkerCommand, decode,
};
use support::commands::*;
use support::{counting, definition, name, stamp};

/// Of the log's only membership.
const MEMBERSHIP: Option<LogPosition> = Some(LogPosition { term: 1, index: 0 });

/// A log that leads to a row of every kind in every shape.
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

/// The same log in a cluster at level 2, from which on it is written in version 2.
fn full_log_at_level_2() -> Vec<Entry> {
    let mut log = full_log();
    log.insert(1, at_once(raise(Level::FRAMES)));
    log
}

/// The same at level 3, with what that brings.
fn full_log_at_level_3() -> Vec<Entry> {
    let mut log = full_log_at_level_2();
    log.insert(2, at_once(raise(Level::TOKENS)));
    let key = SecretKey([7; 32]);
    log.insert(3, at_once(ClusterCommand::KeepSecret { key }));
    log
}

/// The same with tokens, one of them revoked.
fn full_log_with_tokens() -> Vec<Entry> {
    let mut log = full_log_at_level_3();
    let revoke = AccessCommand::Revoke { id: AccessId(2) };
    let commands = [
        create_token(AccessId(1)),
        create_token(AccessId(2)),
        revoke.into(),
    ];
    log.push(Entry {
        stamp: stamp(0, 0),
        commands: commands.into(),
    });
    log
}

/// The same at level 4: a layout of the cluster's own, and a lease that another one follows.
fn full_log_at_level_4() -> Vec<Entry> {
    let mut log = full_log_with_tokens();
    log.push(at_once(raise(Level::LAYOUTS)));
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
    let leases = [
        create_layout("short", 39),
        take("pod-1", 3_000),
        release("short".to_owned(), worker, LeaseId(8), Some(Tick(90))),
    ];
    log.push(Entry {
        stamp: stamp(900, 900),
        commands: leases.into(),
    });
    log.push(Entry {
        stamp: stamp(1_000, 1_000),
        commands: vec![take("pod-1", 3_090)],
    });
    log
}

/// The same at level 5 with keys and one-time tokens in every shape. The log is that of the keys alone.
fn full_log_with_keys() -> Vec<Entry> {
    let mut log = full_log_at_level_4();
    log.push(at_once(raise(Level::LOCKS)));
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
    log.push(Entry {
        stamp: stamp(1_100, 1_100),
        commands,
    });
    log
}

/// The same at level 5: a lock that is held and waited for, one that is shared, and one that is
/// delayed.
fn full_log_at_level_5() -> Vec<Entry> {
    let mut log = full_log_at_level_4();
    log.push(at_once(raise(Level::LOCKS)));
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
    let commands = [
        lock("delayed", "pod-1", 1, false, 0),
        lock("jobs/nightly 1", "pod-1", 2, false, 0),
        lock("jobs/nightly 1", "pod-2", 3, false, 9_000),
        lock("shared", "pod-1", 4, true, 0),
        lock("shared", "pod-2", 5, true, 0),
        renew("jobs/nightly 1", 11).into(),
        renew("shared", 13).into(),
    ];
    log.push(Entry {
        stamp: stamp(1_100, 1_100),
        commands: commands.into(),
    });
    log.push(Entry {
        stamp: stamp(2_200, 2_200),
        commands: Vec::new(),
    });
    log
}

fn raise(to: Level) -> ClusterCommand {
    let membership = MEMBERSHIP.unwrap();
    ClusterCommand::RaiseLevel { to, membership }
}

fn at_once(command: ClusterCommand) -> Entry {
    let commands = vec![command.into()];
    let stamp = stamp(0, 0);
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
    check("rows-v1.hex", &lines_of_rows(&full_state()));
    for (file, log, level) in [
        ("rows-level-2.hex", full_log_at_level_2(), Level::FRAMES),
        ("rows-level-3.hex", full_log_at_level_3(), Level::TOKENS),
        ("rows-tokens.hex", full_log_with_tokens(), Level::TOKENS),
        ("rows-level-4.hex", full_log_at_level_4(), Level::LAYOUTS),
        ("rows-keys.hex", full_log_with_keys(), Level::LOCKS),
        ("rows-level-5.hex", full_log_at_level_5(), Level::LOCKS),
    ] {
        let state = replay(log);
        check(file, &lines_of_rows(&state));
        let read_back = State::from_rows(state.rows()).unwrap();
        assert_eq!(read_back.level(), level);
        assert_eq!(read_back.secret(), state.secret());
        assert!(read_back.tokens().eq(state.tokens()));
        assert_eq!(lines_of_rows(&read_back), lines_of_rows(&state));
    }
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
        written: None,
    };
    state.restore(&restoration).unwrap();
    let at = stamp(40, 40);
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

/// The bytes of a log's entries, each as its level writes it, and the digest that they lead to.
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

fn assert_leads_to_its_digest(golden: &str) -> State {
    let mut lines = lines_of(golden);
    let (_, digest) = lines.pop().unwrap();
    let state = replay(lines.iter().map(|(_, bytes)| decode(bytes).unwrap()));
    assert_eq!(digest_line(&state).1, digest);
    state
}

/// As the program of version 1 writes it: its `StrictNext` has two requests. The digest is that of
/// `rows-v1.hex`, which that program wrote.
#[test]
fn a_log_of_version_1_leads_to_its_digest() {
    let state = assert_leads_to_its_digest(include_str!("golden/log-v1.hex"));
    assert_eq!(state.level(), Level::FIRST);
    assert_eq!(lines_of_rows(&state), lines_of_rows(&full_state()));
}

#[test]
fn a_log_of_version_2_leads_to_its_digest() {
    check("log-v2.hex", &lines_of_log(full_log_at_level_2()));
    check("log-level-3.hex", &lines_of_log(full_log_at_level_3()));
    check("log-tokens.hex", &lines_of_log(full_log_with_tokens()));
    check("log-level-4.hex", &lines_of_log(full_log_at_level_4()));
    check("log-keys.hex", &lines_of_log(full_log_with_keys()));
    check("log-level-5.hex", &lines_of_log(full_log_at_level_5()));
    for (file, level) in [
        ("log-v2.hex", Level::FRAMES),
        ("log-level-3.hex", Level::TOKENS),
        ("log-tokens.hex", Level::TOKENS),
        ("log-level-4.hex", Level::LAYOUTS),
        ("log-keys.hex", Level::LOCKS),
        ("log-level-5.hex", Level::LOCKS),
    ] {
        let golden = std::fs::read_to_string(path_of(file)).unwrap();
        let state = assert_leads_to_its_digest(&golden);
        assert_eq!(state.level(), level);
    }
}

#[test]
fn a_cluster_at_level_1_writes_what_the_first_program_reads() {
    for (label, bytes) in lines_of_log(full_log()) {
        let is_entry = label.starts_with("entry");
        assert!(
            !is_entry || bytes[..2] == [1, 1],
            "{label} is in version {}",
            bytes[1]
        );
    }
}
