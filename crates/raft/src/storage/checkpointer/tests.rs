//! The effects of snapshots and checkpoints on each other, under a manual load.

use std::path::Path;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;

use futures_util::FutureExt;
use openraft::entry::RaftEntry;
use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine};
use seqd_disk::{DiskFile, OsDisk, Space, Tap, Tapped};
use seqd_state::State;
use seqd_state::idgen::WallMs;
use seqd_state::{ClusterMs, Command, Entry as StateEntry, Level, Outcome, SequenceMode, Stamp};
use tempfile::TempDir;

use super::*;
use crate::storage::applied::Applied;
use crate::storage::drain::Drain;
use crate::storage::failure::StorageFailure;
use crate::storage::machine::Machine;
use crate::transfers::Transfers;
use crate::types::{self, Answer, Entry, Proposal, StoredMembership};
use seqd_store::checkpoint::file_store::FileStores;
use seqd_store::checkpoint::{
    self, Between, Change, Checkpoint, Place, RowSource, StateStore, VisitRow,
};
use seqd_store::first_error::FirstError;
use seqd_store::snapshot_file::InstalledMark;
use seqd_store::testing::{create_sequence, found_cluster};

/// Sequences in one large entry. With their descriptions, they have more than half of the bytes
/// that are written at once.
const LARGE: usize = 1500;

/// A log whose every entry is on the disk.
struct Synced;

