//! The work of the checkpoint thread: checkpoints, and jobs.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use seqd_disk::{Disk, DiskFile, FileReader};
use seqd_guards::is_out;
use seqd_wal::Wal;
use tokio::sync::oneshot;

use crate::records::restore_position;
use crate::storage::applied::SnapshotHandle;
use crate::storage::drain::Drain;
use crate::storage::staging::Staging;
use crate::types::LogId;
use seqd_store::checkpoint::{Change, Checkpoint, NotMade, Place, StateStore};
use seqd_store::first_error::FirstError;
use seqd_store::snapshot_file::{self, Bad, InstalledMark, SnapshotFile, SnapshotWriter};

/// Time between two checkpoints. Balances the replay after a crash against the writes to the disk.
const EVERY: Duration = Duration::from_millis(50);

/// Upper bound of the time between two checkpoints while nothing is applied. Each idle check
/// doubles the time.
const IDLE_AT_MOST: Duration = Duration::from_millis(200);

/// The thread's nice value, which gives it a tenth of the weight of another thread. Requests wait
/// for other threads, but never for a checkpoint.
const NICE: i32 = 10;

/// Time between two measurements of the store's folder for a metric. Each measurement walks the
/// folder.
const MEASURE_EVERY: Duration = Duration::from_secs(10);

/// Time after which a checkpoint logs that it still waits for this node's log to sync the applied
/// entries.
const SYNC_WAIT: Duration = Duration::from_millis(500);

/// A store may occupy twice the space of a newly built one, and this many bytes in addition,
/// because rebuilding a small store would save little.
const STORE_PER_ROW: u64 = 2 * snapshot_file::FRESH_STORE_PER_ROW;
const STORE_EXTRA: u64 = 64 << 20;

/// `STORE_EXTRA` is limited to the disk's size divided by this, because a small disk needs the
/// space.
const STORE_PART_OF_DISK: u64 = 32;

/// Returns whether a store on a disk of `disk_bytes` has grown out of proportion to its rows, which
/// have `snapshot_bytes` in a snapshot.
fn is_oversized(store_bytes: u64, snapshot_bytes: u64, disk_bytes: u64) -> bool {
    let extra = if cfg!(test) { 64 << 10 } else { STORE_EXTRA };
    let extra = extra.min(disk_bytes / STORE_PART_OF_DISK);
    store_bytes > snapshot_bytes.saturating_mul(STORE_PER_ROW) + extra
}

/// The part of the log that a checkpoint uses.
pub(crate) trait SyncedLog: Send {
    /// Returns when entry `index` is durable. An entry that the log does not hold came from a
    /// snapshot, so there is nothing to wait for.
    fn wait_until_synced(&self, index: u64) -> io::Result<()>;
}

impl SyncedLog for Wal {
    fn wait_until_synced(&self, index: u64) -> io::Result<()> {
        while index < self.next_index() && !self.wait_synced(index, SYNC_WAIT)? {
            tracing::warn!(index, "the log's disk is slow; the checkpoint waits");
        }
        // A stopped log takes no entries, so the absence of an entry proves nothing.
        self.failed()
            .map_or(Ok(()), |failure| Err(failure.to_io_error()))
    }
}

/// Returns, between any two rows of a snapshot, whether the applied changes are due to be taken.
pub(crate) type Pace = Box<dyn FnMut() -> bool + Send>;

pub(crate) fn every_50_ms() -> Pace {
    let (mut last, mut asked) = (Instant::now(), 0_u32);
    Box::new(move || {
        asked = asked.wrapping_add(1);
        // Reading the clock for every row would cost half as much as the row itself.
        let is_time = asked % 64 == 0 && last.elapsed() >= EVERY;
        if is_time {
            last = Instant::now();
        }
        is_time
    })
}

pub(super) enum Job {
    Build(oneshot::Sender<io::Result<Option<(SnapshotFile, u64)>>>),
    Export(oneshot::Sender<io::Result<Exported>>),
    Install(SnapshotHandle, oneshot::Sender<io::Result<u64>>),
    Replace(Bad, oneshot::Sender<io::Result<()>>),
    Stop(oneshot::Sender<io::Result<()>>),
}

pub(crate) type Exported = (Arc<dyn DiskFile>, SnapshotFile);

pub(crate) struct CheckpointWorker {
    pub(crate) drain: Drain,
    pub(crate) store: Box<dyn StateStore>,
    pub(crate) log: Box<dyn SyncedLog>,
    pub(crate) place: Place,
    pub(crate) mark: Arc<InstalledMark>,
    pub(crate) pace: Pace,
    pub(crate) snapshots: PathBuf,
    /// The position that `store` contains.
    pub(crate) written: Option<LogId>,
    /// Set if changes were taken from the state and did not reach the store.
    pub(crate) lost: FirstError,
    /// Called once, if a checkpoint could not be written.
    pub(crate) on_failure: Box<dyn Fn(io::Error) + Send>,
}

