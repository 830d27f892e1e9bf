//! The thread that carries the state to sled, and builds and installs snapshots.
//!
//! Invariants:
//! - A checkpoint never passes what this node's own log has synced: openraft may apply an entry
//!   that a quorum has before this node's disk has it.
//! - At most one batch is in flight, and each ends in our own `fdatasync` (sled 0.34 does none,
//!   and can deadlock on many unflushed batches).
//! - While a snapshot is streamed from sled no checkpoint is written, so its rows are those of the
//!   index that it names. What is applied meanwhile is taken every 50 ms all the same, and waits in
//!   a file.

mod scrubber;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use seqd_disk::{Disk, DiskFile, FileReader};
use seqd_wal::Wal;
use tokio::sync::oneshot;

use crate::blocking;
use crate::records::restore_position;
use crate::storage::applied::{Applied, Snapshot, SnapshotHandle};
use crate::storage::staging::Staging;
use crate::types::{LogId, SnapshotMeta};
use seqd_store::checkpoint::{Change, Checkpoint, Place, StateStore};
use seqd_store::first_error::FirstError;
use seqd_store::snapshot_file::{self, Bad, InstalledMark, SnapshotFile, SnapshotWriter};

pub(crate) use scrubber::Scrubber;

/// Time between two checkpoints: what a crash has to replay, against writes to the disk.
const EVERY: Duration = Duration::from_millis(50);

/// Time between two measurements of the store's folder, for a metric: each is a walk over it.
const MEASURE_EVERY: Duration = Duration::from_secs(10);

/// How long a checkpoint waits for the own log to sync what was applied.
const SYNC_WAIT: Duration = Duration::from_millis(500);

/// What a checkpoint asks of the log.
pub(crate) trait SyncedLog: Send {
    /// Returns when entry `index` is durable. What the log does not hold came from a snapshot:
    /// there is nothing to wait for.
    fn wait_until_synced(&self, index: u64) -> io::Result<()>;
}

impl SyncedLog for Wal {
    fn wait_until_synced(&self, index: u64) -> io::Result<()> {
        while index < self.next_index() && !self.wait_synced(index, SYNC_WAIT)? {
            tracing::warn!(index, "the log's disk is slow; the checkpoint waits");
        }
        Ok(())
    }
}

/// Says, between any two rows of a snapshot, whether it is time to take what was applied.
pub(crate) type Pace = Box<dyn FnMut() -> bool + Send>;

pub(crate) fn every_50_ms() -> Pace {
    let (mut last, mut asked) = (Instant::now(), 0_u32);
    Box::new(move || {
        asked = asked.wrapping_add(1);
        // A look at the clock for every row would be half of what a row costs.
        let is_time = asked % 64 == 0 && last.elapsed() >= EVERY;
        if is_time {
            last = Instant::now();
        }
        is_time
    })
}

enum Job {
    Build(oneshot::Sender<io::Result<(SnapshotFile, u64)>>),
    Export(oneshot::Sender<io::Result<Exported>>),
    Install(SnapshotHandle, oneshot::Sender<io::Result<u64>>),
    Replace(Bad, oneshot::Sender<io::Result<()>>),
    Stop(oneshot::Sender<io::Result<()>>),
}

pub(crate) type Exported = (Arc<dyn DiskFile>, SnapshotFile);

/// Who carries out the jobs.
#[derive(Clone)]
enum Jobs {
    Thread(mpsc::SyncSender<Job>),
    /// The caller, at once: so that a simulation repeats itself.
    #[cfg(any(test, feature = "simulation"))]
    Inline(Arc<Mutex<Option<CheckpointWorker>>>),
}

#[derive(Clone)]
pub(crate) struct Checkpointer {
    jobs: Jobs,
    disk: Arc<dyn Disk>,
    snapshots: PathBuf,
    disk_bytes: Arc<AtomicU64>,
    set_aside: Arc<AtomicU64>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

pub(crate) struct CheckpointWorker {
    pub(crate) applied: Arc<Applied>,
    pub(crate) store: Box<dyn StateStore>,
    pub(crate) log: Box<dyn SyncedLog>,
    pub(crate) place: Place,
    pub(crate) mark: Arc<InstalledMark>,
    pub(crate) pace: Pace,
    pub(crate) snapshots: PathBuf,
    /// The index that `store` holds.
    pub(crate) written: Option<LogId>,
    /// Changes were taken from the state and did not reach the store.
    pub(crate) lost: FirstError,
    /// Told once, when a checkpoint could not be written.
    pub(crate) on_failure: Box<dyn Fn(io::Error) + Send>,
}

impl Checkpointer {
    pub(crate) fn start(worker: CheckpointWorker) -> io::Result<Self> {
        // Snapshots are built one at a time, installs wait for openraft, few are exported at once:
        // eight is never reached.
        let (jobs, inbox) = mpsc::sync_channel(8);
        let snapshots = worker.snapshots.clone();
        let disk = Arc::clone(&worker.place.disk);
        let disk_bytes = Arc::new(AtomicU64::new(worker.store.disk_bytes()));
        let size = Arc::clone(&disk_bytes);
        let thread = blocking::thread("checkpoint", move || worker.run(&inbox, &size))?;
        let thread = Arc::new(Mutex::new(Some(thread)));
        Ok(Self {
            jobs: Jobs::Thread(jobs),
            disk,
            snapshots,
            disk_bytes,
            set_aside: Arc::default(),
            thread,
        })
    }

