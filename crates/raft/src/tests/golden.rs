//! Folders of each format, as the version that introduced it made them, opened by this one.
//!
//! The folders never change. `SEQD_WRITE_GOLDEN=1 cargo test -p seqd-raft golden` makes the one of
//! this format if it is missing, and no other. What must be found in it is said here, in numbers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once, mpsc};

use openraft::entry::RaftEntry;
use seqd_disk::{Disk, OsDisk};
use seqd_state::idgen::{Progression, Tick, WallMs};
use seqd_state::{
    ClusterMs, Command, Entry as StateEntry, Found, NextRequest, NodeId, Outcome, SegmentSizes,
    SequenceDefinition, SequenceMode, SequenceName, Stamp, State, TakeLease,
};
use seqd_wal::{Done, Record, Wal, WalOptions};

use crate::offline::{Verdict, verify_folder};
use crate::peers::file::PeersRecord;
use crate::peers::table::{Shown, Start, Table};
use crate::records::{self, LogIdRecord, StoredMembershipRecord, VoteRecord};
use crate::storage::checkpoint::{self, Checkpoint, Place, SledStores};
use crate::storage::folder::{Folder, Identity};
use crate::storage::opening::open_storage;
use crate::storage::snapshot_file::{SnapshotHeader, SnapshotWriter};
use crate::types::{self, Entry, Member, Membership, Payload, Proposal, StoredMembership};
use crate::wire::messages::Founder;

const CLUSTER: &str = "01KGOLDEN00000000000000001";

/// 2026-01-01T00:00:00Z, the epoch of the layouts.
const EPOCH_MS: u64 = 1_767_225_600_000;

/// The last entry, those of the snapshots, that of the checkpoint, and how far the log is purged.
const LAST: u64 = 69;
const SNAPSHOTS: [u64; 2] = [30, 50];
const APPLIED: u64 = 60;
const PURGED: u64 = 25;

/// The digests of the state of format 1 at the checkpoint and at the end of the log.
const DIGEST_APPLIED: &str = "e4b59675ae95a77b4c279c8de92866be";
const DIGEST_LAST: &str = "a808ce32f418cfeb0dbed8dd087858e2";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn term(index: u64) -> u64 {
    1 + index / 40
}

fn members() -> Vec<Founder> {
    vec![Founder {
        node: 1,
        name: "n1".to_owned(),
        peer: "127.0.0.1:7401".to_owned(),
        http: "http://127.0.0.1:7400".to_owned(),
    }]
}

fn membership() -> Membership {
    let nodes: BTreeMap<_, _> = members()
        .into_iter()
        .map(
            |Founder {
                 node,
                 name,
                 peer,
                 http,
             }| (node, Member { name, peer, http }),
        )
        .collect();
    Membership::new(vec![[1].into_iter().collect()], nodes).unwrap()
}

fn name(text: &str) -> SequenceName {
    SequenceName::new(text).unwrap()
}

fn create(text: &str, mode: SequenceMode) -> Command {
    Command::CreateSequence {
        name: name(text),
        definition: SequenceDefinition {
            mode,
            progression: Progression::new(1, 1, 1, i64::MAX, false).unwrap(),
            segment: SegmentSizes {
                target_ms: 60_000,
                min: 1_000,
                max: 1_000_000,
            },
            description: format!("{text}, as format 1 keeps it"),
        },
    }
}

fn lease(owner: &str, node: Option<u64>) -> Command {
    Command::TakeLease(TakeLease {
        layout: "default".to_owned(),
        owner: owner.to_owned(),
        node: node.map(NodeId),
        boot: u64::from(node.is_some()),
        fence: Tick(30_000),
        datacenter: None,
    })
}

fn command(index: u64) -> Option<Command> {
    Some(match index {
        1 => Command::Found(Found {
            cluster_id: CLUSTER.to_owned(),
            window_ms: 30_000,
            max_peer_skew_ms: 500,
            founders: vec![(NodeId(1), "n1".to_owned())],
        }),
        2 => Command::RegisterStart {
            node: NodeId(1),
            boot: 1,
            nonce: 11,
        },
        3 => create("orders", SequenceMode::Strict),
        4 => create("tickets", SequenceMode::Segment),
        5 => create("dropped", SequenceMode::Strict),
        6 => lease("n1", Some(1)),
        7 => lease("an external generator", None),
        8 => Command::DeleteSequence {
            name: name("dropped"),
            if_revision: None,
        },
        9 => Command::Advance {
            name: name("orders"),
            to: 1_000,
        },
        // The first entry of a term.
        index if index % 40 == 0 => return None,
        index if index % 10 == 0 => Command::GrantSegment {
            name: name("tickets"),
            size: 1_000,
            after: None,
        },
        _ => Command::StrictNext {
            requests: vec![NextRequest {
                name: name("orders"),
                count: index,
            }],
        },
    })
}

