//! Reads a kept snapshot in full after a failure to send it, and replaces a bad one.
//!
//! A start reads its snapshots in full. Afterwards, only header and footer are read. If a block
//! turns bad under a running leader, the peer that needs the snapshot is affected first: either the
//! block cannot be read, or the peer refuses the snapshot. An idle cluster takes no other snapshot
//! meanwhile, so a learner would wait for the leader's next snapshot or restart.
//!
//! One snapshot is read at a time, and none within [`PAUSE`] of the previous one, because openraft
//! retries many times a second, and a refusal need not be caused by the file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::Checkpointer;
use super::worker::Job;
use crate::blocking;
use crate::platform;
use crate::storage::applied::SnapshotHandle;
use seqd_store::snapshot_file::{self, SnapshotFile};

/// Time between two reads. It also limits how often a failure to send a snapshot is logged.
const PAUSE: Duration = Duration::from_secs(5);

/// Clones share one permit.
#[derive(Clone)]
pub(crate) struct Scrubber {
    checkpointer: Checkpointer,
    turn: Arc<Semaphore>,
}

impl Scrubber {
    pub(crate) fn new(checkpointer: Checkpointer) -> Self {
        let turn = Arc::new(Semaphore::new(1));
        Self { checkpointer, turn }
    }

    /// Reads a snapshot after a failure to send it, in the background, and replaces a bad one. Does
    /// nothing if one was read a moment ago.
    pub(crate) fn verify_after_failed_send(&self, snapshot: &SnapshotHandle, node: u64, why: &str) {
        let SnapshotHandle::Kept(file) = snapshot else {
            return;
        };
        let Ok(turn) = Arc::clone(&self.turn).try_acquire_owned() else {
            return;
        };
        let path = file.path.display();
        tracing::warn!(%path, node, why, "a snapshot could not be sent; it is now verified in \
            full");
        let (checkpointer, file) = (self.checkpointer.clone(), file.clone());
        platform::spawn(async move {
            let path = file.path.display().to_string();
            match checkpointer.scrub(file).await {
                Ok(true) => {}
                Ok(false) => tracing::info!(path, "the snapshot is valid, or is no longer kept"),
                Err(error) => tracing::error!(path, %error, "the snapshot could not be replaced"),
            }
            tokio::time::sleep(PAUSE).await;
            drop(turn);
        });
    }
}

impl Checkpointer {
    /// Reads a kept snapshot in full and replaces a bad one. Returns whether it was bad.
    pub(super) async fn scrub(&self, file: SnapshotFile) -> io::Result<bool> {
        let disk = Arc::clone(&self.disk);
        // Not on the checkpoint thread, because no checkpoint would be written meanwhile.
        let found = blocking::run(move || snapshot_file::find_bad(&*disk, &file)).await?;
        let Some(bad) = found else {
            return Ok(false);
        };
        self.ask(|answer| Job::Replace(bad, answer)).await?;
        self.set_aside.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// The number of bad snapshots that were replaced since the start.
    pub(crate) fn set_aside(&self) -> u64 {
        self.set_aside.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::Bench;
    use super::*;
    use crate::tests::harness::wait;
    use seqd_store::checkpoint;

    fn started(bench: &Bench) -> Checkpointer {
        let store = checkpoint::create_empty(&bench.place()).unwrap();
        Checkpointer::start(bench.worker(store, Vec::new())).unwrap()
    }

    async fn built(checkpointer: &Checkpointer) -> SnapshotFile {
        let (snapshot, _) = checkpointer.build().await.unwrap().unwrap();
        match snapshot.snapshot {
            SnapshotHandle::Kept(file) => file,
            SnapshotHandle::Received(_) => unreachable!("it was built"),
        }
    }

    fn flip_a_bit(file: &SnapshotFile) {
        let mut bytes = fs::read(&file.path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&file.path, bytes).unwrap();
    }

    /// The names of the existing snapshots. Asserts that every kept one is sound.
    fn kept(bench: &Bench) -> Vec<String> {
        let snapshots = bench.place().data_dir.join("snap");
        for file in snapshot_file::list(&*bench.place().disk, &snapshots).unwrap() {
            let bad = snapshot_file::find_bad(&*bench.place().disk, &file);
            assert_eq!(bad.unwrap(), None);
        }
        let names = fs::read_dir(snapshots).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_valid_snapshot_stays_and_a_missing_one_does_no_harm() {
        let bench = Bench::new();
        let checkpointer = started(&bench);
        let file = built(&checkpointer).await;
        assert!(!checkpointer.scrub(file.clone()).await.unwrap());
        assert_eq!(kept(&bench), ["0-1.snap"]);
        fs::remove_file(&file.path).unwrap();
        assert!(!checkpointer.scrub(file).await.unwrap());
        assert_eq!(checkpointer.set_aside(), 0);
        checkpointer.stop().await.unwrap();
    }

    #[tokio::test]
    async fn the_only_snapshot_keeps_its_name_until_there_is_another() {
        let bench = Bench::new();
        let checkpointer = started(&bench);
        let file = built(&checkpointer).await;
        flip_a_bit(&file);
        assert!(checkpointer.scrub(file.clone()).await.unwrap());
        assert_eq!(kept(&bench), ["0-1.snap"]);
        flip_a_bit(&file);
        bench.load.grow(1);
        assert!(checkpointer.scrub(file).await.unwrap());
        assert_eq!(kept(&bench), ["0-1.snap.bad", "1-1.snap"]);
        assert_eq!(checkpointer.set_aside(), 2);
        checkpointer.stop().await.unwrap();
    }

    #[tokio::test]
    async fn a_snapshot_that_fails_to_be_sent_again_and_again_is_read_once() {
        let bench = Bench::new();
        let checkpointer = started(&bench);
        let file = built(&checkpointer).await;
        flip_a_bit(&file);
        let scrubber = Scrubber::new(checkpointer.clone());
        let handle = SnapshotHandle::Kept(file.clone());
        (0..9).for_each(|_| {
            scrubber.verify_after_failed_send(&handle, 2, "a checksum does not match")
        });
        wait("it is replaced", || async { checkpointer.set_aside() == 1 }).await;
        // No other read begins before the pause has ended.
        assert_eq!(scrubber.turn.available_permits(), 0);
        flip_a_bit(&file);
        scrubber.verify_after_failed_send(&handle, 2, "a checksum does not match");
        checkpointer.stop().await.unwrap();
        assert_eq!(checkpointer.set_aside(), 1);
    }
}
