//! The thread that copies the state to sled, and builds and installs snapshots.
//!
//! Invariants:
//! - A checkpoint never passes the synced index of this node's own log, because openraft may apply
//!   an entry that a quorum has before this node's disk has it.
//! - At most one batch is in flight, and each ends in our own `fdatasync` (sled 0.34 does none, and
//!   can deadlock on many unflushed batches).
//! - While a snapshot is streamed from sled, no checkpoint is written, so that the snapshot's rows
//!   are those of the index in its header. The changes that are applied meanwhile are still taken
//!   every 50 ms, and wait in a file.

mod scrubber;
#[cfg(test)]
mod tests;
mod worker;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use seqd_disk::Disk;
use seqd_net::Lock;
use tokio::sync::oneshot;

use crate::blocking;
use crate::records::restore_position;
use crate::storage::applied::{Snapshot, SnapshotHandle};
#[cfg(test)]
use crate::types::LogId;
use crate::types::SnapshotMeta;
use seqd_store::snapshot_file::{self, SnapshotFile};

use self::worker::Job;
pub(crate) use scrubber::Scrubber;
#[cfg(test)]
pub(crate) use worker::SyncedLog;
pub(crate) use worker::{CheckpointWorker, Exported, Pace, every_50_ms};

/// The executor of the jobs.
#[derive(Clone)]
enum Jobs {
    Thread(mpsc::SyncSender<Job>),
    /// The caller, immediately, so that a simulation is deterministic.
    #[cfg(test)]
    Inline(Arc<Lock<Option<CheckpointWorker>>>),
}

#[derive(Clone)]
pub(crate) struct Checkpointer {
    jobs: Jobs,
    disk: Arc<dyn Disk>,
    snapshots: PathBuf,
    disk_bytes: Arc<AtomicU64>,
    set_aside: Arc<AtomicU64>,
    thread: Arc<Lock<Option<JoinHandle<()>>>>,
}

impl Checkpointer {
    pub(crate) fn start(mut worker: CheckpointWorker) -> io::Result<Self> {
        worker.drain = worker.drain.with_thread()?;
        // Eight jobs never wait at once: snapshots are built one at a time, installs wait for
        // openraft, and few exports run at once.
        let (jobs, inbox) = mpsc::sync_channel(8);
        let snapshots = worker.snapshots.clone();
        let disk = Arc::clone(&worker.place.disk);
        let disk_bytes = Arc::new(AtomicU64::new(worker.store.disk_bytes()));
        let size = Arc::clone(&disk_bytes);
        let thread = blocking::thread("checkpoint", move || worker.run(&inbox, &size))?;
        let thread = Arc::new(Lock::new(Some(thread)));
        Ok(Self {
            jobs: Jobs::Thread(jobs),
            disk,
            snapshots,
            disk_bytes,
            set_aside: Arc::default(),
            thread,
        })
    }

    /// Creates a checkpointer without a thread: the caller performs jobs, and
    /// [`Checkpointer::tick`] writes checkpoints.
    #[cfg(test)]
    pub(crate) fn inline(worker: CheckpointWorker) -> Self {
        Self {
            disk: Arc::clone(&worker.place.disk),
            snapshots: worker.snapshots.clone(),
            jobs: Jobs::Inline(Arc::new(Lock::new(Some(worker)))),
            disk_bytes: Arc::default(),
            set_aside: Arc::default(),
            thread: Arc::default(),
        }
    }

    /// Performs the thread's work of every 50 ms. Returns the position of the store.
    #[cfg(test)]
    pub(crate) fn tick(&self) -> io::Result<Option<LogId>> {
        let Jobs::Inline(worker) = &self.jobs else {
            return Err(ended());
        };
        let mut worker = worker.lock();
        let worker = worker.as_mut().ok_or_else(ended)?;
        worker.checkpoint()?;
        Ok(worker.written)
    }

