//! The bytes of all messages between nodes, kept in a file.
//!
//! A line never changes, because nodes of two versions exchange messages during an upgrade. A
//! message that changes its shape gets a new version and a new line. `SEQD_WRITE_GOLDEN=1` writes
//! the file if it is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use seqd_peers::levels::LevelRange;
use seqd_peers::wire::envelope::Envelope;
use seqd_peers::wire::hello::{
    self, Adopt, Hello, HelloIdentity, HelloReply, HelloVerdict, Prepare, Standing, Taken,
};
use seqd_state::codec::frame::{self, Framed};
use seqd_state::codec::{Versioned, decode, encode};
use seqd_state::{
    ClusterOutcome, Draw, DrawFrom, Drawn, EncodedEntry, Entry, Level, NodeId, Refusal,
    SequenceRefusal, Stamp, ValueRange,
};
use seqd_store::records::{
    Ballot, EntryPayload, LogEntry, LogIdRecord, Member, MembershipRecord, PeerRecord, Start,
    StoredMembershipRecord, SyncedPosition, VoteRecord,
};

use super::harness::{create, name};
use crate::handle::{ChangeOfMembers, MemberError, MemberStatus, NodeReport, ProposeError, Role};
use crate::messages::*;

/// The lines of the file (names, kinds, versions and bytes), and the kinds.
#[derive(Default)]
struct Lines(String, BTreeSet<u8>);

impl Lines {
    fn add<M: Versioned>(&mut self, message: &M) {
        let bytes = encode(message).unwrap();
        let read: M = decode(&bytes).unwrap();
        assert_eq!(encode(&read).unwrap(), bytes);
        let name = std::any::type_name::<M>().rsplit("::").next().unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let (kind, version) = (M::KIND, M::VERSION);
        writeln!(self.0, "{name} {kind} {version} {hex}").unwrap();
        self.1.insert(kind);
    }
}

const LAST: LogIdRecord = LogIdRecord { term: 3, index: 17 };
const LEVELS: LevelRange = LevelRange {
    oldest: 1,
    newest: 2,
};
const VOTE: VoteRecord = VoteRecord {
    term: 4,
    node: 2,
    committed: true,
};

fn text(text: &str) -> String {
    text.to_owned()
}

fn start() -> Start {
    Start {
        boot: 5,
        nonce: 0x0102_0304_0506_0708,
    }
}

fn synced() -> SyncedPosition {
    SyncedPosition {
        vote: Some(Ballot {
            term: 4,
            committed: false,
            node: 3,
        }),
        last: Some(LAST),
    }
}

fn row() -> (u64, PeerRecord) {
    let record = PeerRecord {
        start: start(),
        synced: synced(),
        before: SyncedPosition::default(),
    };
    (3, record)
}

fn membership() -> MembershipRecord {
    MembershipRecord {
        configs: vec![[1].into(), [1, 2].into()],
        nodes: [(1, member("a")), (2, member("b"))].into(),
    }
}

fn member(name: &str) -> Member {
    Member {
        name: text(name),
        peer: format!("{name}:7001"),
        http: format!("http://{name}:7000"),
    }
}

fn report() -> NodeReport {
    NodeReport {
        workers: [(text("default"), 9)].into(),
        more_workers: [(text("default"), vec![10, 12])].into(),
        ids_per_second: 7,
        ready: true,
        draining: false,
    }
}

fn identity() -> HelloIdentity {
    HelloIdentity {
        cluster_id: text("C"),
        ancestors: vec![text("B")],
        node: 2,
        start: start(),
        began: synced(),
    }
}

fn entries() -> Vec<seqd_store::records::EntryRecord> {
    let entry = Entry {
        stamp: Stamp::default(),
        commands: vec![create("orders")],
    };
    let entry = EncodedEntry::new(entry, Level::FIRST).unwrap();
    let payloads = [
        EntryPayload::Blank,
        EntryPayload::Membership(membership()),
        EntryPayload::Normal(Arc::new(entry)),
    ];
    let records = payloads.map(|payload| LogEntry { id: LAST, payload }.record());
    records.into()
}

