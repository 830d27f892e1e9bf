//! Performs the work that would stall the writer on a separate thread: zero-fills the next segment
//! and removes purged segments.
//!
//! The next segment is filled piece by piece while the writer advances. The replicas of a log fill
//! their segments at the same time. At the full speed of the disk, which they may share, this would
//! delay the syncs of the writers for half a second.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::{io, mem};

use crate::error::{FailedStep, WalFailure};
use crate::segment::{PIECE_BYTES, Prepared, Seeds, SegmentNumber, Unfinished};
use seqd_disk::Disk;

enum Job {
    Begin {
        number: SegmentNumber,
        len: u64,
    },
    /// Fills the segment up to this offset. Ignored if none was begun, or if it failed.
    Fill {
        upto: u64,
    },
    Remove(Vec<SegmentNumber>),
}

/// The writer's handle. At most one segment is being filled or ready at a time.
pub(crate) struct Preparer {
    disk: Arc<dyn Disk>,
    maker: Run,
    stage: Stage,
}

enum Run {
    /// The caller's thread does the work, see [`crate::Pump`].
    Inline(Maker),
    Thread(Helper),
    Ended,
}

struct Helper {
    jobs: Sender<Job>,
    /// One result for each begun segment, when it is finished or has failed.
    made: Receiver<Result<Prepared, WalFailure>>,
    thread: JoinHandle<()>,
}

enum Stage {
    Idle,
    /// A segment was begun and is filled up to this offset.
    Filling(u64),
    Ready(Prepared),
}

impl Preparer {
    pub(crate) fn inline(disk: Arc<dyn Disk>, dir: PathBuf, seeds: Seeds) -> Self {
        Self {
            maker: Run::Inline(Maker::new(Arc::clone(&disk), dir, seeds)),
            disk,
            stage: Stage::Idle,
        }
    }

    pub(crate) fn spawn(disk: Arc<dyn Disk>, dir: PathBuf, seeds: Seeds) -> io::Result<Self> {
        let (jobs, todo) = mpsc::channel();
        let (results, made) = mpsc::channel();
        let mut maker = Maker::new(Arc::clone(&disk), dir, seeds);
        let thread = thread::Builder::new()
            .name("seqd-wal-prepare".into())
            .spawn(move || {
                for job in todo {
                    if let Some(result) = maker.perform(job)
                        && results.send(result).is_err()
                    {
                        return;
                    }
                }
            })?;
        Ok(Self {
            disk,
            maker: Run::Thread(Helper { jobs, made, thread }),
            stage: Stage::Idle,
        })
    }

    /// Requests that the segment is filled up to an offset. Fills it in the background.
    pub(crate) fn prepare(&mut self, number: SegmentNumber, len: u64, upto: u64) {
        let upto = match upto < len {
            true => upto - upto % PIECE_BYTES,
            false => len,
        };
        match self.stage {
            Stage::Ready(_) => return,
            Stage::Filling(before) if upto <= before => return,
            Stage::Filling(_) => {}
            Stage::Idle => {
                self.stage = Stage::Filling(0);
                let made = self.run(Job::Begin { number, len });
                self.hold(made);
            }
        }
        if let Stage::Filling(before) = &mut self.stage {
            *before = upto;
            let made = self.run(Job::Fill { upto });
            self.hold(made);
        }
    }

