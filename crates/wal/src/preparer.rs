//! A helper thread for what would stall the writer: zero-filling the next segment, and removing
//! segments that a purge emptied.

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

/// The writer's end. At most one segment is asked for, or held ready, at a time.
pub(crate) struct Preparer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    seeds: Seeds,
    /// `None`: the caller does it all itself, see [`crate::Pump`].
    helper: Option<Helper>,
    stage: Stage,
}

struct Helper {
    jobs: Option<Sender<Job>>,
    ready: Receiver<Result<Prepared, WalFailure>>,
    thread: Option<JoinHandle<()>>,
}

enum Stage {
    Idle,
    Asked,
    Ready(Prepared),
}

impl Preparer {
    /// One that works on its caller's thread.
    pub(crate) fn inline(disk: Arc<dyn Disk>, dir: PathBuf, seeds: Seeds) -> Self {
        Self {
            disk,
            dir,
            seeds,
            helper: None,
            stage: Stage::Idle,
        }
    }

    /// One that works on a thread of its own.
    pub(crate) fn spawn(disk: Arc<dyn Disk>, dir: PathBuf, seeds: Seeds) -> io::Result<Self> {
        let (jobs, todo) = mpsc::channel();
        let (made, ready) = mpsc::channel();
        let (on, at, from) = (Arc::clone(&disk), dir.clone(), Arc::clone(&seeds));
        let thread = thread::Builder::new()
            .name("seqd-wal-prepare".into())
            .spawn(move || {
                for job in todo {
                    match job {
                        Job::Prepare { number, len } => {
                            let prepared = Prepared::create(&*on, &at, number, len, &from);
                            if made.send(prepared).is_err() {
                                return;
                            }
                        }
                        Job::Remove(numbers) => remove(&*on, &at, &numbers),
                    }
                }
            })?;
        let mut preparer = Self::inline(disk, dir, seeds);
        preparer.helper = Some(Helper {
            jobs: Some(jobs),
            ready,
            thread: Some(thread),
        });
        Ok(preparer)
    }

    /// Has the segment made, unless one was asked for already.
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
                let made = self.create(number, len);
                self.hold(made);
            }
        }
    }

    /// The segment `number` with at least `len` bytes; waits for it, and asks again if the one
    /// made ahead is too short or could not be made (the disk may have room again: the failed
    /// file was thrown away whole, so no sync is repeated).
    pub(crate) fn take(&mut self, number: SegmentNumber, len: u64) -> Result<Prepared, WalFailure> {
        if let (Stage::Asked, Some(helper)) = (&self.stage, &self.helper) {
            let made = helper.recv(number);
            self.stage = Stage::Idle;
            self.hold(made);
        }
        match mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Ready(ready) if ready.number == number && ready.len >= len => return Ok(ready),
            Stage::Ready(unfit) => unfit.discard(&*self.disk),
            _ => {}
        }
        match &self.helper {
            Some(helper) if helper.send(Job::Prepare { number, len }) => helper.recv(number),
            Some(_) => Err(gone(number)),
            None => self.create(number, len),
        }
    }

    /// Has segments removed, oldest first.
    pub(crate) fn remove(&mut self, numbers: Vec<SegmentNumber>) {
        match &self.helper {
            Some(helper) => drop(helper.send(Job::Remove(numbers))),
            None => remove(&*self.disk, &self.dir, &numbers),
        }
    }

    fn create(&self, number: SegmentNumber, len: u64) -> Result<Prepared, WalFailure> {
        Prepared::create(&*self.disk, &self.dir, number, len, &self.seeds)
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
        self.jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok())
    }

    fn recv(&self, number: SegmentNumber) -> Result<Prepared, WalFailure> {
        self.ready.recv().unwrap_or_else(|_| Err(gone(number)))
    }
}

impl Drop for Preparer {
    /// Lets the thread finish what it was asked for, and removes what nobody will use.
    fn drop(&mut self) {
        if let Stage::Ready(prepared) = mem::replace(&mut self.stage, Stage::Idle) {
            prepared.discard(&*self.disk);
        }
        let Some(mut helper) = self.helper.take() else {
            return;
        };
        helper.jobs = None;
        for prepared in helper.ready.iter().flatten() {
            prepared.discard(&*self.disk);
        }
        if let Some(thread) = helper.thread.take() {
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
