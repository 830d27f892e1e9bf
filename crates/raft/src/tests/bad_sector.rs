//! A disk that can no longer read one file or the names of one folder. The node performs everything
//! that does not need them, and reports the true cause of everything else.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use seqd_disk::{Disk, OsDisk, Tap, Tapped};

use super::harness::{
    Cluster, assert_ends, caught_up, create, deadline, learner, next, stopped, wait,
};
use super::transfer::purged_up_to_snapshots;
use crate::replica::Replica;
use seqd_store::folder::Folder;
use seqd_store::snapshot_file;

/// Fails reads of the file or folder with this path, if one is set.
#[derive(Default)]
struct BadSector(Mutex<Option<PathBuf>>);

impl BadSector {
    fn is_at(&self, path: &Path) -> io::Result<()> {
        match self.0.lock().unwrap().as_deref() {
            Some(bad) if bad == path => Err(rustix::io::Errno::IO.into()),
            _ => Ok(()),
        }
    }

    fn comes_at(&self, path: Option<&Path>) {
        *self.0.lock().unwrap() = path.map(Path::to_owned);
    }
}

impl Tap for BadSector {
    fn read(&self, path: &Path, below: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        self.is_at(path).and_then(|()| below())
    }

    fn list(&self, below: &dyn Disk, path: &Path) -> io::Result<Vec<String>> {
        self.is_at(path).and_then(|()| below.list(path))
    }
}

/// A lone node on a disk that is intact so far.
async fn one_node() -> (Cluster, Arc<BadSector>) {
    let sector = Arc::new(BadSector::default());
    (Cluster::on_disk(&sector).await, sector)
}

/// The index of openraft's newest snapshot.
async fn newest(replica: &Replica) -> Option<u64> {
    let snapshot = replica.raft.get_snapshot().await.unwrap()?;
    Some(snapshot.meta.last_log_id?.index())
}