    /// Like `tick`, but a failure ends the node.
    #[cfg(test)]
    pub(crate) fn tick_or_fail(&self) -> io::Result<()> {
        let ticked = self.tick();
        if let (Err(error), Jobs::Inline(worker)) = (&ticked, &self.jobs) {
            let worker = worker.lock();
            if let Some(worker) = &*worker {
                (worker.on_failure)(io::Error::new(error.kind(), error.to_string()));
            }
        }
        ticked.map(|_| ())
    }

    async fn ask<T>(
        &self,
        job: impl FnOnce(oneshot::Sender<io::Result<T>>) -> Job,
    ) -> io::Result<T> {
        let (answer, wait) = oneshot::channel();
        match &self.jobs {
            Jobs::Thread(jobs) => jobs.try_send(job(answer)).map_err(|_| ended())?,
            #[cfg(test)]
            Jobs::Inline(worker) => {
                let mut held = worker.lock();
                let stop = held.as_mut().ok_or_else(ended)?.perform(job(answer));
                if let Some(answer) = stop
                    && let Some(worker) = held.take()
                {
                    let _ = answer.send(worker.stop());
                }
            }
        }
        wait.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Builds a snapshot, and also returns the index of the older kept one. `None` if the disk has
    /// no room for it; nothing is lost in that case.
    pub(crate) async fn build(&self) -> io::Result<Option<(Snapshot, u64)>> {
        let built = self.ask(Job::Build).await?;
        built
            .map(|(file, floor)| Ok((openraft_snapshot(file)?, floor)))
            .transpose()
    }

    /// Takes a snapshot for a client. The kept ones are not changed.
    pub(crate) async fn export(&self) -> io::Result<Exported> {
        self.ask(Job::Export).await
    }

    /// Installs a snapshot. Returns the index up to which the log is void.
    pub(crate) async fn install(&self, snapshot: SnapshotHandle) -> io::Result<u64> {
        self.ask(|answer| Job::Install(snapshot, answer)).await
    }

    /// The kept snapshot of this index, or the newest one if there is none. If no kept one can be
    /// read, builds another, because the log before them may be purged. `None` if there is no
    /// snapshot, or the disk has no room for another.
    pub(crate) async fn current_snapshot(
        &self,
        preferred: Option<u64>,
    ) -> io::Result<Option<Snapshot>> {
        let (disk, snapshots) = (Arc::clone(&self.disk), self.snapshots.clone());
        let listed = blocking::run(move || {
            let kept = snapshot_file::list(&*disk, &snapshots)?;
            let is_none_readable = kept.is_empty() && snapshot_file::is_any(&*disk, &snapshots)?;
            Ok((kept, is_none_readable))
        });
        let (kept, is_none_readable) = listed.await?;
        if is_none_readable {
            return Ok(self.build().await?.map(|(snapshot, _)| snapshot));
        }
        let at = kept.iter().position(|file| Some(file.index) == preferred);
        let current = kept.into_iter().nth(at.unwrap_or(0));
        current.map(openraft_snapshot).transpose()
    }

    /// Size of the checkpoint on the disk in bytes, at most ten seconds old.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk_bytes.load(Ordering::Relaxed)
    }

    /// Writes the last checkpoint and ends the thread.
    pub(crate) async fn stop(&self) -> io::Result<()> {
        let written = self.ask(Job::Stop).await;
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = blocking::run(move || Ok(thread.join())).await;
        }
        written
    }
}

fn ended() -> io::Error {
    io::Error::other("the checkpoint thread has ended")
}

fn openraft_snapshot(file: SnapshotFile) -> io::Result<Snapshot> {
    let (last, membership) = restore_position(&file.log_id, &file.membership)?;
    let meta = SnapshotMeta {
        last_log_id: last,
        last_membership: membership,
    };
    Ok(Snapshot {
        meta,
        snapshot: SnapshotHandle::Kept(file),
    })
}
