//! openraft's state machine: plain maps in memory, applied without waiting for any disk.
//!
//! The checkpointer's thread later copies applied changes to sled. Snapshots are also built and
//! installed on that thread, so that `apply` continues meanwhile. (An install is the exception: it
//! replaces the state, and openraft waits for it.)

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use openraft::OptionalSend;
use openraft::entry::RaftEntry;
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};

use crate::storage::applied::{Applied, Snapshot, SnapshotHandle};
use crate::storage::checkpointer::Checkpointer;
use crate::storage::failure::StorageFailure;
use crate::transfers::Transfers;
use crate::types::{LogId, SnapshotMeta, StoredMembership, TypeConfig};

/// Also openraft's builder of snapshots, as a clone.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) applied: Arc<Applied>,
    pub(crate) checkpointer: Checkpointer,
    /// See `LogStore`. Raised when the older kept snapshot changes.
    pub(crate) purge_floor: Arc<AtomicU64>,
    pub(crate) failure: StorageFailure,
    /// The snapshots that this node is sending.
    pub(crate) transfers: Transfers,
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = SnapshotHandle;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let core = self.applied.read();
        Ok((core.applied, core.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            let answer = self.applied.apply(&entry);
            self.applied.index.set(entry.index());
            if let Some(responder) = responder {
                responder.send(answer);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(
        &mut self,
        _meta: &SnapshotMeta,
        snapshot: SnapshotHandle,
    ) -> io::Result<()> {
        let installed = self.checkpointer.install(snapshot).await;
        let floor = (self.failure).keep("a snapshot could not be installed", installed)?;
        self.purge_floor.fetch_max(floor, Ordering::AcqRel);
        self.applied.publish();
        Ok(())
    }

    /// Returns the newest snapshot, unless an older one is in transfer to a node that has a part of
    /// it. openraft calls this before each attempt to send one.
    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let unfinished = self.transfers.unfinished();
        let current = self.checkpointer.current_snapshot(unfinished).await;
        self.failure.keep("the snapshots cannot be read", current)
    }
}

/// First pause between two attempts at a snapshot for which the disk has no room. Each attempt may
/// fill the available room, so the pause doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);

const LONGEST_PAUSE: Duration = Duration::from_secs(4);

impl RaftSnapshotBuilder<TypeConfig> for Machine {
    type SnapshotData = SnapshotHandle;

    /// Builds a snapshot on the checkpointer's thread. If the disk has no room for it, waits until
    /// it has. Nothing is lost without a snapshot, and openraft builds one at a time.
    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let mut pause = FIRST_PAUSE;
        let built = loop {
            if let Some(built) = self.checkpointer.build().await.transpose() {
                break built;
            }
            tokio::time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        };
        let (snapshot, floor) = self.failure.keep("a snapshot could not be built", built)?;
        self.purge_floor.fetch_max(floor, Ordering::AcqRel);
        Ok(snapshot)
    }
}
