//! The state machine's rows on disk: the materialisation that spares a start the whole log.
//!
//! The log and the snapshots are the truth. What lies here may be older than they are (the log
//! replays the rest) and may be lost (it is built again from a snapshot and the log), but it must
//! never be used when it is wrong. So every checkpoint is one atomic batch that carries, beside
//! the changed rows, a [`Checkpoint`] record with the digest of *all* rows, and an
//! open compares it before anything is used.
//!
//! This module knows rows and nothing else: log IDs and memberships are bytes to it. sled is named
//! in `sled_store` alone; [`StateStore`] and [`Stores`] are the seam, and `file_store` is the second
//! store behind it, in a file of the disk that a simulation brings.
//!
//! When to write, the wait for the log's synced index, and what is logged are the caller's.

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

/// A changed row: its key, and its new value or none if the row is gone.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// Looks at one row; an error ends the walk over the rows.
pub type VisitRow<'a> = dyn FnMut(&[u8], &[u8]) -> io::Result<()> + 'a;

/// Rows one after the other; an error ends them.
pub type RowSource<'a> = dyn Iterator<Item = io::Result<Row>> + 'a;

/// Called between any two rows of a longer work, which ends with its error.
pub type Between<'a> = dyn FnMut() -> io::Result<()> + 'a;

/// The most bytes that one row, key and value together, may have.
///
/// One mebibyte: far above the largest record of the state, and small enough that a reader of a
/// damaged file can allocate it without harm.
pub const MAX_ROW_BYTES: usize = 1 << 20;

/// A checkpoint's own record, beside the rows in the same atomic batch.
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

/// Where checkpoints go. One writer; a batch is durable when `write` returns.
///
/// Invariants:
/// 1. After a crash the store holds the rows and the record of one `write`, never of two.
/// 2. `applied().index` never falls.
/// 3. After a failed `write` every later one fails: whether the failed batch is on the disk is not
///    known, and another attempt would not show it.
pub trait StateStore: Send + Sync {
    /// The record of the last checkpoint; none before the first.
    fn applied(&self) -> Option<Checkpoint>;

    /// Writes one checkpoint: all changes and `applied`, atomically, and waits for the disk.
    fn write(&mut self, changes: Vec<Change>, applied: &Checkpoint) -> io::Result<()>;

    /// Fills an empty store with all rows and `applied`, and compares what it holds then: it is
    /// durable, but for its folder's own name, when this returns. Holds few rows at a time. `between`
    /// is called for each row, and again for each row that is compared.
    fn fill(
        &mut self,
        rows: &mut RowSource<'_>,
        applied: &Checkpoint,
        between: &mut Between<'_>,
    ) -> io::Result<()>;

    /// Shows all rows of the state to `visit`, in key order.
    fn stream(&self, visit: &mut VisitRow<'_>) -> io::Result<()>;

    /// Writes out what is buffered and lets go of the files.
    fn close(self: Box<Self>) -> io::Result<()>;

    /// Bytes taken on the disk.
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

/// Makes and opens stores: one for each generation.
pub trait Stores: Send + Sync {
    /// Whether an open may hang, or end the thread that it is on.
    fn may_hang(&self) -> bool;

    /// Makes an empty store in a new folder, durable but for the folder's own name.
    fn create(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        format: &Format,
    ) -> io::Result<Box<dyn StateStore>>;

    /// Opens a store and reads its records, but not the state's rows. One whose folder another
    /// handle still has open may be waited for until `deadline`.
    fn open(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        deadline: Instant,
    ) -> io::Result<(Box<dyn StateStore>, Format)>;
}

/// Where the checkpoints of a node are, and what keeps them.
#[derive(Clone)]
pub struct Place {
    pub disk: Arc<dyn Disk>,
    pub data_dir: PathBuf,
    pub cluster_id: String,
    pub stores: Arc<dyn Stores>,
}

impl Place {
    /// sled, in a data folder on the operating system's disk.
    pub fn on_sled(data_dir: &Path, cluster_id: &str) -> Self {
        Self {
            disk: Arc::new(OsDisk),
            data_dir: data_dir.to_owned(),
            cluster_id: cluster_id.to_owned(),
            stores: Arc::new(SledStores),
        }
    }
}

/// Refuses a checkpoint that no store may take, whatever is below it.
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

/// Refuses a row over [`MAX_ROW_BYTES`].
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

/// Counts rows and sums their hashes: the one way in which rows are compared with a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub rows: u64,
    /// The wrapping sum of their hashes.
    pub digest: u128,
}

impl Tally {
    /// Counts one row and returns its hash.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> u128 {
        let hash = seqd_state::row_hash(key, value);
        self.rows += 1;
        self.digest = self.digest.wrapping_add(hash);
        hash
    }

    /// An error with both digests, if these are not the rows whose digest was recorded.
    pub fn expect(self, digest: u128) -> io::Result<()> {
        if self.digest == digest {
            return Ok(());
        }
        let Tally {
            rows,
            digest: found,
        } = self;
        let why = format!("its {rows} rows have digest {found:032x}, recorded was {digest:032x}");
        Err(io::Error::new(io::ErrorKind::InvalidData, why))
    }
}