fn consensus(lines: &mut Lines) {
    lines.add(&Envelope {
        cluster_id: text("C"),
        from: 1,
        to: 2,
        start: start(),
    });
    lines.add(&AppendRequest {
        vote: VOTE,
        prev: Some(LAST),
        entries: entries(),
        commit: Some(LAST),
        synced: None,
        acknowledged: vec![row()],
        without_quorum_ms: Some(40),
    });
    lines.add(&AppendReply::Success);
    lines.add(&AppendReply::Partial(Some(LAST)));
    lines.add(&AppendReply::Conflict);
    lines.add(&AppendReply::HigherVote(VOTE));
    lines.add(&BallotRequest {
        vote: VOTE,
        last: Some(LAST),
        leadership_transfer: true,
    });
    lines.add(&BallotReply {
        vote: VOTE,
        granted: true,
        last: None,
    });
    lines.add(&TransferRequest {
        from: VOTE,
        to: 3,
        last: Some(LAST),
    });
    lines.add(&TransferReply::Accepted);
    lines.add(&TransferReply::VoteChanged {
        expected: VOTE,
        actual: VOTE,
    });
    lines.add(&TransferReply::LogNotFlushed {
        expected: Some(LAST),
        actual: None,
    });
    lines.add(&snapshot_head());
    lines.add(&SnapshotReply { vote: VOTE });
}

fn snapshot_head() -> SnapshotHead {
    SnapshotHead {
        vote: VOTE,
        last: Some(LAST),
        membership: StoredMembershipRecord {
            log_id: Some(LAST),
            membership: membership(),
        },
        len: 1 << 20,
    }
}

fn rest_of_snapshot(lines: &mut Lines) {
    lines.add(&AskSnapshotKept);
    let (bytes, crc) = (300_000, 0xdead_beef);
    lines.add(&SnapshotKept { bytes, crc });
    let head = snapshot_head();
    lines.add(&SnapshotRest { head, from: bytes });
}

fn proposals(lines: &mut Lines) {
    lines.add(&Forward {
        commands: vec![create("orders").to_frame().unwrap()],
        timeout_ms: 3000,
    });
    let founded = ClusterOutcome::Founded.to_frame().unwrap();
    lines.add(&ForwardReply(Ok(vec![founded])));
    lines.add(&ForwardReply(Err(ForwardRefusal::NotLeader)));
    let detail = || text("why");
    for error in [
        ProposeError::NoQuorum { detail: detail() },
        ProposeError::OutcomeUnknown { detail: detail() },
        ProposeError::Overloaded { limit: 8 },
        ProposeError::Stopping,
        ProposeError::NodeRemoved,
        ProposeError::AboveLevel { detail: detail() },
        ProposeError::TooLarge { detail: detail() },
        ProposeError::OverloadedBytes { limit_bytes: 8 },
    ] {
        lines.add(&ForwardReply(Err(ForwardRefusal::Propose(error))));
    }
    lines.add(&ReadIndex {
        promised: Promise { term: 5 },
        timeout_ms: 500,
    });
    lines.add(&ReadIndexReply(Ok(ReadPoint {
        index: 17,
        cluster_ms: seqd_state::ClusterMs(19),
    })));
    lines.add(&ReadIndexReply(Err(ForwardRefusal::NotLeader)));
}

