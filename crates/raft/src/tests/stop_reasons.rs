//! The stop reasons after a storage failure below openraft, which passes on only a text. The reason
//! is the original cause, whichever part detects it first.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use seqd_disk::Tap;
use seqd_store::testing::wait;
use seqd_wal::{Record, Wal, WalOptions};

use super::harness::{Cluster, assert_ends, create, deadline, next, stopped};
use crate::records::EntryRecord;
use seqd_state::codec::Versioned;

/// Fails the syncs of files in the named folder.
#[derive(Default)]
pub(super) struct FailingSyncs(pub(super) Mutex<Option<(&'static str, Errno)>>);

impl Tap for FailingSyncs {
    fn sync(&self, path: &Path, below: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        match *self.0.lock().unwrap() {
            Some((folder, errno)) if path.parent().is_some_and(|p| p.ends_with(folder)) => {
                Err(errno.into())
            }
            _ => below(),
        }
    }
}

/// The stop code of a node after an error of the operating system in its log or its snapshots.
async fn code_after(folder: &'static str, errno: Errno) -> &'static str {
    let syncs = Arc::new(FailingSyncs::default());
    let cluster = Cluster::on_disk(&syncs).await;
    *syncs.0.lock().unwrap() = Some((folder, errno));
    let raft = cluster.raft(0);
    match folder {
        "snap" => {
            let replica = raft.node().replica().unwrap();
            replica.raft.trigger().snapshot().await.unwrap();
        }
        _ => assert!(
            raft.propose(vec![create("more")], deadline())
                .await
                .is_err()
        ),
    }
    let stop = stopped(raft).await;
    assert!(stop.message.contains(&errno.to_string()), "{stop:?}");
    stop.code()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cause_that_is_not_the_disk_is_not_called_a_failed_sync() {
    for folder in ["wal", "snap"] {
        for (errno, expected) in [
            (Errno::MFILE, "invariant"),
            (Errno::NOSPC, "disk-full"),
            (Errno::IO, "fsync-failed"),
            (Errno::ACCESS, "fsync-failed"),
        ] {
            assert_eq!(
                code_after(folder, errno).await,
                expected,
                "{folder} {errno}"
            );
        }
    }
}

/// Rewrites the log, with one entry in the middle in a newer version.
fn with_a_newer_entry(root: &Path) {
    let old = root.join("wal-before");
    std::fs::rename(root.join("wal"), &old).unwrap();
    let (from, found) = Wal::open(WalOptions::new(&old)).unwrap();
    let mut records: Vec<Record> = from.read(0..u64::MAX, usize::MAX).unwrap();
    let middle = records.len() / 2;
    records[middle].bytes[1] = EntryRecord::VERSION + 1;
    let (to, _) = Wal::open(WalOptions::new(root.join("wal"))).unwrap();
    wait(|done| to.save_vote(found.vote.unwrap(), done));
    wait(|done| to.append(records, done));
    to.save_committed(found.committed.unwrap());
    to.close().unwrap();
    from.close().unwrap();
    std::fs::remove_dir_all(old).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_of_a_newer_version_in_the_log_ends_as_newer_format() {
    let mut cluster = Cluster::new(1).await;
    cluster.create_orders(0).await;
    for _ in 0..20 {
        next(cluster.raft(0), "orders").await.unwrap();
    }
    cluster.stop(0).await;
    let root = cluster.spots[0].folder.clone();
    // Without a checkpoint, the whole log is applied again.
    for name in std::fs::read_dir(&root).unwrap().flatten() {
        if name.file_name().to_string_lossy().starts_with("state-") {
            std::fs::remove_dir_all(name.path()).unwrap();
        }
    }
    std::fs::remove_file(root.join("CURRENT")).unwrap();
    with_a_newer_entry(&root);
    let stop = match cluster.start(0).await {
        Ok(()) => stopped(cluster.raft(0)).await,
        Err(stop) => stop,
    };
    assert_ends(&stop, 9, "newer-format");
}