impl SyncedLog for Synced {
    fn wait_until_synced(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Applies entries in sequence.
#[derive(Clone)]
pub(super) struct Load {
    applied: Arc<Applied>,
    next: Arc<AtomicU64>,
}

impl Load {
    fn new() -> Self {
        let load = Self {
            applied: Arc::new(Applied::new(
                State::new(),
                None,
                StoredMembership::default(),
            )),
            next: Arc::default(),
        };
        load.apply(vec![found_cluster("C", 1)]);
        load
    }

    fn apply(&self, commands: Vec<Command>) {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let stamp = Stamp {
            wall_ms: WallMs(1_800_000_000_000 + index),
            cluster_ms: ClusterMs(index),
        };
        let entry = Proposal::new(StateEntry { stamp, commands }, Level::FIRST).unwrap();
        let entry = Entry::new_normal(types::log_id(1, index), entry);
        let Answer(outcomes) = self.applied.apply(&entry);
        let refused = |outcome: &Outcome| matches!(outcome, Outcome::Refused(_));
        assert!(!outcomes.iter().any(refused));
    }

    /// Creates sequences in one entry.
    pub(super) fn grow(&self, sequences: usize) {
        let index = self.next.load(Ordering::Relaxed);
        let description = "d".repeat(1000);
        let described = |n: usize| {
            let name = format!("s{index}-{n}");
            create_sequence(&name, SequenceMode::Strict, &description)
        };
        self.apply((0..sequences).map(described).collect());
    }

    fn index(&self) -> Option<u64> {
        self.applied.read().applied.map(|id| id.index())
    }
}

/// A folder with an empty store, and the load that is applied to it.
pub(super) struct Bench {
    dir: TempDir,
    pub(super) load: Load,
    disk: Arc<dyn Disk>,
}

impl Bench {
    fn on(disk: Arc<dyn Disk>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("snap")).unwrap();
        let load = Load::new();
        Self { dir, load, disk }
    }

    pub(super) fn new() -> Self {
        Self::on(Arc::new(OsDisk))
    }

    pub(super) fn place(&self) -> Place {
        Place {
            disk: Arc::clone(&self.disk),
            data_dir: self.dir.path().to_owned(),
            cluster_id: "C".to_owned(),
            stores: Arc::new(FileStores),
        }
    }

    /// The worker of the folder. While it reads a snapshot, it applies one entry for each element
    /// of `meanwhile`, with that many sequences.
    pub(super) fn worker(
        &self,
        store: Box<dyn StateStore>,
        mut meanwhile: Vec<usize>,
    ) -> CheckpointWorker {
        let load = self.load.clone();
        let snapshots = self.dir.path().join("snap");
        CheckpointWorker {
            drain: Drain::inline(&self.load.applied),
            store,
            log: Box::new(Synced),
            place: self.place(),
            mark: Arc::new(InstalledMark::open(&self.disk, &snapshots).unwrap()),
            pace: Box::new(move || {
                let sequences = meanwhile.pop();
                sequences
                    .inspect(|sequences| load.grow(*sequences))
                    .is_some()
            }),
            snapshots,
            written: None,
            lost: FirstError::default(),
            on_failure: Box::new(|_| {}),
        }
    }
}

/// A store that takes so long for each write that another large entry is applied meanwhile.
struct Outpaced {
    store: Box<dyn StateStore>,
    load: Load,
    writes: Arc<AtomicUsize>,
}

impl StateStore for Outpaced {
    fn applied(&self) -> Option<Checkpoint> {
        self.store.applied()
    }
    fn write(&mut self, changes: Vec<Change>, applied: &Checkpoint) -> io::Result<()> {
        self.store.write(changes, applied)?;
        let writes = self.writes.fetch_add(1, Ordering::Relaxed);
        assert!(writes < 20, "catching up has no end");
        self.load.grow(LARGE);
        Ok(())
    }
    fn fill(
        &mut self,
        rows: &mut RowSource<'_>,
        applied: &Checkpoint,
        between: &mut Between<'_>,
    ) -> io::Result<()> {
        self.store.fill(rows, applied, between)
    }
    fn stream(&self, visit: &mut VisitRow<'_>) -> io::Result<()> {
        self.store.stream(visit)
    }
    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
    fn disk_bytes(&self) -> u64 {
        0
    }
}

#[test]
fn catching_up_with_a_load_that_outpaces_the_store_has_an_end() {
    let bench = Bench::new();
    let writes = Arc::<AtomicUsize>::default();
    let store = Outpaced {
        store: checkpoint::create_empty(&bench.place()).unwrap(),
        load: bench.load.clone(),
        writes: Arc::clone(&writes),
    };
    let mut worker = bench.worker(Box::new(store), vec![LARGE; 2]);
    worker.build().unwrap();
    assert!(writes.load(Ordering::Relaxed) > 3, "it began to catch up");
    let written = worker.written.map(|id| id.index());
    assert!(
        written < bench.load.index(),
        "the rest is the next checkpoint's"
    );
    worker.checkpoint().unwrap();
    assert_eq!(worker.written.map(|id| id.index() + 1), bench.load.index());
}

/// A disk without room for staged changes.
struct Full;

impl Tap for Full {
    fn write_at(&self, below: &dyn DiskFile, buf: &[u8], offset: u64) -> io::Result<()> {
        // Only staging and snapshots write to it here.
        if offset == 0 && !buf.starts_with(b"seqdsnap") {
            return Err(io::ErrorKind::StorageFull.into());
        }
        below.write_at(buf, offset)
    }
}

#[test]
fn an_export_is_written_from_the_state_and_not_copied_from_a_damaged_snapshot() {
    let bench = Bench::new();
    bench.load.grow(9);
    let store = checkpoint::create_empty(&bench.place()).unwrap();
    let mut worker = bench.worker(store, Vec::new());
    let (kept, _) = worker.build().unwrap();
    let sound = std::fs::read(&kept.path).unwrap();
    let mut bad = sound.clone();
    bad[sound.len() / 2] ^= 1;
    std::fs::write(&kept.path, bad).unwrap();
    let (file, described) = worker.export().unwrap();
    assert_eq!((described.index, described.len), (kept.index, kept.len));
    let mut exported = vec![0; sound.len()];
    file.read_at(&mut exported, 0).unwrap();
    assert!(exported == sound);
}

#[test]
fn a_store_that_has_grown_out_of_proportion_is_rebuilt_and_loses_nothing() {
    let bench = Bench::new();
    let store = checkpoint::create_empty(&bench.place()).unwrap();
    // Entries are applied while the snapshot is read, and while the store is rebuilt from it.
    let mut worker = bench.worker(store, vec![1; 8]);
    bench.load.grow(9);
    worker.checkpoint().unwrap();
    // Writes the row of the time repeatedly, because the file of this store keeps every version.
    while worker.store.disk_bytes() < 256 << 10 {
        bench.load.apply(Vec::new());
        worker.checkpoint().unwrap();
    }
    let (file, _) = worker.build().unwrap();
    let bytes = worker.store.disk_bytes();
    assert!(
        bytes < 128 << 10,
        "the store was not rebuilt: {bytes} bytes"
    );
    worker.checkpoint().unwrap();
    assert_eq!(worker.written.map(|id| id.index()), bench.load.index());
    assert!(worker.written.map(|id| id.index()) > Some(file.index));
    let digest = bench.load.applied.read().state.digest();
    assert_eq!(worker.store.applied().unwrap().digest, digest.0);
    drop(worker);
    let opened = checkpoint::open::<seqd_state::StateLoader>(&bench.place(), false).unwrap();
    let checkpoint::Opened::Good { rows, .. } = opened else {
        panic!("it does not open: {opened:?}");
    };
    assert_eq!(rows.finish().digest(), digest);
}

#[test]
fn the_error_that_lost_changes_is_reported_ever_after() {
    let (disk, tap) = (Arc::new(OsDisk), Arc::new(Full));
    let bench = Bench::on(Arc::new(Tapped { disk, tap }));
    let healthy = Bench::new();
    let store = checkpoint::create_empty(&healthy.place()).unwrap();
    let mut worker = bench.worker(store, vec![1]);
    let built = worker.build().unwrap_err();
    assert_eq!(built.kind(), io::ErrorKind::StorageFull, "{built}");
    // Each later checkpoint fails with this error, which ends the node.
    for _ in 0..2 {
        let later = worker.checkpoint().unwrap_err();
        assert_eq!(later.kind(), io::ErrorKind::StorageFull, "{later}");
    }
}

#[tokio::test]
async fn a_build_that_is_reported_after_a_later_install_lowers_no_floor() {
    let leader = Bench::new();
    (0..9).for_each(|_| leader.load.grow(1));
    let store = checkpoint::create_empty(&leader.place()).unwrap();
    let (sent, _) = leader.worker(store, Vec::new()).build().unwrap();
    let later = sent.index;

    let bench = Bench::new();
    let store = checkpoint::create_empty(&bench.place()).unwrap();
    let checkpointer = Checkpointer::start(bench.worker(store, Vec::new())).unwrap();
    let floor = Arc::<AtomicU64>::default();
    let mut machine = Machine {
        applied: Arc::clone(&bench.load.applied),
        checkpointer: checkpointer.clone(),
        purge_floor: Arc::clone(&floor),
        failure: StorageFailure::default(),
        transfers: Transfers::default(),
    };
    let mut builder = machine.get_snapshot_builder().await;
    let mut built = pin!(builder.build_snapshot());
    {
        // The thread reads the state before it builds anything.
        let _held = bench.load.applied.write();
        assert!(built.as_mut().now_or_never().is_none());
    }
    let snapshot = openraft_snapshot(sent).unwrap();
    let installed = machine.install_snapshot(&snapshot.meta, snapshot.snapshot);
    installed.await.unwrap();
    assert_eq!(floor.load(Ordering::Acquire), later);
    built.await.unwrap();
    assert_eq!(floor.load(Ordering::Acquire), later);
    checkpointer.stop().await.unwrap();
}

/// A disk that reports this many free bytes of a GiB.
struct Free(AtomicU64);

impl Tap for Free {
    fn space(&self, _: &dyn Disk, _: &Path) -> io::Result<Space> {
        let (total, free) = (1 << 30, self.0.load(Ordering::Relaxed));
        Ok(Space { total, free })
    }
}

#[test]
fn a_snapshot_without_room_takes_the_place_of_the_older_kept_one() {
    let tap = Arc::new(Free(AtomicU64::new(1 << 29)));
    let bench = Bench::on(Arc::new(Tapped {
        disk: Arc::new(OsDisk),
        tap: Arc::clone(&tap),
    }));
    let store = checkpoint::create_empty(&bench.place()).unwrap();
    let mut worker = bench.worker(store, Vec::new());
    let mut build = |free| {
        tap.0.store(free, Ordering::Relaxed);
        bench.load.grow(1);
        let built = worker.build_if_room().unwrap();
        let built = built.map(|(file, _)| file.index);
        let kept = snapshot_file::list(&OsDisk, &worker.snapshots).unwrap();
        (built, kept.len())
    };
    let roomy = 1 << 29;
    assert_eq!(build(roomy), (Some(1), 1));
    assert_eq!(build(roomy), (Some(2), 2));
    assert_eq!(build(1 << 20), (None, 1), "the older one takes the room");
    assert_eq!(build(1 << 20), (None, 1), "the newest stays");
    let below_the_floor = snapshot_file::left_free(1 << 30) - 1;
    assert_eq!(
        build(below_the_floor),
        (Some(5), 2),
        "a full node stays full"
    );
    assert_eq!(build(roomy), (Some(6), 2));
}
