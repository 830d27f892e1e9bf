//! The handle of the log, which callers use.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use crate::clock::{Clock, monotonic};
use crate::error::{WalError, WalFailure};
use crate::format::{BatchBuffer, RECORD_HEADER_BYTES};
use crate::preparer::Preparer;
use crate::pump::Pump;
use crate::queue::{Done, Op, Record, Shared, State};
use crate::read;
use crate::recovery::{self, Recovered};
use crate::segment::{Seeds, random_seeds};
use crate::stats::WalStats;
use crate::writer::Writer;
use seqd_disk::{Disk, OsDisk};

/// The options of a log. [`WalOptions::new`] has the defaults.
#[derive(Clone)]
pub struct WalOptions {
    /// The folder of the segments. It is created if it is missing.
    pub dir: PathBuf,
    /// The size of a segment file in bytes, 1 KiB to 1 GiB. A larger batch gets a longer segment.
    /// The default is 16 MiB: a node zero-fills one segment when it first starts and rewrites the
    /// unused rest of one at every open, which would take four times as long with 64 MiB.
    pub segment_bytes: u64,
    /// A batch accepts no further call once it has this many bytes. The default is 4 MiB: enough
    /// that the sync no longer dominates, and small enough that no call waits long for it.
    pub max_batch_bytes: usize,
    /// A call waits while this many bytes are queued. The default is 64 MiB, which limits the
    /// memory that a stalled disk can cost.
    pub max_queue_bytes: usize,
    /// The time after the last batch at which an idle log writes its witness. The default is half a
    /// second: including the sync, the witness is durable within a second.
    pub witness_after: Duration,
    pub disk: Arc<dyn Disk>,
    /// The clock. The default is the monotonic clock of the system; tests that must be reproducible
    /// set another.
    pub clock: Clock,
    /// Returns the seed of each new segment. It is random unless a test must be reproducible.
    pub segment_seeds: Arc<dyn Fn() -> io::Result<u32> + Send + Sync>,
}

impl WalOptions {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            segment_bytes: 16 << 20,
            max_batch_bytes: 4 << 20,
            max_queue_bytes: 64 << 20,
            witness_after: Duration::from_millis(500),
            disk: Arc::new(OsDisk),
            clock: monotonic(),
            segment_seeds: random_seeds(),
        }
    }

    fn check(&self) -> Result<(), WalError> {
        // Offsets in a segment are u32, and a batch adds slightly more than 1 GiB at most.
        if !(1 << 10..=1 << 30).contains(&self.segment_bytes) {
            let why = format!("{} is not within 1 KiB to 1 GiB", self.segment_bytes);
            return Err(WalError::Option {
                name: "segment_bytes",
                why,
            });
        }
        for (name, value) in [
            ("max_batch_bytes", self.max_batch_bytes),
            ("max_queue_bytes", self.max_queue_bytes),
        ] {
            if value == 0 || value > 1 << 30 {
                let why = format!("{value} is not within 1 byte to 1 GiB");
                return Err(WalError::Option { name, why });
            }
        }
        Ok(())
    }
}

/// The log. Clones share it. It is closed by [`Wal::close`] or with the last clone.
#[derive(Clone)]
pub struct Wal {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    driver: Driver,
}

enum Driver {
    Thread {
        id: ThreadId,
        handle: Mutex<Option<JoinHandle<()>>>,
    },
    Hand(Pump),
}

impl Wal {
    /// Opens the log in `options.dir`, or creates one there.
    pub fn open(options: WalOptions) -> Result<(Self, Recovered), WalError> {
        let dir = options.dir.clone();
        let cannot_start = |e| WalError::io(&dir, "start a thread for", e);
        let (writer, recovered) = open_writer(options, |disk, dir, seeds| {
            Preparer::spawn(disk, dir, seeds).map_err(cannot_start)
        })?;
        let shared = Arc::clone(&writer.shared);
        let thread = thread::Builder::new()
            .name("seqd-wal".into())
            .spawn(move || writer.run());
        let thread = thread.map_err(cannot_start)?;
        let driver = Driver::Thread {
            id: thread.thread().id(),
            handle: Mutex::new(Some(thread)),
        };
        Ok((Self::new(shared, driver), recovered))
    }

