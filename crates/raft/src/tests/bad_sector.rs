//! A disk that no longer gives back one file: the node goes on with the others.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use seqd_disk::{OsDisk, Tap, Tapped};

use super::harness::{Cluster, create, deadline, next, wait};
use crate::replica::Replica;

/// Does not give back the file that it names, if it names one.
#[derive(Default)]
struct BadSector(Mutex<Option<PathBuf>>);

impl Tap for BadSector {
    fn read(&self, path: &Path, below: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        if self.0.lock().unwrap().as_deref() == Some(path) {
            return Err(rustix::io::Errno::IO.into());
        }
        below()
    }
}

/// The index of the newest snapshot that openraft is told of.
async fn newest(replica: &Replica) -> Option<u64> {
    let snapshot = replica.raft.get_snapshot().await.unwrap()?;
    Some(snapshot.meta.last_log_id?.index())
}

/// Takes a snapshot of all that was applied; its index.
async fn take_snapshot(cluster: &Cluster, sequence: &str) -> u64 {
    let raft = cluster.raft(0);
    let created = raft.propose(vec![create(sequence)], deadline());
    created.await.unwrap();
    let applied = raft.status().applied;
    let replica = raft.local().replica.get().unwrap();
    replica.raft.trigger().snapshot().await.unwrap();
    wait("the snapshot is taken", || async {
        newest(replica).await.is_some_and(|index| index >= applied)
    })
    .await;
    newest(replica).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_cannot_be_read_ends_no_node_and_keeps_none_down() {
    let mut cluster = Cluster::planned(1);
    let sector = Arc::new(BadSector::default());
    let (disk, tap) = (Arc::new(OsDisk), Arc::clone(&sector));
    cluster.spots[0].disk = Arc::new(Tapped { disk, tap });
    cluster.start(0).await.unwrap();
    cluster.create_orders(0).await;
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
    *sector.0.lock().unwrap() = Some(path.clone());

    let replica = Arc::clone(cluster.raft(0).local().replica.get().unwrap());
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
