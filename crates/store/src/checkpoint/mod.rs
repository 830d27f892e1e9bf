//! The rows of the state machine on disk: a materialized state, so that a start need not replay the
//! whole log.
//!
//! The log and the snapshots are authoritative. A checkpoint may be older (the log replays the
//! rest) and may be lost (it is rebuilt from a snapshot and the log), but a wrong checkpoint must
//! never be used. Every checkpoint is therefore one atomic batch that contains the changed rows and
//! a [`Checkpoint`] record with the digest of *all* rows. An open compares the digest before
//! anything is used.
//!
//! This module handles only rows: log IDs and memberships are opaque bytes. Only `sled_store`
//! depends on sled, behind the traits [`StateStore`] and [`Stores`]. `file_store` is the second
//! implementation, in a file of a simulated disk.
//!
//! The caller decides when to write, waits until the log is synced up to the index, and writes log
//! lines.

pub mod batch;
pub mod file_store;
mod generation;
mod record;
mod sled_store;
mod take_rows;
#[cfg(test)]
mod tests;
mod witness;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use seqd_disk::{Disk, OsDisk};
use serde::{Deserialize, Serialize};

pub use generation::{NotMade, Opened, create_empty, create_generation, open, rebuild_generation};
pub use record::Format;
#[cfg(test)]
pub(crate) use sled_store::guarded;
pub use sled_store::{SledStores, folder_bytes};
pub use take_rows::TakeRows;

pub type Row = (Vec<u8>, Vec<u8>);

/// A changed row: its key, and its new value, or `None` if the row was removed.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// A callback for one row. An error stops the iteration.
pub type VisitRow<'a> = dyn FnMut(&[u8], &[u8]) -> io::Result<()> + 'a;

/// An iterator over rows. It ends with an error.
pub type RowSource<'a> = dyn Iterator<Item = io::Result<Row>> + 'a;

/// A callback between any two rows of a long operation, which fails with its error.
pub type Between<'a> = dyn FnMut() -> io::Result<()> + 'a;

/// The largest size of one row, key and value together.
///
/// One mebibyte: far above the largest record of the state, and small enough that a reader of a
/// damaged file can safely allocate it.
pub const MAX_ROW_BYTES: usize = 1 << 20;

/// The checkpoint's own record, stored with the rows in the same atomic batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Index of the last applied entry.
    pub index: u64,
    /// The last applied log ID, as the caller encodes it.
    pub log_id: Vec<u8>,
    /// The last applied membership, as the caller encodes it.
    pub membership: Vec<u8>,
    /// The wrapping sum of [`seqd_state::row_hash`] over all rows of the state.
    pub digest: u128,
}

/// A store for checkpoints. It has one writer, and a batch is durable when `write` returns.
///
/// Invariants:
/// 1. After a crash the store contains the rows and the record of one `write`, never a mixture of
///    two.
/// 2. `applied().index` never decreases.
/// 3. After a failed `write` every later one fails: it is unknown whether the failed batch is on
///    the disk, and another attempt would not reveal it.
pub trait StateStore: Send + Sync {
    /// Returns the record of the last checkpoint, or `None` before the first one.
    fn applied(&self) -> Option<Checkpoint>;

    /// Writes one checkpoint atomically: all changes and `applied`. Waits for the disk.
    fn write(&mut self, changes: Vec<Change>, applied: &Checkpoint) -> io::Result<()>;

    /// Fills an empty store with all rows and `applied`, then verifies its content. When this
    /// returns, the store is durable, except for the directory entry of its folder. Only a few rows
    /// are in memory at a time. `between` is called for each written row and again for each
    /// verified row.
    fn fill(
        &mut self,
        rows: &mut RowSource<'_>,
        applied: &Checkpoint,
        between: &mut Between<'_>,
    ) -> io::Result<()>;

    /// Passes all rows of the state to `visit`, in key order.
    fn stream(&self, visit: &mut VisitRow<'_>) -> io::Result<()>;

    /// Writes buffered data and closes the files.
    fn close(self: Box<Self>) -> io::Result<()>;

    /// Returns the disk usage in bytes.
    fn disk_bytes(&self) -> u64;
}

impl fmt::Debug for dyn StateStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.applied().map(|applied| applied.index);
        out.debug_struct("StateStore")
            .field("index", &index)
            .finish()
    }
}

/// Creates and opens stores, one for each generation.
pub trait Stores: Send + Sync {
    /// Returns whether an open can hang or terminate its thread.
    fn may_hang(&self) -> bool;

    /// Creates an empty store in a new folder. It is durable except for the directory entry of the
    /// folder.
    fn create(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        format: &Format,
    ) -> io::Result<Box<dyn StateStore>>;

    /// Opens a store and reads its records, but not the rows of the state. If another handle still
    /// has the folder open, it may wait until `deadline`.
    fn open(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        deadline: Instant,
    ) -> io::Result<(Box<dyn StateStore>, Format)>;
}

/// The location of a node's checkpoints, and the implementation that stores them.
#[derive(Clone)]
pub struct Place {
    pub disk: Arc<dyn Disk>,
    pub data_dir: PathBuf,
    pub cluster_id: String,
    pub stores: Arc<dyn Stores>,
}

impl Place {
    /// Returns a place for sled, in a data folder on the disk of the operating system.
    pub fn on_sled(data_dir: &Path, cluster_id: &str) -> Self {
        Self {
            disk: Arc::new(OsDisk),
            data_dir: data_dir.to_owned(),
            cluster_id: cluster_id.to_owned(),
            stores: Arc::new(SledStores),
        }
    }
}

/// Rejects a checkpoint that is invalid for every implementation.
fn check_write(
    before: Option<&Checkpoint>,
    changes: &[Change],
    applied: &Checkpoint,
) -> io::Result<()> {
    if let Some(before) = before
        && applied.index < before.index
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "a checkpoint at index {} after one at {}",
                applied.index, before.index
            ),
        ));
    }
    changes
        .iter()
        .try_for_each(|(key, value)| check_row(key, value.as_deref().unwrap_or_default()))
}

/// Rejects a row larger than [`MAX_ROW_BYTES`].
pub fn check_row(key: &[u8], value: &[u8]) -> io::Result<()> {
    let bytes = key.len() + value.len();
    if bytes > MAX_ROW_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a row of {bytes} bytes; the most is {MAX_ROW_BYTES}"),
        ));
    }
    Ok(())
}

/// Counts rows and adds up their hashes, for every comparison of rows with a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub rows: u64,
    /// The wrapping sum of the row hashes.
    pub digest: u128,
}

impl Tally {
    /// Adds one row and returns its hash.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> u128 {
        let hash = seqd_state::row_hash(key, value);
        self.rows += 1;
        self.digest = self.digest.wrapping_add(hash);
        hash
    }

    /// Returns an error with both digests if these rows do not have the recorded digest.
    pub fn expect(self, digest: u128) -> io::Result<()> {
        if self.digest == digest {
            return Ok(());
        }
        let Tally {
            rows,
            digest: found,
        } = self;
        let why =
            format!("its {rows} rows have digest {found:032x}, but {digest:032x} was recorded");
        Err(io::Error::new(io::ErrorKind::InvalidData, why))
    }
}