fn members(lines: &mut Lines) {
    let name = || text("d");
    for change in [
        MemberChange::Add {
            name: name(),
            peer: text("d:7001"),
            http: None,
        },
        MemberChange::Promote { name: name() },
        MemberChange::Remove { name: name() },
        MemberChange::MoveLeader { to: Some(name()) },
        MemberChange::Update {
            name: name(),
            peer: Some(text("d:7002")),
            http: None,
        },
    ] {
        let timeout_ms = 3000;
        lines.add(&ChangeRequest { change, timeout_ms });
    }
    for (role, known) in [
        (Role::Leader, true),
        (Role::Follower, false),
        (Role::Learner, true),
    ] {
        lines.add(&ChangeReply(Ok(Changed::Member(Box::new(MemberStatus {
            name: name(),
            id: NodeId(4),
            role,
            http: text("http://d:7000"),
            peer: text("d:7001"),
            reachable: known,
            applied: known.then_some(17),
            behind: Some(2),
            report: known.then(report),
            version: known.then(|| text("0.1.0")),
            clock_offset_ms: known.then_some(-2),
            levels: known.then_some(LEVELS),
        })))));
    }
    lines.add(&ChangeReply(Ok(Changed::Leader(name()))));
    lines.add(&ChangeReply(Err(ChangeRefusal::NotLeader)));
    let detail = || text("why");
    for error in [
        MemberError::NotFound {
            name: name(),
            known: text("a, b"),
        },
        MemberError::AlreadyExists { detail: detail() },
        MemberError::Unsafe { detail: detail() },
        MemberError::InProgress,
        MemberError::LearnerLagging { detail: detail() },
        MemberError::Unfit { detail: detail() },
        MemberError::Propose(ProposeError::Stopping),
    ] {
        lines.add(&ChangeReply(Err(ChangeRefusal::Member(error))));
    }
    lines.add(&Watch);
    lines.add(&Ping {
        name: text("a"),
        version: text("0.1.0"),
        applied: 17,
        behind: 3,
        report: report(),
        wall_ms: 1_795_000_000_000,
        acknowledged: vec![row()],
        disk_hangs: true,
        disk_low: false,
        levels: LEVELS,
    });
}

fn handshake(lines: &mut Lines) {
    let peers = || BTreeMap::from([(text("a"), text("a:7001"))]);
    for identity in [None, Some(identity())] {
        lines.add(&Hello {
            name: text("a"),
            peers: peers(),
            http: text("http://a:7000"),
            levels: LEVELS,
            identity,
        });
    }
    let standings = [
        Standing::Empty,
        Standing::Prepared {
            cluster_id: text("C"),
            node: 2,
        },
        Standing::Member {
            cluster_id: text("C"),
            node: 2,
            members: vec![text("a"), text("b")],
            leader: Some(text("a")),
        },
    ];
    let verdicts = [
        HelloVerdict::Welcome,
        HelloVerdict::Foreign,
        HelloVerdict::Stale { why: text("why") },
        HelloVerdict::Removed,
        HelloVerdict::Superseded { by: text("D") },
        HelloVerdict::LeftBehind { level: Level(3) },
    ];
    for (at, verdict) in verdicts.into_iter().enumerate() {
        lines.add(&HelloReply {
            name: text("b"),
            peers: peers(),
            http: text("http://b:7000"),
            levels: LEVELS,
            standing: standings[at % 3].clone(),
            votes: at > 0,
            identity: (at > 0).then(identity),
            verdict,
        });
    }
    lines.add(&Prepare {
        cluster_id: text("C"),
        founders: vec![(1, member("a"))],
        you: text("a"),
    });
    lines.add(&Adopt {
        cluster_id: text("C"),
        node: 4,
        you: text("d"),
        members: vec![(1, member("a"))],
        ancestors: vec![text("B")],
    });
    lines.add(&Taken::Yes {
        http: text("http://d:7000"),
    });
    lines.add(&Taken::Used);
    lines.add(&Taken::No { why: text("why") });
}

fn stops(lines: &mut Lines) {
    for stopping in [Stopping::No, Stopping::Holds, Stopping::GaveBack] {
        lines.add(&stopping);
    }
}

