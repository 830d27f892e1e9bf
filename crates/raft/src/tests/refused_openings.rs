//! A refused folder stays unchanged, so that a folder that was only misread starts again. A folder
//! that does not need its bad part is not refused.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use seqd_disk::{Disk, OsDisk, Tap, Tapped};
use seqd_state::State;
use seqd_wal::Wal;
use tempfile::TempDir;

use crate::handle::Stop;
use crate::storage::opening::{Storage, open_storage};
use crate::types::{Entry, log_id};
use seqd_store::checkpoint::SledStores;
use seqd_store::folder::Folder;
use seqd_store::records::EntryPayload;
use seqd_store::snapshot_file::InstalledMark;
use seqd_store::testing::{FolderBuilder, found_cluster, of_a_newer_program};

const CLUSTER: &str = "01REFUSED";

const NODE: FolderBuilder = FolderBuilder {
    cluster_id: CLUSTER,
    host: "n1",
    term_entries: 50,
    began_ms: 1_800_000_000_000,
};

/// The entry of the snapshot and the checkpoint.
const HELD: u64 = 40;

/// A folder with a snapshot and a checkpoint of entry 40. Its log ends with entry `last` and is
/// purged up to `purged`.
fn folder(last: u64, purged: Option<u64>) -> (TempDir, PathBuf) {
    folder_with_log(&NODE, last, last.min(HELD), purged)
}

/// Like `folder`, with the log of another node.
fn folder_with_log(
    node: &FolderBuilder,
    last: u64,
    committed: u64,
    purged: Option<u64>,
) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("node");
    drop(NODE.found(&root, Vec::new()));
    let founded = found_cluster(CLUSTER, 1);
    let entry = |index| node.entry(index, (index == 1).then(|| founded.clone()));
    node.log(&root, (0..=last).map(entry), committed, purged);
    let mut state = State::new();
    if let EntryPayload::Normal(entry) = &entry(1).payload {
        state.apply(entry, None);
    }
    NODE.snapshot(&root, HELD, &state);
    NODE.checkpoint(&root, HELD, &state);
    (dir, root)
}

fn open(disk: Arc<dyn Disk>, root: &Path) -> Result<Storage, Stop> {
    let folder = Folder::open(disk, root).unwrap();
    open_storage(&folder, CLUSTER.to_owned(), Arc::new(SledStores), Wal::open)
}

/// Opens the folder and closes it again.
fn opens(root: &Path) -> u64 {
    let storage = open(Arc::new(OsDisk), root).unwrap();
    storage.wal.close().unwrap();
    storage.loaded.store.close().unwrap();
    storage.repairs.snapshots_set_aside
}

fn snapshots(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(root.join("snap")).unwrap().flatten();
    files
        .map(|file| {
            let name = file.file_name().into_string().unwrap();
            (name, fs::read(file.path()).unwrap())
        })
        .collect()
}

/// A disk that fails all reads of snapshots.
struct NoSnapshots;

impl Tap for NoSnapshots {
    fn read(&self, path: &Path, below: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        if path.extension().is_some_and(|end| end == "snap") {
            return Err(rustix::io::Errno::IO.into());
        }
        below()
    }
}

#[test]
fn a_snapshot_that_cannot_be_done_without_keeps_its_name() {
    let (_dir, root) = folder(60, Some(30));
    fs::remove_file(root.join("CURRENT")).unwrap();
    let before = snapshots(&root);
    let disk = Arc::new(Tapped {
        disk: Arc::new(OsDisk),
        tap: Arc::new(NoSnapshots),
    });
    let refused = open(disk, &root).err().unwrap();
    assert_eq!((refused.exit(), refused.code()), (10, "corrupt"));
    assert!(
        refused.message.contains("40-1.snap: in the frame"),
        "{refused:?}"
    );
    assert!(
        refused.message.contains("Input/output error"),
        "{refused:?}"
    );
    assert!(snapshots(&root) == before);
    assert_eq!(opens(&root), 0);
}