/// The entry of an index.
fn entry(index: u64) -> Entry {
    let id = types::log_id(term(index), index);
    let Some(command) = command(index) else {
        return match index {
            0 => Entry::new_membership(id, membership()),
            _ => Entry::new_blank(id),
        };
    };
    let stamp = Stamp {
        wall_ms: WallMs(EPOCH_MS + index),
        cluster_ms: ClusterMs(index),
    };
    let commands = vec![command];
    Entry::new_normal(id, Proposal(Arc::new(StateEntry { stamp, commands })))
}

fn apply(state: &mut State, entry: &Entry) {
    if let Payload::Normal(proposal) = &entry.payload {
        for outcome in state.apply(&proposal.0) {
            assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
        }
    }
}

fn os() -> Arc<dyn Disk> {
    Arc::new(OsDisk)
}

fn log_id(index: u64) -> Vec<u8> {
    records::encode(&LogIdRecord::from(&types::log_id(term(index), index))).unwrap()
}

fn stored_membership() -> Vec<u8> {
    let stored = StoredMembership::new(Some(types::log_id(1, 0)), membership());
    records::encode(&StoredMembershipRecord::from(&stored)).unwrap()
}

/// Makes the folder with the code that a node makes its own with.
fn make(root: &Path) {
    let folder = Folder::open(os(), root).unwrap();
    let identity = Identity {
        cluster_id: CLUSTER.to_owned(),
        node: 1,
        name: "n1".to_owned(),
        members: members(),
        founder: false,
        joined: false,
        ancestors: vec!["01KANCESTOR000000000000001".to_owned()],
    };
    folder.write_identity(&identity).unwrap();
    folder.raise_boot().unwrap();
    let mut table = Table::default();
    let start = Start { boot: 3, nonce: 7 };
    let (vote, last) = (types::vote(2, 1, true), types::log_id(2, LAST));
    table.record(2, start, Shown::new(Some(&vote), Some(&last)));
    let peers = PeersRecord {
        cluster_id: CLUSTER.to_owned(),
        rows: table.rows(),
    };
    folder.write_peers(&peers).unwrap();
    write_log(&folder);
    fs::create_dir(folder.snapshots()).unwrap();
    let mut state = State::new();
    for index in 0..=LAST {
        apply(&mut state, &entry(index));
        if SNAPSHOTS.contains(&index) {
            snapshot(&folder, index, &state);
        }
        if index == APPLIED {
            checkpoint(root, &state);
        }
    }
    drop(folder);
    // It says nothing, and a copy gets its own.
    fs::remove_file(root.join("LOCK")).unwrap();
}

fn write_log(folder: &Folder) {
    let options = WalOptions {
        segment_bytes: 4096,
        ..WalOptions::new(folder.wal())
    };
    let (wal, _) = Wal::open(options).unwrap();
    let wait = |call: &dyn Fn(Done)| {
        let (done, answer) = mpsc::channel();
        call(Box::new(move |result| drop(done.send(result))));
        answer.recv().unwrap().unwrap();
    };
    let vote = VoteRecord::from(&types::vote(2, 1, true));
    wait(&|done| wal.save_vote(records::encode(&vote).unwrap(), done));
    for index in 0..=LAST {
        let bytes = records::encode_entry(&entry(index)).unwrap();
        wait(&|done| {
            let record = Record {
                index,
                bytes: bytes.clone(),
            };
            wal.append(vec![record], done);
        });
    }
    wal.save_committed(log_id(APPLIED));
    wait(&|done| wal.purge(PURGED, log_id(PURGED), done));
    wal.close().unwrap();
}

fn snapshot(folder: &Folder, index: u64, state: &State) {
    let header = SnapshotHeader {
        cluster_id: CLUSTER.to_owned(),
        index,
        term: term(index),
        log_id: log_id(index),
        membership: stored_membership(),
    };
    let mut writer = SnapshotWriter::create(&os(), &folder.snapshots(), header).unwrap();
    for (key, value) in state.rows() {
        writer.row(&key, &value).unwrap();
    }
    writer.finish().unwrap();
}

fn checkpoint(root: &Path, state: &State) {
    let place = Place {
        disk: os(),
        data_dir: root.to_owned(),
        cluster_id: CLUSTER.to_owned(),
        stores: Arc::new(SledStores),
    };
    let applied = Checkpoint {
        index: APPLIED,
        log_id: log_id(APPLIED),
        membership: stored_membership(),
        digest: state.digest().0,
    };
    let store = checkpoint::create_generation(&place, state.rows().map(Ok), &applied).unwrap();
    store.close().unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for found in fs::read_dir(from).unwrap() {
        let found = found.unwrap();
        let to = to.join(found.file_name());
        if found.path().is_dir() {
            copy(&found.path(), &to);
        } else {
            fs::copy(found.path(), to).unwrap();
        }
    }
}

