//! Loads the rows of a store at a start. One thread reads the store and another one loads the rows,
//! because each is about half of the work.

use std::io;
use std::mem;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, Scope, ScopedJoinHandle};

use seqd_state::StateLoader;

use super::{StateStore, Tally};
use crate::disk_errors::newer;

/// The size of a batch of rows that is passed between the threads: large enough that the transfer
/// costs nothing, and small enough that the rows are still in the processor's cache.
const BATCH_BYTES: usize = 64 << 10;

/// The number of batches that may wait for the loading thread.
const BATCHES_WAITING: usize = 4;

/// Loads the rows of a store that is being opened, before their digest is compared.
pub trait TakeRows: Default + Send + 'static {
    /// Loads one row. `hash` is its [`seqd_state::row_hash`].
    fn hashed_row(&mut self, key: &[u8], value: &[u8], hash: u128) -> io::Result<()>;

    /// Loads one row.
    fn row(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.hashed_row(key, value, seqd_state::row_hash(key, value))
    }
}

impl TakeRows for StateLoader {
    fn hashed_row(&mut self, key: &[u8], value: &[u8], hash: u128) -> io::Result<()> {
        StateLoader::hashed_row(self, key, value, hash).map_err(|error| {
            if error.is_newer() {
                newer(error.to_string())
            } else {
                io::Error::new(io::ErrorKind::InvalidData, error.to_string())
            }
        })
    }
}

/// The loaded rows of a store.
pub(super) struct TakenRows<R> {
    pub(super) tally: Tally,
    pub(super) rows: R,
    /// The reason why a row was not loaded. All rows are counted nevertheless.
    pub(super) refused: Option<io::Error>,
}

impl<R: TakeRows> TakenRows<R> {
    fn new() -> Self {
        Self {
            tally: Tally::default(),
            rows: R::default(),
            refused: None,
        }
    }

    fn take(&mut self, batch: &RowBatch) {
        for (key, value) in batch.rows() {
            let hash = self.tally.add(key, value);
            if self.refused.is_none() {
                self.refused = self.rows.hashed_row(key, value, hash).err();
            }
        }
    }
}

/// Loads all rows of a store. A store of a single batch needs no second thread.
///
/// # Errors
/// An error of the store, or of the creation of the thread.
pub(super) fn take_all<R: TakeRows>(store: &dyn StateStore) -> io::Result<TakenRows<R>> {
    thread::scope(|scope| {
        let mut batch = RowBatch::default();
        let mut taker: Option<Taker<'_, R>> = None;
        store.stream(&mut |key, value| {
            batch.push(key, value);
            if batch.bytes.len() < BATCH_BYTES {
                return Ok(());
            }
            let taker = match &taker {
                Some(taker) => taker,
                None => taker.insert(Taker::start(scope)?),
            };
            taker.send(mem::take(&mut batch))
        })?;
        match taker {
            Some(taker) => {
                taker.send(batch)?;
                taker.finish()
            }
            None => {
                let mut taken = TakenRows::new();
                taken.take(&batch);
                Ok(taken)
            }
        }
    })
}

/// The loading thread. It ends when its sender is dropped.
struct Taker<'scope, R> {
    sender: SyncSender<RowBatch>,
    thread: ScopedJoinHandle<'scope, TakenRows<R>>,
}

impl<'scope, R: TakeRows> Taker<'scope, R> {
    fn start(scope: &'scope Scope<'scope, '_>) -> io::Result<Self> {
        let (sender, batches): (_, Receiver<RowBatch>) = mpsc::sync_channel(BATCHES_WAITING);
        let thread = thread::Builder::new()
            .name("checkpoint-rows".to_owned())
            .spawn_scoped(scope, move || {
                let mut taken = TakenRows::new();
                for batch in batches {
                    taken.take(&batch);
                }
                taken
            })?;
        Ok(Self { sender, thread })
    }

    fn send(&self, batch: RowBatch) -> io::Result<()> {
        (self.sender.send(batch))
            .map_err(|_| io::Error::other("the thread that takes rows in ended"))
    }

    fn finish(self) -> io::Result<TakenRows<R>> {
        drop(self.sender);
        let taken = self.thread.join();
        taken.map_err(|_| io::Error::other("the thread that takes rows in panicked"))
    }
}

/// Concatenated rows: their bytes, and the end of each key and each value.
#[derive(Default)]
struct RowBatch {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl RowBatch {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut begin = 0;
        self.ends.iter().map(move |&(key_end, end)| {
            let row = (&self.bytes[begin..key_end], &self.bytes[key_end..end]);
            begin = end;
            row
        })
    }
}
