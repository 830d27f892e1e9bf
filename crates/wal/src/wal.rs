//! The handle: what callers see of the log.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::disk::{Disk, OsDisk};
use crate::error::{WalError, WalFailure};
use crate::stats::WalStats;

/// A callback, run on the writer thread: `Ok` only after `fdatasync`, in the order of the calls.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place in the log.
    pub index: u64,
    /// Its bytes, which the log does not look into.
    pub bytes: Vec<u8>,
}

/// How a log is kept.
#[derive(Clone)]
pub struct WalOptions {
    /// The folder of the segments; made if it is missing.
    pub dir: PathBuf,
    /// Size of a segment file in bytes.
    pub segment_bytes: u64,
    /// A batch takes no further call once it has this many bytes.
    pub max_batch_bytes: usize,
    /// A call waits while this many bytes are queued.
    pub max_queue_bytes: usize,
    /// An idle log writes its witness after this long.
    pub witness_after: Duration,
    /// Where files are.
    pub disk: Arc<dyn Disk>,
}

impl WalOptions {
    /// The defaults for a folder.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            segment_bytes: 16 << 20,
            max_batch_bytes: 4 << 20,
            max_queue_bytes: 64 << 20,
            witness_after: Duration::from_millis(500),
            disk: Arc::new(OsDisk),
        }
    }
}

/// What an open found. All of it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The folder held no segment: this log was founded by this open.
    pub created: bool,
    /// The last saved vote.
    pub vote: Option<Vec<u8>>,
    /// The last saved committed mark that reached the disk; it may be older than the last saved.
    pub committed: Option<Vec<u8>>,
    /// The highest purged index and the bytes given with it.
    pub purged: Option<(u64, Vec<u8>)>,
    /// Index of the first entry; of the next one to come if there is none.
    pub first_index: u64,
    /// The last entry.
    pub last: Option<(u64, Vec<u8>)>,
    /// What was cut off, if the last write before was interrupted.
    pub torn: Option<TornTail>,
}

/// The remains of an interrupted write, cut off and zeroed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The segment.
    pub path: PathBuf,
    /// Where the log ends, in bytes from the file's start.
    pub offset: u64,
    /// How far the remains reached beyond that.
    pub bytes: u64,
}

/// The log. Clones share it; it closes with [`Wal::close`] or with the last clone.
#[derive(Clone)]
pub struct Wal {}

impl Wal {
    /// Opens the log in `options.dir`, or founds one there.
    pub fn open(_options: WalOptions) -> Result<(Self, Recovered), WalError> {
        Err(WalError::Option {
            name: "dir",
            why: "not built yet".into(),
        })
    }

    /// Queues entries; they are readable when this returns. Indexes must follow the last entry
    /// (the first entry of a log that is empty and was never purged may have any).
    pub fn append(&self, _records: Vec<Record>, done: Done) {
        done(Err(io::ErrorKind::Unsupported.into()));
    }

    /// Queues a vote.
    pub fn save_vote(&self, _vote: Vec<u8>, done: Done) {
        done(Err(io::ErrorKind::Unsupported.into()));
    }

    /// Remembers a committed mark; it rides along with the next batch, and nobody is told.
    pub fn save_committed(&self, _committed: Vec<u8>) {}

    /// Queues the removal of all entries after `index`; of all entries if `None`.
    pub fn truncate_after(&self, _index: Option<u64>, done: Done) {
        done(Err(io::ErrorKind::Unsupported.into()));
    }

    /// Queues the removal of all entries up to and including `upto`.
    pub fn purge(&self, _upto: u64, _meta: Vec<u8>, done: Done) {
        done(Err(io::ErrorKind::Unsupported.into()));
    }

    /// The entries that exist in `range`, from its start, at most `max_bytes` (but one at least).
    pub fn read(&self, _range: Range<u64>, _max_bytes: usize) -> io::Result<Vec<Record>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Index of the first entry; of the next one to come if there is none.
    pub fn first_index(&self) -> u64 {
        0
    }

    /// Index that the next entry must have.
    pub fn next_index(&self) -> u64 {
        0
    }

    /// The highest index that is durable, purged ones included.
    pub fn synced_index(&self) -> Option<u64> {
        None
    }

    /// Waits until `index` is durable: `Ok(true)`; `Ok(false)` when `timeout` passed before.
    pub fn wait_synced(&self, _index: u64, _timeout: Duration) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Why the log stopped, if it did. It never works again in this process.
    pub fn failed(&self) -> Option<WalFailure> {
        None
    }

    /// Counters.
    pub fn stats(&self) -> WalStats {
        WalStats::default()
    }

    /// Writes and syncs all that is queued, runs the callbacks, and ends the writer thread.
    /// Later calls are told [`io::ErrorKind::BrokenPipe`]; reads go on.
    pub fn close(&self) -> io::Result<()> {
        Ok(())
    }
}
