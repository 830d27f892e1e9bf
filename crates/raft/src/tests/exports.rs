//! Exported snapshots are up to date and complete, bounded in number, and leave no files.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use seqd_disk::{DiskFile, Tap};
use seqd_state::Digest;
use tokio::join;

use super::harness::{Cluster, create, deadline, next, wait};
use crate::{Export, SnapshotError};
use seqd_offline::read_snapshot;

async fn bytes_of(export: Export) -> Vec<u8> {
    let len = export.described.len;
    let mut pieces = export.stream();
    let mut bytes = Vec::new();
    while let Some(piece) = poll_fn(|cx| pieces.poll_next(cx)).await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(bytes.len() as u64, len);
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_contains_all_acknowledged_writes_and_leaves_no_file() {
    let mut cluster = Cluster::new(3).await;
    cluster.ready().await;
    let snapshots = cluster.spots[2].folder.join("snap");
    for n in 0..3 {
        let name = format!("s{n}");
        let created = cluster.raft(0).propose(vec![create(&name)], deadline());
        created.await.unwrap();
        // Node 2 may not have applied it yet. The export waits for the index that the leader
        // confirms.
        let export = cluster.raft(2).snapshot(false, deadline()).await.unwrap();
        let names = std::fs::read_dir(&snapshots).unwrap().count();
        assert_eq!(
            names, 0,
            "none is kept, none is left, though it is still open"
        );
        let described = &export.described;
        let (index, digest) = (described.index, Digest(described.digest).to_string());
        let path = cluster.dir.path().join("export.snap");
        std::fs::write(&path, bytes_of(export).await).unwrap();
        let report = read_snapshot(&path, &mut |_| {}).unwrap();
        assert_eq!((report.index, report.digest), (index, digest));
        assert_eq!(report.records.sequences, n + 1);
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_exports_at_once_are_the_most() {
    let mut cluster = Cluster::new(1).await;
    cluster.ready().await;
    let raft = cluster.raft(0);
    let first = raft.snapshot(false, deadline()).await.unwrap();
    let second = raft.snapshot(true, deadline()).await.unwrap();
    let third = raft.snapshot(true, deadline()).await;
    assert!(matches!(third, Err(SnapshotError::Busy { limit: 2 })));
    // The whole snapshot was read from the disk, but its reader still exists.
    let mut reader = first.stream();
    while poll_fn(|cx| reader.poll_next(cx)).await.is_some() {}
    let third = raft.snapshot(true, deadline()).await;
    assert!(matches!(third, Err(SnapshotError::Busy { limit: 2 })));
    drop(reader);
    bytes_of(second).await;
    bytes_of(raft.snapshot(true, deadline()).await.unwrap()).await;
    cluster.stop_all().await;
}

/// While it is locked, the disk blocks the write of a snapshot's beginning.
#[derive(Default)]
struct Gate(Mutex<()>);

impl Tap for Gate {
    fn write_at(&self, below: &dyn DiskFile, buf: &[u8], offset: u64) -> io::Result<()> {
        if buf.starts_with(b"seqdsnap") {
            drop(self.0.lock().unwrap());
        }
        below.write_at(buf, offset)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_that_is_left_keeps_its_place_until_its_snapshot_is_written() {
    let gate = Arc::new(Gate::default());
    let mut cluster = Cluster::on_disk(&gate).await;
    let raft = cluster.raft(0);
    let ask = || raft.snapshot(true, deadline());
    {
        let _shut = gate.0.lock().unwrap();
        // Each export is dropped as soon as it waits. Together, they are more than the thread's
        // queue can hold.
        let mut left = (0..20).map(|_| ask().now_or_never());
        assert!(left.by_ref().take(2).all(|begun| begun.is_none()));
        for refused in left {
            let refused = refused.expect("nobody has written the first two");
            assert!(matches!(refused, Err(SnapshotError::Busy { limit: 2 })));
        }
    }
    wait("both places are free again", || async {
        let (one, two) = join!(ask(), ask());
        one.is_ok() && two.is_ok()
    })
    .await;
    assert_eq!(next(raft, "orders").await, Some(1));
    cluster.stop_all().await;
}
