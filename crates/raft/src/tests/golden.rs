//! Opens folders of each format, as written by the version that introduced the format.
//!
//! A released folder never changes. `SEQD_WRITE_GOLDEN=1 cargo test -p seqd-raft golden` writes the
//! one of the current format if it is missing, and no other. The expected contents are in this
//! file, as numbers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use seqd_disk::OsDisk;
use seqd_peers::table::{Start, Table};
use seqd_state::idgen::Tick;
use seqd_state::{
    ClusterCommand, Command, NextRequest, NodeId, Outcome, SequenceCommand, SequenceMode,
    SequenceName, State, TakeLease, WorkerCommand,
};
use seqd_store::checkpoint::SledStores;
use seqd_store::folder::Folder;
use seqd_store::records::{self, EntryPayload, LogEntry, PeersRecord};
use seqd_store::testing::{FolderBuilder, copy, create_sequence, found_cluster};
use seqd_wal::Wal;

use crate::storage::opening::open_storage;
use crate::types;

const CLUSTER: &str = "01KGOLDEN00000000000000001";

const NODE: FolderBuilder = FolderBuilder {
    cluster_id: CLUSTER,
    host: "127.0.0.1",
    term_entries: 40,
    // 2026-01-01T00:00:00Z, the epoch of the layouts.
    began_ms: 1_767_225_600_000,
};

/// The last entry, the entries of the snapshots and of the checkpoint, and the last purged entry.
const LAST: u64 = 69;
const SNAPSHOTS: [u64; 2] = [30, 50];
const APPLIED: u64 = 60;
const PURGED: u64 = 25;

/// The digests of the state of format 1 at the checkpoint and at the end of the log.
const DIGEST_APPLIED: &str = "0d6c4314f1958ebf8c47d5be6d23a054";
const DIGEST_LAST: &str = "7d3566fc54a4b154e1872f6789d44d3c";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn name(text: &str) -> SequenceName {
    SequenceName::new(text).unwrap()
}

fn create(text: &str, mode: SequenceMode) -> Command {
    create_sequence(text, mode, &format!("{text}, as format 1 keeps it"))
}

fn lease(owner: &str, node: Option<u64>) -> Command {
    Command::Workers(WorkerCommand::TakeLease(TakeLease {
        tenant: seqd_state::Tenant::OPERATOR,
        layout: "default".to_owned(),
        owner: owner.to_owned(),
        node: node.map(NodeId),
        boot: u64::from(node.is_some()),
        fence: Tick(30_000),
        datacenter: None,
    }))
}

fn command(index: u64) -> Option<Command> {
    Some(match index {
        1 => found_cluster(CLUSTER, 1),
        2 => Command::Cluster(ClusterCommand::RegisterStart {
            node: NodeId(1),
            boot: 1,
            nonce: 11,
        }),
        3 => create("orders", SequenceMode::Strict),
        4 => create("tickets", SequenceMode::Segment),
        5 => create("dropped", SequenceMode::Strict),
        6 => lease("n1", Some(1)),
        7 => lease("an external generator", None),
        8 => Command::Sequences(SequenceCommand::Delete {
            name: name("dropped"),
            if_revision: None,
        }),
        9 => Command::Sequences(SequenceCommand::Advance {
            name: name("orders"),
            to: 1_000,
        }),
        // The first entry of a term.
        index if index % 40 == 0 => return None,
        index if index % 10 == 0 => Command::Sequences(SequenceCommand::GrantSegment {
            name: name("tickets"),
            size: 1_000,
            after: None,
        }),
        _ => Command::Sequences(SequenceCommand::Next(NextRequest {
            name: name("orders"),
            count: index,
        })),
    })
}

fn apply(state: &mut State, entry: &LogEntry) {
    if let EntryPayload::Normal(entry) = &entry.payload {
        for outcome in state.apply(entry, None) {
            assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
        }
    }
}

/// Creates the folder with the same code as a node.
fn make(root: &Path) {
    let folder = NODE.found(root, vec!["01KANCESTOR000000000000001".to_owned()]);
    let mut table = Table::default();
    let start = Start { boot: 3, nonce: 7 };
    let (vote, last) = (types::vote(2, 1, true), types::log_id(2, LAST));
    table.record(
        2,
        start,
        crate::records::synced_position(Some(&vote), Some(&last)),
    );
    let peers = PeersRecord {
        cluster_id: CLUSTER.to_owned(),
        rows: table.rows(),
    };
    folder.write_peers(&peers).unwrap();
    drop(folder);
    let entry = |index| NODE.entry(index, command(index));
    NODE.log(root, (0..=LAST).map(entry), APPLIED, Some(PURGED));
    let mut state = State::new();
    for index in 0..=LAST {
        apply(&mut state, &entry(index));
        if SNAPSHOTS.contains(&index) {
            NODE.snapshot(root, index, &state);
        }
        if index == APPLIED {
            NODE.checkpoint(root, index, &state);
        }
    }
    // The file is empty, and a copy gets its own.
    fs::remove_file(root.join("LOCK")).unwrap();
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

/// Opens the folder like a start, applies the log's entries after the state, and compares.
fn assert_opens(root: &Path, rebuilt: bool) {
    let folder = Folder::open(Arc::new(OsDisk), root).unwrap();
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
    assert_eq!(storage.repairs.rebuilt, rebuilt);
    assert!(!storage.repairs.torn_tail && storage.repairs.snapshots_set_aside == 0);
    assert_eq!(storage.log.vote(), Some(types::vote(2, 1, true)));
    assert_eq!(storage.log.purged(), Some(types::log_id(1, PURGED)));
    assert_eq!(storage.log.last(), Some(types::log_id(2, LAST)));
    let mut state = storage.loaded.state;
    let at = if rebuilt { SNAPSHOTS[1] } else { APPLIED };
    assert_eq!(
        storage.loaded.position,
        Some(types::log_id(NODE.term(at), at))
    );
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

/// The values that a client reads from format 1's folder.
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
fn a_folder_of_version_1_opens_with_its_content() {
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
