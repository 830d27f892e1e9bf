//! Performs the work that would stall the writer on a separate thread: zero-fills the next segment
//! and removes purged segments.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::{io, mem};

use crate::error::{FailedStep, WalFailure};
use crate::segment::{Prepared, Seeds, SegmentNumber};
use seqd_disk::Disk;

enum Job {
    Prepare { number: SegmentNumber, len: u64 },
    Remove(Vec<SegmentNumber>),
}

/// The writer's handle. At most one segment is requested or ready at a time.
pub(crate) struct Preparer {
    maker: Maker,
    /// `None` if the caller's thread does the work, see [`crate::Pump`].
    helper: Option<Helper>,
    stage: Stage,
}

struct Helper {
    jobs: Sender<Job>,
    ready: Receiver<Result<Prepared, WalFailure>>,
    thread: JoinHandle<()>,
}

enum Stage {
    Idle,
    Asked,
    Ready(Prepared),
}

impl Preparer {
    pub(crate) fn inline(disk: Arc<dyn Disk>, dir: PathBuf, seeds: Seeds) -> Self {
        Self {
            maker: Maker::new(disk, dir, seeds),
            helper: None,
            stage: Stage::Idle,
        }
    }

    pub(crate) fn spawn(disk: Arc<dyn Disk>, dir: PathBuf, seeds: Seeds) -> io::Result<Self> {
        let (jobs, todo) = mpsc::channel();
        let (made, ready) = mpsc::channel();
        let maker = Maker::new(disk, dir, seeds);
        let mut worker = maker.clone();
        let thread = thread::Builder::new()
            .name("seqd-wal-prepare".into())
            .spawn(move || {
                for job in todo {
                    match job {
                        Job::Prepare { number, len } => {
                            if made.send(worker.create(number, len)).is_err() {
                                return;
                            }
                        }
                        Job::Remove(numbers) => worker.remove(&numbers),
                    }
                }
            })?;
        Ok(Self {
            maker,
            helper: Some(Helper {
                jobs,
                ready,
                thread,
            }),
            stage: Stage::Idle,
        })
    }

    /// Requests the segment, unless one is already requested.
    pub(crate) fn prepare(&mut self, number: SegmentNumber, len: u64) {
        if !matches!(self.stage, Stage::Idle) {
            return;
        }
        match &self.helper {
            Some(helper) => {
                if helper.send(Job::Prepare { number, len }) {
                    self.stage = Stage::Asked;
                }
            }
            None => {
                let made = self.maker.create(number, len);
                self.hold(made);
            }
        }
    }

    /// Returns the segment `number` with at least `len` bytes. Waits for it, and requests another
    /// one if the prepared segment is too short or failed. A failed file is discarded as a whole,
    /// so no sync is repeated, and the disk may have space again.
    pub(crate) fn take(&mut self, number: SegmentNumber, len: u64) -> Result<Prepared, WalFailure> {
        if let (Stage::Asked, Some(helper)) = (&self.stage, &self.helper) {
            let made = helper.recv(number);
            self.stage = Stage::Idle;
            self.hold(made);
        }
        match mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Ready(ready) if ready.number == number && ready.len >= len => return Ok(ready),
            Stage::Ready(unfit) => unfit.discard(&*self.maker.disk),
            _ => {}
        }
        match &self.helper {
            Some(helper) if helper.send(Job::Prepare { number, len }) => helper.recv(number),
            Some(_) => Err(gone(number)),
            None => self.maker.create(number, len),
        }
    }

    pub(crate) fn remove(&mut self, numbers: Vec<SegmentNumber>) {
        match &self.helper {
            Some(helper) => drop(helper.send(Job::Remove(numbers))),
            None => self.maker.remove(&numbers),
        }
    }

    fn hold(&mut self, made: Result<Prepared, WalFailure>) {
        match made {
            Ok(prepared) => self.stage = Stage::Ready(prepared),
            Err(error) => tracing::warn!(%error, "cannot prepare the next segment"),
        }
    }
}

impl Helper {
    fn send(&self, job: Job) -> bool {
        self.jobs.send(job).is_ok()
    }

    fn recv(&self, number: SegmentNumber) -> Result<Prepared, WalFailure> {
        self.ready.recv().unwrap_or_else(|_| Err(gone(number)))
    }
}

impl Drop for Preparer {
    /// Lets the thread finish its jobs, and removes prepared segments.
    fn drop(&mut self) {
        if let Stage::Ready(prepared) = mem::replace(&mut self.stage, Stage::Idle) {
            prepared.discard(&*self.maker.disk);
        }
        let Some(helper) = self.helper.take() else {
            return;
        };
        drop(helper.jobs);
        for prepared in helper.ready.iter().flatten() {
            prepared.discard(&*self.maker.disk);
        }
        // The thread panics only with a disk of a test.
        let _ = helper.thread.join();
    }
}

/// Creates and removes segments.
#[derive(Clone)]
struct Maker {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    seeds: Seeds,
    /// True once a removal failed.
    failed: bool,
}

impl Maker {
    fn new(disk: Arc<dyn Disk>, dir: PathBuf, seeds: Seeds) -> Self {
        Self {
            disk,
            dir,
            seeds,
            failed: false,
        }
    }

    fn create(&self, number: SegmentNumber, len: u64) -> Result<Prepared, WalFailure> {
        Prepared::create(&*self.disk, &self.dir, number, len, &self.seeds)
    }

    /// Each removal is made durable before the next one, so that a power cut leaves no gap. After a
    /// failure nothing more is removed, because a later segment must not be removed before an
    /// earlier one, and a failed sync is not retried. The next open removes the rest.
    fn remove(&mut self, numbers: &[SegmentNumber]) {
        for number in numbers {
            if self.failed {
                return;
            }
            let path = number.path(&self.dir);
            let removed = self.disk.remove(&path);
            if let Err(error) = removed.and_then(|()| self.disk.sync_dir(&self.dir)) {
                tracing::warn!(
                    path = %path.display(), %error,
                    "cannot remove a purged segment; no segment is removed until the next start"
                );
                self.failed = true;
            }
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