    /// Starts no thread: jobs are done by whoever asks, checkpoints by [`Checkpointer::tick`].
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn inline(worker: CheckpointWorker) -> Self {
        Self {
            disk: Arc::clone(&worker.place.disk),
            snapshots: worker.snapshots.clone(),
            jobs: Jobs::Inline(Arc::new(Mutex::new(Some(worker)))),
            disk_bytes: Arc::default(),
            set_aside: Arc::default(),
            thread: Arc::default(),
        }
    }

    /// What the thread does every 50 ms; says up to where the store has the state.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn tick(&self) -> io::Result<Option<LogId>> {
        let Jobs::Inline(worker) = &self.jobs else {
            return Err(ended());
        };
        let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
        let worker = worker.as_mut().ok_or_else(ended)?;
        worker.checkpoint()?;
        Ok(worker.written)
    }

    async fn ask<T>(
        &self,
        job: impl FnOnce(oneshot::Sender<io::Result<T>>) -> Job,
    ) -> io::Result<T> {
        let (answer, wait) = oneshot::channel();
        match &self.jobs {
            Jobs::Thread(jobs) => jobs.try_send(job(answer)).map_err(|_| ended())?,
            #[cfg(any(test, feature = "simulation"))]
            Jobs::Inline(worker) => {
                let mut held = worker.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Builds a snapshot; also returns the index of the older kept one.
    pub(crate) async fn build(&self) -> io::Result<(Snapshot, u64)> {
        let (file, floor) = self.ask(Job::Build).await?;
        Ok((openraft_snapshot(file)?, floor))
    }

    /// Takes a snapshot for somebody outside of the cluster: none of the kept ones is touched.
    pub(crate) async fn export(&self) -> io::Result<Exported> {
        self.ask(Job::Export).await
    }

    /// Installs a snapshot; returns the index up to which the log is void.
    pub(crate) async fn install(&self, snapshot: SnapshotHandle) -> io::Result<u64> {
        self.ask(|answer| Job::Install(snapshot, answer)).await
    }

    pub(crate) fn current_snapshot(&self) -> io::Result<Option<Snapshot>> {
        snapshot_file::list(&*self.disk, &self.snapshots)?
            .into_iter()
            .next()
            .map(openraft_snapshot)
            .transpose()
    }

    /// Bytes of the checkpoint on the disk, as of ten seconds ago at most.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk_bytes.load(Ordering::Relaxed)
    }

    /// Writes the last checkpoint and ends the thread.
    pub(crate) async fn stop(&self) -> io::Result<()> {
        let written = self.ask(Job::Stop).await;
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
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

/// The index of the older of the kept snapshots; 0 if there is only one.
pub(crate) fn older_kept(disk: &dyn Disk, snapshots: &Path) -> io::Result<u64> {
    Ok(snapshot_file::list(disk, snapshots)?
        .get(1)
        .map_or(0, |file| file.index))
}

impl CheckpointWorker {
    fn run(mut self, inbox: &mpsc::Receiver<Job>, size: &AtomicU64) {
        let mut measured = Instant::now();
        loop {
            if measured.elapsed() >= MEASURE_EVERY {
                size.store(self.store.disk_bytes(), Ordering::Relaxed);
                measured = Instant::now();
            }
            match inbox.recv_timeout(EVERY) {
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = self.checkpoint() {
                        (self.on_failure)(error);
                        return;
                    }
                }
                Ok(job) => {
                    if let Some(answer) = self.perform(job) {
                        let _ = answer.send(self.stop());
                        return;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Does a job; of the one that ends the work, returns who waits for that.
    fn perform(&mut self, job: Job) -> Option<oneshot::Sender<io::Result<()>>> {
        match job {
            Job::Build(answer) => {
                let _ = answer.send(self.build());
            }
            Job::Export(answer) => {
                let _ = answer.send(self.export());
            }
            Job::Install(snapshot, answer) => {
                let _ = answer.send(self.install(snapshot));
            }
            Job::Replace(bad, answer) => {
                let _ = answer.send(self.replace(&bad));
            }
            Job::Stop(answer) => return Some(answer),
        }
        None
    }

    fn stop(mut self) -> io::Result<()> {
        self.checkpoint()?;
        self.store.close()
    }

    /// Carries what was applied since the last checkpoint to the store.
    pub(crate) fn checkpoint(&mut self) -> io::Result<()> {
        self.lost.check()?;
        if self.applied.read().applied == self.written && self.store.applied().is_some() {
            return Ok(());
        }
        let (changes, position) = self.applied.take_changes()?;
        self.write(changes, &position)
    }

    fn write(&mut self, changes: Vec<Change>, position: &Checkpoint) -> io::Result<()> {
        let written = self
            .log
            .wait_until_synced(position.index)
            .and_then(|()| self.store.write(changes, position));
        self.lost.note(written)?;
        self.written = restore_position(&position.log_id, &position.membership)?.0;
        Ok(())
    }

    /// Builds a snapshot of the store; also says the index of the older kept one.
    pub(crate) fn build(&mut self) -> io::Result<(SnapshotFile, u64)> {
        self.checkpoint()?;
        let file = self.take()?.finish()?;
        let disk = &*self.place.disk;
        snapshot_file::keep_two(disk, &self.snapshots)?;
        let floor = older_kept(disk, &self.snapshots)?;
        tracing::info!(
            index = file.index,
            rows = file.rows,
            bytes = file.len,
            "snapshot taken"
        );
        Ok((file, floor))
    }

    /// The newest kept snapshot if nothing was applied since, else one without a name.
    fn export(&mut self) -> io::Result<Exported> {
        self.checkpoint()?;
        let Some(written) = self.written else {
            return Err(io::Error::other("nothing was applied yet"));
        };
        let term = **written.committed_leader_id();
        let disk = &self.place.disk;
        let newest = snapshot_file::list(&**disk, &self.snapshots)?
            .into_iter()
            .next();
        if let Some(kept) = newest.filter(|kept| (kept.index, kept.term) == (written.index(), term))
        {
            // Open, it is there for as long as it is sent, also when it is dropped meanwhile.
            return Ok((disk.open_read(&kept.path)?, kept));
        }
        // Rows take less in a snapshot than in the store.
        snapshot_file::check_room(&self.snapshots, self.store.disk_bytes())?;
        self.take()?.finish_unnamed()
    }

    /// Streams the store into a file, then writes to the store what was applied meanwhile.
    fn take(&mut self) -> io::Result<SnapshotWriter> {
        let term = self.written.map_or(0, |id| **id.committed_leader_id());
        let mut staging = Staging::new(&self.place.disk, &self.snapshots, self.written);
        let (applied, pace) = (&self.applied, &mut self.pace);
        let taken = snapshot_file::take(
            &*self.store,
            &self.place.disk,
            &self.snapshots,
            &self.place.cluster_id,
            term,
            &mut || {
                if pace() {
                    staging.stage(applied)
                } else {
                    Ok(())
                }
            },
        );
        let caught_up = self.catch_up(staging);
        let caught_up = self.lost.note(caught_up);
        if let Err(error) = &caught_up {
            tracing::error!(%error, "what was applied during a snapshot did not reach the checkpoint");
        }
        caught_up.and(taken)
    }

    /// Writes what was staged. More is staged meanwhile, so that `apply` is never held up for long;
    /// the last of it is left to the next checkpoint. On a disk that is slower than the load this
    /// would not end: what is staged meanwhile is no more than what was staged before.
    fn catch_up(&mut self, mut staging: Staging) -> io::Result<()> {
        let most = staging.staged_bytes().saturating_mul(2);
        while let Some((changes, position)) = staging.pop()? {
            let is_last = staging.is_empty();
            self.write(changes, &position)?;
            if !is_last && staging.staged_bytes() < most {
                staging.stage(&self.applied)?;
            }
        }
        Ok(())
    }

    /// Takes over a snapshot of another folder, as if a leader had sent it.
    fn copy(&self, file: &SnapshotFile) -> io::Result<SnapshotFile> {
        let disk = &self.place.disk;
        let mut source = FileReader::new(disk.open_read(&file.path)?)?;
        let mut receiver = snapshot_file::Receiver::create(disk, &self.snapshots)?;
        let mut chunk = vec![0; 64 << 10];
        loop {
            match io::Read::read(&mut source, &mut chunk)? {
                0 => return receiver.finish(&self.place.cluster_id)?.adopt(),
                read => receiver.write(&chunk[..read])?,
            }
        }
    }

    /// Replaces the state by a snapshot's: the mark that the log may end before it, the file into
    /// place, a new generation of the store whole, then memory. What is found after a crash in
    /// between is one or the other.
    pub(crate) fn install(&mut self, snapshot: SnapshotHandle) -> io::Result<u64> {
        let (index, term) = snapshot.position();
        self.mark.set(index, term)?;
        let file = match snapshot {
            SnapshotHandle::Kept(file) if file.path.parent() == Some(&self.snapshots) => file,
            SnapshotHandle::Kept(file) => self.copy(&file)?,
            SnapshotHandle::Received(received) => received.adopt()?,
        };
        let (state, store) = snapshot_file::load(&file, &self.place)?;
        let (id, membership) = restore_position(&file.log_id, &file.membership)?;
        self.store = store;
        {
            let mut core = self.applied.write();
            core.state = state;
            core.applied = id;
            core.membership = membership;
        }
        self.written = id;
        snapshot_file::void_older(&*self.place.disk, &self.snapshots, file.index)?;
        tracing::info!(index = file.index, rows = file.rows, "snapshot installed");
        Ok(file.index)
    }
}