/// Takes a snapshot of everything applied. Returns its index.
async fn take_snapshot(cluster: &Cluster, sequence: &str) -> u64 {
    let raft = cluster.raft(0);
    let created = raft.propose(vec![create(sequence)], deadline());
    created.await.unwrap();
    let applied = raft.status().applied;
    let replica = raft.node().replica().unwrap();
    replica.raft.trigger().snapshot().await.unwrap();
    wait("the snapshot is taken", || async {
        newest(replica).await.is_some_and(|index| index >= applied)
    })
    .await;
    newest(replica).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_cannot_be_read_ends_no_node_and_keeps_none_down() {
    let (mut cluster, sector) = one_node().await;
    let older = take_snapshot(&cluster, "a").await;
    let bad = take_snapshot(&cluster, "b").await;
    let snapshots = cluster.spots[0].folder.join("snap");
    let files = std::fs::read_dir(&snapshots).unwrap().flatten();
    let names: Vec<_> = files
        .map(|file| file.file_name().into_string().unwrap())
        .collect();
    let name = names
        .iter()
        .find(|name| name.starts_with(&format!("{bad}-")));
    let path = snapshots.join(name.unwrap());
    sector.comes_at(Some(&path));

    let replica = Arc::clone(cluster.raft(0).node().replica().unwrap());
    assert_eq!(newest(&replica).await, Some(older));
    assert_eq!(next(cluster.raft(0), "orders").await, Some(1));
    drop(replica);

    cluster.stop(0).await;
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    assert_eq!(next(cluster.raft(0), "orders").await, Some(2));
    assert_eq!(cluster.raft(0).storage_stats().snapshots_set_aside, 1);
    assert!(seqd_disk::sibling(&path, ".bad").exists() && !path.exists());
    take_snapshot(&cluster, "c").await;
    cluster.stop_all().await;
}

/// Number of reads for a file's head and end, and the first read between them.
const READS_BEFORE_THE_MIDDLE: usize = 3;

/// Fails reads of the middle of the file with this path. A listing reads only head and end, so any
/// further read reaches the middle.
#[derive(Default)]
struct BadMiddle(Mutex<(Option<PathBuf>, usize)>);

impl Tap for BadMiddle {
    fn read(&self, path: &Path, below: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let (bad, reads) = &mut *self.0.lock().unwrap();
        *reads += usize::from(bad.as_deref() == Some(path));
        if *reads > READS_BEFORE_THE_MIDDLE && bad.as_deref() == Some(path) {
            return Err(rustix::io::Errno::IO.into());
        }
        below()
    }

    fn list(&self, below: &dyn Disk, path: &Path) -> io::Result<Vec<String>> {
        self.0.lock().unwrap().1 = 0;
        below.list(path)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_cannot_be_read_while_it_is_sent_is_set_aside_and_another_is_sent() {
    let middle = Arc::new(BadMiddle::default());
    let mut cluster = Cluster::on_disk(&middle).await;
    purged_up_to_snapshots(&cluster).await;
    let folder = &cluster.raft(0).node().context.folder;
    let kept = snapshot_file::list(&**folder.disk(), &folder.snapshots()).unwrap();
    let newest = kept[0].path.clone();
    middle.0.lock().unwrap().0 = Some(newest.clone());

    let learner = learner("n2", &cluster).await;
    wait("the bad one is set aside", || async {
        let aside = seqd_disk::sibling(&newest, ".bad").exists();
        if aside {
            // The next snapshot may have the same name, and must be readable.
            middle.0.lock().unwrap().0 = None;
        }
        aside
    })
    .await;
    caught_up(cluster.raft(0), &learner).await;
    learner.stop().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_snapshot_is_built_if_none_can_be_read_and_the_log_is_purged() {
    let (mut cluster, sector) = one_node().await;
    purged_up_to_snapshots(&cluster).await;
    let folder = &cluster.raft(0).node().context.folder;
    let kept = snapshot_file::list(&**folder.disk(), &folder.snapshots()).unwrap();
    let [newest, older] = &kept[..] else {
        panic!("{} snapshots", kept.len());
    };
    std::fs::remove_file(&older.path).unwrap();
    sector.comes_at(Some(&newest.path));

    let learner = learner("n2", &cluster).await;
    caught_up(cluster.raft(0), &learner).await;
    assert_eq!(next(cluster.raft(0), "orders").await, Some(1));
    learner.stop().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_whose_folder_cannot_be_read_is_not_taken_for_a_lost_one() {
    let (mut cluster, sector) = one_node().await;
    cluster.stop(0).await;
    let wal = cluster.spots[0].folder.join("wal");
    sector.comes_at(Some(&wal));
    cluster.start(0).await.unwrap();
    let stop = stopped(cluster.raft(0)).await;
    assert_ends(&stop, 10, "fsync-failed");
    let expected = format!("cannot use {}: Input/output error", wal.display());
    assert!(stop.message.starts_with(&expected), "{stop:?}");
    cluster.stop(0).await;

    sector.comes_at(None);
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    assert_eq!(next(cluster.raft(0), "orders").await, Some(1));
    cluster.stop(0).await;

    std::fs::remove_dir_all(&wal).unwrap();
    cluster.start(0).await.unwrap();
    let stop = stopped(cluster.raft(0)).await;
    assert_ends(&stop, 9, "wiped-voter");
    cluster.stop_all().await;
}

#[test]
fn a_folder_whose_names_cannot_be_read_is_not_taken_for_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("holiday.jpg"), "x").unwrap();
    let (disk, tap) = (Arc::new(OsDisk), Arc::new(BadSector::default()));
    tap.comes_at(Some(dir.path()));
    let stop = Folder::open(Arc::new(Tapped { disk, tap }), dir.path());
    assert_eq!(stop.err().unwrap().code(), "fsync-failed");
    assert!(!dir.path().join("format").exists());
}