/// The index of the older kept snapshot; 0 if there is only one.
fn older_kept(disk: &dyn Disk, snapshots: &Path) -> io::Result<u64> {
    Ok(snapshot_file::list(disk, snapshots)?
        .get(1)
        .map_or(0, |file| file.index))
}

impl CheckpointWorker {
    pub(super) fn run(mut self, inbox: &mpsc::Receiver<Job>, size: &AtomicU64) {
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            tracing::warn!(%error, "the priority of the checkpoint thread could not be lowered");
        }
        let (mut measured, mut wait) = (Instant::now(), EVERY);
        loop {
            if measured.elapsed() >= MEASURE_EVERY {
                size.store(self.store.disk_bytes(), Ordering::Relaxed);
                measured = Instant::now();
            }
            match inbox.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {
                    let before = self.written;
                    if let Err(error) = self.checkpoint() {
                        (self.on_failure)(error);
                        return;
                    }
                    wait = if self.written == before {
                        (wait * 2).min(IDLE_AT_MOST)
                    } else {
                        EVERY
                    };
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

    /// Performs a job. For a stop, returns the sender that waits for its end.
    pub(super) fn perform(&mut self, job: Job) -> Option<oneshot::Sender<io::Result<()>>> {
        match job {
            Job::Build(answer) => {
                let _ = answer.send(self.build_if_room());
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

    pub(super) fn stop(mut self) -> io::Result<()> {
        self.checkpoint()?;
        self.store.close()
    }

    /// Copies the changes since the last checkpoint to the store.
    pub(crate) fn checkpoint(&mut self) -> io::Result<()> {
        self.lost.check()?;
        if self.drain.applied().read().applied == self.written && self.store.applied().is_some() {
            return Ok(());
        }
        let (changes, position) = self.drain.take()?;
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

    /// Builds a snapshot; `None` if the disk has no room for it. In that case the older kept
    /// snapshot, which only matters if the newest turns bad, is removed, and the caller retries.
    pub(super) fn build_if_room(&mut self) -> io::Result<Option<(SnapshotFile, u64)>> {
        match self.build() {
            // A write that did not fit remains an error, and so do the changes that it lost.
            Err(error) if snapshot_file::is_refusal(&error) && self.lost.check().is_ok() => {
                tracing::warn!(%error, "no room for a snapshot: it will be retried");
                snapshot_file::keep_newest(&*self.place.disk, &self.snapshots)?;
                Ok(None)
            }
            built => built.map(Some),
        }
    }

    /// Builds a snapshot of the store, and also returns the index of the older kept one. A store
    /// that has grown out of proportion is rebuilt from the snapshot.
    pub(crate) fn build(&mut self) -> io::Result<(SnapshotFile, u64)> {
        self.checkpoint()?;
        snapshot_file::check_room(&*self.place.disk, &self.snapshots, 0)?;
        let (taken, mut staging) = self.stream();
        let disk = Arc::clone(&self.place.disk);
        // The oldest snapshot is removed first, because a rebuilt store needs the space.
        let taken = taken.and_then(|writer| {
            let file = writer.finish()?;
            snapshot_file::keep_two(&*disk, &self.snapshots)?;
            Ok(file)
        });
        let rebuilt = match &taken {
            Ok(file) => self.rebuild_oversized(file, &mut staging),
            Err(_) => Ok(()),
        };
        self.lost.note(rebuilt)?;
        self.end_stream(staging)?;
        let file = taken?;
        let floor = older_kept(&*disk, &self.snapshots)?;
        tracing::info!(
            index = file.index,
            rows = file.rows,
            bytes = file.len,
            "snapshot taken"
        );
        Ok((file, floor))
    }

    /// Takes a snapshot without a name, even if one of this entry is kept, because that one's
    /// blocks were not verified since the start.
    pub(crate) fn export(&mut self) -> io::Result<Exported> {
        self.checkpoint()?;
        if self.written.is_none() {
            return Err(io::Error::other("no entry was applied yet"));
        }
        // Rows take less space in a snapshot than in the store.
        let disk = &*self.place.disk;
        snapshot_file::check_room_to_export(disk, &self.snapshots, self.store.disk_bytes())?;
        self.take()?.finish_unnamed()
    }

    /// Streams the store into a file, and then writes the changes that were applied meanwhile to
    /// the store.
    fn take(&mut self) -> io::Result<SnapshotWriter> {
        let (taken, staging) = self.stream();
        self.end_stream(staging).and(taken)
    }

    /// Streams the store into a file. Also returns the changes that were applied meanwhile, which
    /// the store lacks.
    fn stream(&mut self) -> (io::Result<SnapshotWriter>, Staging) {
        let term = self.written.map_or(0, |id| **id.committed_leader_id());
        let mut staging = Staging::new(&self.place.disk, &self.snapshots, self.written);
        let (drain, pace) = (&self.drain, &mut self.pace);
        let taken = snapshot_file::take(
            &*self.store,
            &self.place.disk,
            &self.snapshots,
            &self.place.cluster_id,
            term,
            &mut || {
                if pace() { staging.stage(drain) } else { Ok(()) }
            },
        );
        (taken, staging)
    }

    /// Writes the changes that were applied during the stream to the store.
    fn end_stream(&mut self, staging: Staging) -> io::Result<()> {
        let caught_up = self.catch_up(staging);
        let caught_up = self.lost.note(caught_up);
        if let Err(error) = &caught_up {
            tracing::error!(%error, "the entries that were applied during a snapshot are missing \
                in the checkpoint");
        }
        caught_up
    }

    /// Rebuilds the store as its next generation from a snapshot of its content, if its files have
    /// grown out of proportion. sled itself releases no space.
    fn rebuild_oversized(&mut self, file: &SnapshotFile, staging: &mut Staging) -> io::Result<()> {
        let (bytes, disk) = (self.store.disk_bytes(), &*self.place.disk);
        let known = disk.space(&self.snapshots);
        let disk_bytes = known.map_or(u64::MAX, |space| space.total);
        if !is_oversized(bytes, file.len, disk_bytes) || is_out!(StoreRebuilt) {
            return Ok(());
        }
        let needed = file.len.saturating_mul(snapshot_file::FRESH_STORE_PER_ROW);
        if let Err(error) = snapshot_file::check_room(disk, &self.snapshots, needed) {
            tracing::warn!(%error, bytes, "the checkpoint could not be compacted");
            return Ok(());
        }
        let (drain, pace) = (&self.drain, &mut self.pace);
        let rebuilt = snapshot_file::rebuild(file, &self.place, &mut || {
            if pace() {
                staging.stage(drain)?;
                snapshot_file::check_room(disk, &self.snapshots, 0)
            } else {
                Ok(())
            }
        });
        match rebuilt {
            Ok(store) => self.store = store,
            Err(NotMade::Unchanged(error)) if error.kind() == io::ErrorKind::StorageFull => {
                tracing::warn!(%error, bytes, "the checkpoint could not be compacted");
                return Ok(());
            }
            Err(not_made) => return Err(not_made.into()),
        }
        let smaller = self.store.disk_bytes();
        tracing::info!(bytes, smaller, "the checkpoint was compacted");
        Ok(())
    }

    /// Writes the staged changes. More changes are staged meanwhile, so that `apply` is never
    /// delayed for long; the last of them are left to the next checkpoint. On a disk that is slower
    /// than the load, this would not end. The changes that are staged meanwhile are therefore
    /// limited to the amount that was staged before.
    fn catch_up(&mut self, mut staging: Staging) -> io::Result<()> {
        let most = staging.staged_bytes().saturating_mul(2);
        while let Some((changes, position)) = staging.pop()? {
            let is_last = staging.is_empty();
            self.write(changes, &position)?;
            if !is_last && staging.staged_bytes() < most {
                staging.stage(&self.drain)?;
            }
        }
        Ok(())
    }

    /// Copies a snapshot from another folder, as if a leader had sent it.
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

    /// Replaces the state by a snapshot's. The order is: set the mark that the log may end before
    /// it, put the file into place, build a new generation of the store, replace the state in
    /// memory. A crash in between leaves either the old state or the new one.
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
        let before = {
            let mut core = self.drain.applied().write();
            core.applied = id;
            core.membership = membership;
            mem::replace(&mut core.state, state)
        };
        // Dropped without the lock, because a large state takes long to drop and this thread has a
        // low priority.
        drop(before);
        self.written = id;
        snapshot_file::void_older(&*self.place.disk, &self.snapshots, file.index)?;
        tracing::info!(index = file.index, rows = file.rows, "snapshot installed");
        Ok(file.index)
    }

    /// Sets a bad snapshot aside and takes another. If it is the only one, it keeps its name until
    /// another can be sent, because openraft ends if it requests a snapshot and none exists. A new
    /// snapshot of the same entry replaces the file.
    ///
    /// openraft has no record of the new snapshot. It uses the older position, and purges less.
    fn replace(&mut self, bad: &Bad) -> io::Result<()> {
        let bad = slice::from_ref(bad);
        let kept = snapshot_file::list(&*self.place.disk, &self.snapshots)?;
        let is_only = kept.iter().all(|file| file.path == bad[0].path);
        if !is_only {
            snapshot_file::set_aside(&*self.place.disk, &self.snapshots, bad)?;
        }
        let (file, _) = self.build()?;
        if !is_only {
            return Ok(());
        }
        if file.path != bad[0].path {
            return snapshot_file::set_aside(&*self.place.disk, &self.snapshots, bad);
        }
        let Bad { path, why, .. } = &bad[0];
        tracing::warn!(path = %path.display(), %why, "a snapshot was damaged and was replaced");
        Ok(())
    }
}