fn drains(lines: &mut Lines) {
    let name = || text("d");
    for change in [
        MemberChange::Drain {
            name: name(),
            drains: true,
        },
        MemberChange::TryOut(ChangeOfMembers::Drain {
            name: name(),
            drains: false,
        }),
    ] {
        let timeout_ms = 3000;
        lines.add(&ChangeRequest { change, timeout_ms });
    }
}

fn tried_out(lines: &mut Lines) {
    let name = || text("d");
    for change in [
        ChangeOfMembers::Add {
            name: name(),
            peer: text("d:7001"),
            http: None,
        },
        ChangeOfMembers::Promote { name: name() },
        ChangeOfMembers::Remove { name: name() },
        ChangeOfMembers::MoveLeader { to: None },
    ] {
        let change = MemberChange::TryOut(change);
        let timeout_ms = 3000;
        lines.add(&ChangeRequest { change, timeout_ms });
    }
    lines.add(&ChangeReply(Ok(Changed::Fits(Some(name())))));
}

fn demoted(lines: &mut Lines) {
    let name = text("d");
    let tried = ChangeOfMembers::Demote { name: name.clone() };
    for change in [MemberChange::Demote { name }, MemberChange::TryOut(tried)] {
        let timeout_ms = 3000;
        lines.add(&ChangeRequest { change, timeout_ms });
    }
}

fn draws(lines: &mut Lines) {
    let from = DrawFrom::Sequence(name("order"));
    let order = Draw { from, count: 3 };
    let from = DrawFrom::Timestamps;
    let timestamps = Draw { from, count: 1 };
    lines.add(&DrawRequest {
        draws: vec![order, timestamps],
        promised: Promise { term: 5 },
        timeout_ms: 3000,
        waits: true,
    });
    lines.add(&Promise { term: 5 });
    let range = ValueRange {
        first: 7,
        last: 11,
        count: 3,
    };
    let refusal = SequenceRefusal::SequenceNotFound {
        name: name("order"),
    };
    let mut refusal = frame::write_all(&[Refusal::from(refusal)]).unwrap();
    let responses = vec![
        DrawResponse::Drawn(Drawn {
            range,
            increment: 2,
        }),
        DrawResponse::Refused(refusal.remove(0)),
        DrawResponse::Ahead { ms: 250 },
        DrawResponse::ClockUnknown,
        DrawResponse::Failed(ProposeError::Stopping),
        DrawResponse::Short,
    ];
    lines.add(&DrawReply(Ok(responses)));
    lines.add(&DrawReply(Err(ForwardRefusal::NotLeader)));
}

/// Trials that are nested thousands of times would overflow any stack.
#[test]
fn a_trial_of_a_trial_is_malformed() {
    let trials = 4_u32.to_le_bytes().repeat(1 << 20);
    let nested = decode::<ChangeRequest>(&[&[ChangeRequest::KIND, 1][..], &trials].concat());
    let error = nested.err().unwrap();
    assert!(error.to_string().contains("malformed"), "{error}");
}

#[test]
fn the_bytes_of_messages_are_fixed() {
    let mut lines = Lines::default();
    for part in [consensus, proposals, members, handshake, rest_of_snapshot] {
        part(&mut lines);
    }
    for part in [stops, tried_out, draws, drains, demoted] {
        part(&mut lines);
    }
    let json = b"{}".to_vec();
    lines.add(&Facts { json });
    lines.add(&hello::AskStart);
    lines.add(&hello::OwnStart { start: start() });
    let Lines(now, kinds) = lines;
    let all = KINDS.iter().chain(hello::KINDS).copied();
    let all: BTreeSet<u8> = all.chain([Envelope::KIND]).collect();
    assert_eq!(kinds, all, "each message has a sample");

    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/messages.hex");
    if std::env::var_os("SEQD_WRITE_GOLDEN").is_some() && !kept.exists() {
        std::fs::write(&kept, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&kept).unwrap();
    for (kept, now) in kept.lines().zip(now.lines()) {
        assert_eq!(now, kept);
    }
    assert_eq!(kept.lines().count(), now.lines().count());
}