#[test]
fn an_installed_snapshot_that_is_bad_is_done_without_where_the_checkpoint_holds_it() {
    let (_dir, root) = folder(20, None);
    let snap = root.join("snap");
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    // The snapshot's installation has progressed to the checkpoint. The log is still to be purged.
    let without = open(Arc::clone(&disk), &root).err().unwrap();
    assert!(
        without.message.contains("the log was lost or is older"),
        "{without:?}"
    );
    InstalledMark::open(&disk, &snap)
        .unwrap()
        .set(HELD, 1)
        .unwrap();
    let file = snap.join("40-1.snap");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let before = snapshots(&root);
    assert_eq!(opens(&root), 1);
    assert!(before.contains_key("40-1.snap") && snapshots(&root).contains_key("40-1.snap.bad"));
    // The mark stays until openraft has purged the log, and the opening remains possible until
    // then.
    assert_eq!(opens(&root), 0);
}

#[tokio::test]
async fn an_installed_snapshot_may_cover_a_tail_of_a_later_term() {
    // Entries 5 to 7 of term 2 were never committed. The snapshot of entry 40 is of term 1.
    let term_entries = 5;
    let other = FolderBuilder {
        term_entries,
        ..NODE
    };
    let (_dir, root) = folder_with_log(&other, 7, 4, None);
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let mark = InstalledMark::open(&disk, &root.join("snap")).unwrap();
    mark.set(HELD, 1).unwrap();
    let storage = open(disk, &root).unwrap();
    let (mut log, position) = (storage.log, log_id(1, HELD));
    assert_eq!(storage.loaded.position, Some(position));
    // From this comparison, openraft concludes that the log must be purged.
    assert!(log.last() < storage.loaded.position);
    log.purge(position).await.unwrap();
    let next = [Entry::new_blank(log_id(3, HELD + 1))];
    log.append(next, IOFlushed::noop()).await.unwrap();
    assert_eq!(log.last(), Some(log_id(3, HELD + 1)));
}

#[tokio::test]
async fn a_tail_of_a_later_term_is_left_out_before_the_snapshot_that_covers_it_is_installed() {
    // As above, but the node crashed before the checkpoint contained the snapshot.
    let other = FolderBuilder {
        term_entries: 5,
        ..NODE
    };
    let (_dir, root) = folder_with_log(&other, 7, 4, None);
    let mut state = State::new();
    if let EntryPayload::Normal(entry) = &NODE.entry(1, Some(found_cluster(CLUSTER, 1))).payload {
        state.apply(entry, None);
    }
    NODE.checkpoint(&root, 4, &state);
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let mark = InstalledMark::open(&disk, &root.join("snap")).unwrap();
    mark.set(HELD, 1).unwrap();
    let storage = open(disk, &root).unwrap();
    let (mut log, position) = (storage.log, log_id(1, HELD));
    assert_eq!(storage.loaded.position, Some(log_id(1, 4)));
    // openraft installs the snapshot. From this comparison, it then concludes that the log must be
    // purged.
    assert!(log.last() < Some(position));
    storage.purge_floor.store(HELD, Ordering::Release);
    log.purge(position).await.unwrap();
    let next = [Entry::new_blank(log_id(3, HELD + 1))];
    log.append(next, IOFlushed::noop()).await.unwrap();
    assert_eq!(log.last(), Some(log_id(3, HELD + 1)));
}

#[test]
fn a_snapshot_of_a_newer_program_refuses_the_start_before_the_checkpoint_is_touched() {
    let (_dir, root) = folder(60, None);
    fs::write(root.join("CURRENT"), "nonsense").unwrap();
    let file = root.join("snap/40-1.snap");
    let of_this_version = fs::read(&file).unwrap();
    fs::write(&file, of_a_newer_program(&of_this_version)).unwrap();
    let refused = open(Arc::new(OsDisk), &root).err().unwrap();
    assert_eq!(
        (refused.exit(), refused.code()),
        (9, "newer-format"),
        "{refused:?}"
    );
    let way_out = "this program supports versions up to 1; install the newer program again";
    assert!(refused.message.contains(way_out), "{refused:?}");
    assert!(root.join("state-1").is_dir());
    fs::write(&file, of_this_version).unwrap();
    assert_eq!(opens(&root), 0);
}
