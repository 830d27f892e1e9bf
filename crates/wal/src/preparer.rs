//! A helper thread for what would stall the writer: zero-filling the next segment, and removing
//! segments that a purge emptied.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::{io, mem};

use crate::error::{FailedStep, WalFailure};
use crate::segment::{Prepared, SegmentNumber};
use seqd_disk::Disk;

enum Job {
    Prepare { number: SegmentNumber, len: u64 },
    Remove(Vec<SegmentNumber>),
}

/// The writer's end. At most one segment is asked for, or held ready, at a time.
pub(crate) struct Preparer {
    disk: Arc<dyn Disk>,
    jobs: Option<Sender<Job>>,
    ready: Receiver<Result<Prepared, WalFailure>>,
    stage: Stage,
    thread: Option<JoinHandle<()>>,
}

enum Stage {
    Idle,
    Asked,
    Ready(Prepared),
}

impl Preparer {
    pub(crate) fn spawn(disk: Arc<dyn Disk>, dir: PathBuf) -> io::Result<Self> {
        let (jobs, todo) = mpsc::channel();
        let (made, ready) = mpsc::channel();
        let on = Arc::clone(&disk);
        let thread = thread::Builder::new()
            .name("seqd-wal-prepare".into())
            .spawn(move || {
                for job in todo {
                    match job {
                        Job::Prepare { number, len } => {
                            if made
                                .send(Prepared::create(&*on, &dir, number, len))
                                .is_err()
                            {
                                return;
                            }
                        }
                        Job::Remove(numbers) => remove(&*on, &dir, &numbers),
                    }
                }
            })?;
        Ok(Self {
            disk,
            jobs: Some(jobs),
            ready,
            stage: Stage::Idle,
            thread: Some(thread),
        })
    }

    /// Has the segment made, unless one was asked for already.
    pub(crate) fn prepare(&mut self, number: SegmentNumber, len: u64) {
        if matches!(self.stage, Stage::Idle) && self.send(Job::Prepare { number, len }) {
            self.stage = Stage::Asked;
        }
    }

    /// The segment `number` with at least `len` bytes; waits for it, and asks again if the one
    /// made ahead is too short or could not be made (the disk may have room again: the failed
    /// file was thrown away whole, so no sync is repeated).
    pub(crate) fn take(&mut self, number: SegmentNumber, len: u64) -> Result<Prepared, WalFailure> {
        match mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Ready(prepared) => self.stage = Stage::Ready(prepared),
            Stage::Asked => match self.ready.recv() {
                Ok(Ok(prepared)) => self.stage = Stage::Ready(prepared),
                Ok(Err(error)) => tracing::warn!(%error, "cannot prepare the next segment"),
                Err(mpsc::RecvError) => {}
            },
            Stage::Idle => {}
        }
        match mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Ready(ready) if ready.number == number && ready.len >= len => return Ok(ready),
            Stage::Ready(unfit) => unfit.discard(&*self.disk),
            _ => {}
        }
        if !self.send(Job::Prepare { number, len }) {
            return Err(gone(number));
        }
        self.ready.recv().unwrap_or_else(|_| Err(gone(number)))
    }

    /// Has segments removed, oldest first.
    pub(crate) fn remove(&mut self, numbers: Vec<SegmentNumber>) {
        self.send(Job::Remove(numbers));
    }

    fn send(&self, job: Job) -> bool {
        self.jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok())
    }
}

impl Drop for Preparer {
    /// Lets the thread finish what it was asked for, and removes what nobody will use.
    fn drop(&mut self) {
        self.jobs = None;
        if let Stage::Ready(prepared) = mem::replace(&mut self.stage, Stage::Idle) {
            prepared.discard(&*self.disk);
        }
        for prepared in self.ready.iter().flatten() {
            prepared.discard(&*self.disk);
        }
        if let Some(thread) = self.thread.take() {
            // It panics only inside a disk that a test put there.
            let _ = thread.join();
        }
    }
}

/// Each removal is durable before the next one: after a power cut, what is left must begin
/// somewhere and have no holes. A failure is only told: the next open removes the rest.
fn remove(disk: &dyn Disk, dir: &std::path::Path, numbers: &[SegmentNumber]) {
    for number in numbers {
        let path = number.path(dir);
        if let Err(error) = disk.remove(&path).and_then(|()| disk.sync_dir(dir)) {
            tracing::warn!(path = %path.display(), %error, "cannot remove a purged segment");
            return;
        }
    }
}

fn gone(number: SegmentNumber) -> WalFailure {
    let source = io::Error::other("the thread that prepares segments has ended");
    WalFailure::new(
        FailedStep::NewSegment,
        std::path::Path::new(&number.file_name()),
        &source,
    )
}