    /// Opens a log without threads, which only the [`Pump`] writes. It is for tests that must be
    /// reproducible. The rounds are those of the writer thread.
    pub fn open_manual(options: WalOptions) -> Result<(Self, Recovered, Pump), WalError> {
        let (writer, recovered) = open_writer(options, |disk, dir, seeds| {
            Ok(Preparer::inline(disk, dir, seeds))
        })?;
        let shared = Arc::clone(&writer.shared);
        let pump = Pump::new(writer);
        let wal = Self::new(shared, Driver::Hand(pump.clone()));
        Ok((wal, recovered, pump))
    }

    fn new(shared: Arc<Shared>, driver: Driver) -> Self {
        let inner = Inner { shared, driver };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Queues entries. They are readable when this returns. Indexes must follow the last entry (the
    /// first entry of an empty log that was never purged may have any index). Otherwise `done`
    /// receives [`io::ErrorKind::InvalidInput`] and nothing is queued.
    ///
    /// Like every queued call, it waits while the queue is full.
    pub fn append(&self, records: Vec<Record>, done: Done) {
        let bytes = records
            .iter()
            .map(|r| r.bytes.len() + RECORD_HEADER_BYTES)
            .sum();
        self.call(bytes, done, |state| state.append(records));
    }

    /// Returns whether the queue has space. A caller that must not block checks this before it
    /// queues anything.
    pub fn has_room(&self) -> bool {
        match &self.inner.driver {
            Driver::Thread { .. } => self.inner.shared.has_room(),
            Driver::Hand(_) => true,
        }
    }

    /// Blocks until the queue has space, the log has stopped or is being closed. A log without
    /// threads always has space.
    pub fn wait_for_room(&self) {
        if let Driver::Thread { .. } = &self.inner.driver {
            self.inner.shared.wait_for_room();
        }
    }

    /// Accepts the result of the open, as the first call that writes does: from now on an idle log
    /// adds a witness to its last batch. Until then no batch is added, so that a missing last
    /// segment still fits if it is restored. The repairs of an open are already complete.
    pub fn accept(&self) {
        self.inner.shared.accept();
    }

    /// Queues a vote. It replaces the previous one and survives every purge.
    pub fn save_vote(&self, vote: Vec<u8>, done: Done) {
        self.call(vote.len(), done, |_| Op::Vote(vote));
    }

    /// Saves a committed mark with the next batch, without a callback.
    pub fn save_committed(&self, committed: Vec<u8>) {
        self.inner.shared.set_committed(committed);
    }

    /// Queues the removal of all entries after `index`, or of all entries if it is `None`.
    pub fn truncate_after(&self, index: Option<u64>, done: Done) {
        self.call(0, done, |state| state.truncate_after(index));
    }

    /// Queues the removal of all entries up to and including `upto`. If `upto` is after the last
    /// entry, the log continues at `upto + 1`. `meta` is returned in [`Recovered::purged`].
    /// Segments are removed as a whole, some time after `done`.
    pub fn purge(&self, upto: u64, meta: Vec<u8>, done: Done) {
        self.call(meta.len(), done, |state| state.purge(upto, meta));
    }

    /// Returns the entries that exist in `range`, in order, beginning with the first: at most
    /// `max_bytes`, but at least one entry. Fails if the bytes of an entry are damaged.
    pub fn read(&self, range: Range<u64>, max_bytes: usize) -> io::Result<Vec<Record>> {
        read::read(&self.inner.shared, range, max_bytes)
    }

    /// Returns the index of the first entry, or of the next entry if there is none.
    pub fn first_index(&self) -> u64 {
        self.inner.shared.lock().index.first()
    }

    /// Returns the index after the last entry, including queued entries.
    pub fn next_index(&self) -> u64 {
        self.inner.shared.lock().index.next()
    }

    /// Returns the total size of all entries after `index` that are on the disk. It iterates over
    /// these entries, so do not call it for each of many entries.
    pub fn bytes_after(&self, index: u64) -> u64 {
        self.inner.shared.lock().index.bytes_after(index)
    }

    /// Returns the highest durable index, including purged ones. A truncation lowers it.
    pub fn synced_index(&self) -> Option<u64> {
        self.inner.shared.lock().synced
    }

    /// Waits until `index` is durable and returns `Ok(true)`, or `Ok(false)` after `timeout`. A log
    /// without threads instead writes the queued calls, and does not wait.
    pub fn wait_synced(&self, index: u64, timeout: Duration) -> io::Result<bool> {
        let timeout = match &self.inner.driver {
            Driver::Thread { .. } => timeout,
            Driver::Hand(pump) => {
                pump.run();
                Duration::ZERO
            }
        };
        self.inner.shared.wait_synced(index, timeout)
    }

    /// Returns the duration of the current write or sync, or `None` if there is none. A disk that
    /// hangs returns no error; only the duration reveals it.
    pub fn stalled_for(&self) -> Option<Duration> {
        self.inner.shared.stalled_for()
    }

    /// Returns the reason why the log stopped, if it did. It remains stopped in this process.
    pub fn failed(&self) -> Option<WalFailure> {
        self.inner.shared.lock().failure.clone()
    }

    pub fn stats(&self) -> WalStats {
        self.inner.shared.stats()
    }

    /// Writes and syncs all queued calls, runs the callbacks, and ends the writer. Later calls
    /// receive [`io::ErrorKind::BrokenPipe`]. Reads still work.
    pub fn close(&self) -> io::Result<()> {
        self.inner.close();
        self.failed()
            .map_or(Ok(()), |failure| Err(failure.to_io_error()))
    }

    fn call(&self, bytes: usize, done: Done, op: impl FnOnce(&mut State) -> Op) {
        let writer = match &self.inner.driver {
            Driver::Thread { id, .. } => Some(*id),
            Driver::Hand(_) => None,
        };
        self.inner.shared.call(bytes, writer, done, op);
    }
}

fn open_writer(
    options: WalOptions,
    preparer: impl FnOnce(Arc<dyn Disk>, PathBuf, Seeds) -> Result<Preparer, WalError>,
) -> Result<(Writer, Recovered), WalError> {
    options.check()?;
    let WalOptions {
        dir,
        segment_bytes,
        max_batch_bytes,
        max_queue_bytes,
        witness_after,
        disk,
        clock,
        segment_seeds,
    } = options;
    let opened = recovery::open(&*disk, &dir, segment_bytes, &segment_seeds)?;
    let shared = Shared::new(
        opened.marks.clone(),
        opened.index,
        opened.files,
        max_queue_bytes,
        clock,
    );
    let mut writer = Writer {
        preparer: preparer(Arc::clone(&disk), dir.clone(), segment_seeds)?,
        disk,
        dir,
        segment_bytes,
        max_batch_bytes,
        witness_after,
        unwitnessed_since: opened.unwitnessed.then(|| shared.now()),
        shared: Arc::new(shared),
        segment: opened.segment,
        older: opened.older,
        sequence: opened.sequence,
        marks: opened.marks,
        holdings: opened.holdings,
        buffer: BatchBuffer::default(),
    };
    writer.drop_dead_segments();
    Ok((writer, opened.recovered))
}

impl Inner {
    fn close(&self) {
        self.shared.close();
        match &self.driver {
            // A callback may hold the last clone, and the writer cannot wait for its own end.
            Driver::Thread { id, handle } if thread::current().id() != *id => {
                let mut handle = handle.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(handle) = handle.take() {
                    // Panics of the writer are caught and become a failure.
                    let _ = handle.join();
                }
            }
            Driver::Thread { .. } => {}
            Driver::Hand(pump) => pump.run(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}
