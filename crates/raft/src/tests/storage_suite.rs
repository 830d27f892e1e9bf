//! openraft's storage suite on the real log, the real checkpointer and the real snapshots.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use seqd_state::State;
use seqd_wal::{Wal, WalOptions};
use tempfile::TempDir;

use crate::storage::applied::Applied;
use crate::storage::checkpointer::{CheckpointWorker, Checkpointer, every_50_ms};
use crate::storage::drain::Drain;
use crate::storage::log_store::LogStore;
use crate::storage::machine::Machine;
use crate::transfers::Transfers;
use crate::types::{StoredMembership, TypeConfig};
use seqd_store::checkpoint::{self, Place};
use seqd_store::first_error::FirstError;
use seqd_store::snapshot_file::InstalledMark;

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, Machine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, Machine), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let snapshots = dir.path().join("snap");
        std::fs::create_dir(&snapshots).unwrap();
        let mut options = WalOptions::new(dir.path().join("wal"));
        options.segment_bytes = 256 << 10;
        let (wal, recovered) = Wal::open(options).unwrap();
        // The suite purges entries that no snapshot contains. The floor that prevents this is not
        // under test.
        let no_floor = Arc::new(AtomicU64::new(u64::MAX));
        let log = LogStore::new(wal.clone(), &recovered, no_floor).unwrap();
        let failure = log.failure();
        let applied = Arc::new(Applied::new(
            State::default(),
            None,
            StoredMembership::default(),
        ));
        let place = Place::on_sled(dir.path(), "TEST");
        let checkpointer = Checkpointer::start(CheckpointWorker {
            drain: Drain::inline(&applied),
            store: checkpoint::create_empty(&place).unwrap(),
            log: Box::new(wal),
            mark: Arc::new(InstalledMark::open(&place.disk, &snapshots).unwrap()),
            place,
            pace: every_50_ms(),
            lost: FirstError::default(),
            snapshots,
            written: None,
            on_failure: Box::new(|error| panic!("{error}")),
        })
        .unwrap();
        Ok((
            dir,
            log,
            Machine {
                applied,
                checkpointer,
                purge_floor: Arc::default(),
                failure,
                transfers: Transfers::default(),
            },
        ))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openraft_s_storage_suite_passes() {
    Suite::test_all(Builder).await.unwrap();
}