    /// Returns the segment `number` with at least `len` bytes. Waits for it, and makes another one
    /// if the prepared segment is too short or failed. A failed file is discarded as a whole, so no
    /// sync is repeated, and the disk may have space again.
    pub(crate) fn take(&mut self, number: SegmentNumber, len: u64) -> Result<Prepared, WalFailure> {
        if matches!(self.stage, Stage::Filling(_)) {
            let made = self.finish(number);
            self.hold(Some(made));
        }
        match mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Ready(ready) if ready.number == number && ready.len >= len => return Ok(ready),
            Stage::Ready(unfit) => unfit.discard(&*self.disk),
            Stage::Filling(_) | Stage::Idle => {}
        }
        match self.run(Job::Begin { number, len }) {
            Some(failed) => failed,
            None => self.finish(number),
        }
    }

    pub(crate) fn remove(&mut self, numbers: Vec<SegmentNumber>) {
        self.run(Job::Remove(numbers));
    }

    /// Performs a job. Returns the segment that it has finished, or its failure, unless the thread
    /// performs it.
    fn run(&mut self, job: Job) -> Option<Result<Prepared, WalFailure>> {
        match &mut self.maker {
            Run::Inline(maker) => maker.perform(job),
            Run::Thread(helper) => {
                helper.send(job);
                None
            }
            Run::Ended => None,
        }
    }

    /// Fills the segment that was begun to its end, and waits for it.
    fn finish(&mut self, number: SegmentNumber) -> Result<Prepared, WalFailure> {
        let made = self.run(Job::Fill { upto: u64::MAX });
        made.unwrap_or_else(|| match &self.maker {
            Run::Thread(helper) => helper.receive(number),
            Run::Inline(_) | Run::Ended => Err(gone(number)),
        })
    }

    fn hold(&mut self, made: Option<Result<Prepared, WalFailure>>) {
        self.stage = match made {
            None => return,
            Some(Ok(prepared)) => Stage::Ready(prepared),
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot prepare the next segment");
                Stage::Idle
            }
        };
    }
}

impl Helper {
    /// Without an effect if the thread has ended; `receive` reports it.
    fn send(&self, job: Job) {
        let _ = self.jobs.send(job);
    }

    fn receive(&self, number: SegmentNumber) -> Result<Prepared, WalFailure> {
        self.made.recv().unwrap_or_else(|_| Err(gone(number)))
    }
}

impl Drop for Preparer {
    /// Lets the thread finish its jobs, and removes the prepared or unfinished segment.
    fn drop(&mut self) {
        if let Stage::Ready(prepared) = mem::replace(&mut self.stage, Stage::Idle) {
            prepared.discard(&*self.disk);
        }
        if let Run::Thread(helper) = mem::replace(&mut self.maker, Run::Ended) {
            drop(helper.jobs);
            for prepared in helper.made.iter().flatten() {
                prepared.discard(&*self.disk);
            }
            // The thread panics only with a disk of a test.
            let _ = helper.thread.join();
        }
    }
}

/// Creates and removes segments.
struct Maker {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    seeds: Seeds,
    unfinished: Option<Unfinished>,
    /// True once a removal failed.
    failed: bool,
}

impl Maker {
    fn new(disk: Arc<dyn Disk>, dir: PathBuf, seeds: Seeds) -> Self {
        Self {
            disk,
            dir,
            seeds,
            unfinished: None,
            failed: false,
        }
    }

    /// Performs a job. Returns the segment that it has finished, or its failure.
    fn perform(&mut self, job: Job) -> Option<Result<Prepared, WalFailure>> {
        match job {
            Job::Begin { number, len } => {
                match Unfinished::create(&*self.disk, &self.dir, number, len, &self.seeds) {
                    Ok(unfinished) => self.unfinished = Some(unfinished),
                    Err(failure) => return Some(Err(failure)),
                }
                None
            }
            Job::Fill { upto } => {
                let mut unfinished = self.unfinished.take()?;
                match unfinished.fill(upto) {
                    Ok(true) => Some(Ok(unfinished.finished())),
                    Ok(false) => {
                        self.unfinished = Some(unfinished);
                        None
                    }
                    Err(failure) => Some(Err(failure)),
                }
            }
            Job::Remove(numbers) => {
                self.remove(&numbers);
                None
            }
        }
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

impl Drop for Maker {
    fn drop(&mut self) {
        if let Some(unfinished) = self.unfinished.take() {
            unfinished.finished().discard(&*self.disk);
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