/// A copy of the golden folder of format 1.
fn folder_of_version_1() -> (tempfile::TempDir, PathBuf) {
    static MADE: Once = Once::new();
    let kept = golden("data-v1");
    MADE.call_once(|| {
        if std::env::var_os("SEQD_WRITE_GOLDEN").is_some() && !kept.exists() {
            fs::create_dir_all(kept.parent().unwrap()).unwrap();
            make(&kept);
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("data");
    copy(&kept, &root);
    (dir, root)
}

/// Opens the folder as a start does, applies what the log has beyond the state, and compares.
fn assert_opens(root: &Path, rebuilt: bool) {
    let folder = Folder::open(os(), root).unwrap();
    let identity = folder.identity().unwrap().unwrap();
    assert_eq!((identity.cluster_id.as_str(), identity.node), (CLUSTER, 1));
    assert_eq!(identity.ancestors, ["01KANCESTOR000000000000001"]);
    assert_eq!(folder.raise_boot().unwrap(), 2);
    let peers = folder.peers().unwrap().unwrap();
    assert_eq!((peers.cluster_id.as_str(), peers.rows.len()), (CLUSTER, 1));

    let storage = open_storage(
        &folder,
        identity.cluster_id,
        Arc::new(SledStores),
        Wal::open,
    );
    let storage = storage.unwrap();
    assert_eq!(storage.healed.rebuilt, rebuilt);
    assert!(!storage.healed.torn_tail && storage.healed.snapshots_set_aside == 0);
    assert_eq!(storage.log.vote(), Some(types::vote(2, 1, true)));
    assert_eq!(storage.log.purged(), Some(types::log_id(1, PURGED)));
    assert_eq!(storage.log.last(), Some(types::log_id(2, LAST)));
    let mut state = storage.loaded.state;
    let at = if rebuilt { SNAPSHOTS[1] } else { APPLIED };
    assert_eq!(storage.loaded.position, Some(types::log_id(term(at), at)));
    let voters: Vec<_> = storage.loaded.membership.voter_ids().collect();
    assert_eq!(voters, [1]);

    let rest = storage.wal.read(at + 1..u64::MAX, usize::MAX).unwrap();
    for record in rest {
        let entry = records::decode_entry(&record.bytes).unwrap();
        apply(&mut state, &entry);
        if record.index == APPLIED {
            assert_eq!(state.digest().to_string(), DIGEST_APPLIED);
        }
    }
    assert_eq!(state.digest().to_string(), DIGEST_LAST);
    assert_values(&state);
}

/// What format 1's folder says, to somebody who uses it.
fn assert_values(state: &State) {
    let orders = state.sequence(&name("orders")).unwrap();
    assert_eq!(orders.next_value(), Some(3160));
    let tickets = state.sequence(&name("tickets")).unwrap();
    assert_eq!(tickets.next_value(), Some(5001));
    assert!(state.sequence(&name("dropped")).is_none());
    let leases = state.leases().map(|lease| {
        assert_eq!(
            (lease.layout, lease.record.fence),
            ("default", Tick(30_000))
        );
        lease.record.owner.as_str()
    });
    let owners: Vec<_> = leases.collect();
    assert_eq!(owners, ["n1", "an external generator"]);
    let start = state.node(NodeId(1)).unwrap().start.unwrap();
    assert_eq!((start.boot, start.nonce), (1, 11));
}

#[test]
fn a_folder_of_version_1_opens_and_holds_what_it_held() {
    let (_dir, root) = folder_of_version_1();
    assert_opens(&root, false);
}

#[test]
fn a_folder_of_version_1_without_its_checkpoint_is_rebuilt_to_the_same_state() {
    let (_dir, root) = folder_of_version_1();
    fs::remove_dir_all(root.join("state-1")).unwrap();
    fs::remove_file(root.join("CURRENT")).unwrap();
    assert_opens(&root, true);
}

#[test]
fn every_byte_of_a_folder_of_version_1_verifies() {
    let (_dir, root) = folder_of_version_1();
    let mut bad = Vec::new();
    let mut checks = 0;
    verify_folder(&root, &mut |check| {
        checks += 1;
        if check.verdict == Verdict::Bad {
            bad.push(check.clone());
        }
    })
    .unwrap();
    assert!(bad.is_empty() && checks > 5, "{checks} checks: {bad:#?}");
}
