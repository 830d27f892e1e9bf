//! Snapshots as files: all rows of the state at one log index, streamed and checksummed.
//!
//! A snapshot is written row by row and read row by row; no part of this module ever holds more
//! than one block of it. The bytes on the wire are the bytes of the file.
//!
//! ```text
//! file   = magic  header  block*  footer          nothing after the footer
//! frame  = kind u8 | length u32 | payload | crc32c u32          (header, block and footer)
//! block  = ( key length u32 | value length u32 | key | value )*
//! ```
//!
//! Integers are little-endian. Each frame's CRC is seeded with the one before it, the first with
//! the CRC of the magic: a frame that was moved, repeated or taken from another file is found, not
//! only a changed one. The header contains what the snapshot is of, the footer how many rows there are
//! and what their digest is, so a file that was cut at a frame's edge is found too.
//!
//! A file has its final name `<index>-<term>.snap` only when it is complete and synced; until then
//! its name ends in `.tmp`. One that was received keeps such a name until it is adopted.
//!
//! This module does not know what rows, log IDs and memberships mean, and does not decide when a
//! snapshot is taken, sent or dropped.

mod folder;
mod installed;
mod load;
mod reader;
mod receive;
mod room;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::Disk;
use seqd_state::codec::Versioned;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{MAX_ROW_BYTES, StateStore};

pub use folder::{
    Bad, Recovered, check_readable, find_bad, keep_newest, keep_two, list, recover, set_aside,
    void_older,
};
pub use installed::InstalledMark;
pub use load::{load, rebuild};
pub use reader::{SnapshotReader, summary};
pub use receive::{Received, Receiver};
pub use room::{FRESH_STORE_PER_ROW, check_room, check_room_to_install, is_refusal, left_free};
pub use writer::SnapshotWriter;

/// The first bytes of each snapshot. Header and footer have kinds and versions of their own.
const MAGIC: &[u8; 8] = b"seqdsnap";

/// A block is closed when it has this many bytes: one read, one CRC, one write.
const BLOCK_BYTES: usize = 64 << 10;

pub const MAX_HEADER_BYTES: usize = 64 << 10;

/// The most bytes of a block: it is closed once it is full, so the largest row may come on top.
const MAX_BLOCK_BYTES: usize = BLOCK_BYTES + ROW_PREFIX_BYTES + MAX_ROW_BYTES;

const MAX_FOOTER_BYTES: usize = 256;

/// The footer's payload: kind, version, number of rows, digest.
const FOOTER_BYTES: usize = 2 + size_of::<u64>() + size_of::<u128>();

/// Kind and length in front of each payload, and the CRC behind it.
const FRAME_START_BYTES: usize = 5;
const CRC_BYTES: usize = 4;

/// The two lengths in front of each row.
const ROW_PREFIX_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum FrameKind {
    Header = 1,
    Block = 2,
    Footer = 3,
}

/// What a snapshot is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotHeader {
    pub cluster_id: String,
    /// Index of the last entry that is in it.
    pub index: u64,
    pub term: u64,
    /// The log ID of that entry, as the caller encodes it.
    pub log_id: Vec<u8>,
    /// The membership at that entry, as the caller encodes it.
    pub membership: Vec<u8>,
}

impl Versioned for SnapshotHeader {
    const KIND: u8 = 66;
    const VERSION: u8 = 1;
    const MAX_BYTES: usize = MAX_HEADER_BYTES;
}

/// What must have been read when the end is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Footer {
    rows: u64,
    digest: u128,
}

impl Versioned for Footer {
    const KIND: u8 = 67;
    const VERSION: u8 = 1;
    const MAX_BYTES: usize = MAX_FOOTER_BYTES;
}

/// A snapshot that is complete on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    pub path: PathBuf,
    pub cluster_id: String,
    /// Index of the last entry that is in it.
    pub index: u64,
    pub term: u64,
    /// The log ID of that entry, as the caller encodes it.
    pub log_id: Vec<u8>,
    /// The membership at that entry, as the caller encodes it.
    pub membership: Vec<u8>,
    pub rows: u64,
    /// The digest of its rows, as in [`crate::checkpoint::Checkpoint`].
    pub digest: u128,
    pub len: u64,
}

impl SnapshotFile {
    fn new(path: PathBuf, header: SnapshotHeader, footer: Footer, len: u64) -> SnapshotFile {
        let SnapshotHeader {
            cluster_id,
            index,
            term,
            log_id,
            membership,
        } = header;
        let Footer { rows, digest } = footer;
        SnapshotFile {
            path,
            cluster_id,
            index,
            term,
            log_id,
            membership,
            rows,
            digest,
            len,
        }
    }
}

/// Writes the rows of a checkpoint store into a snapshot, at the index and with the digest of the
/// store's own record. The caller closes it: [`SnapshotWriter::finish`] gives it its final name,
/// [`SnapshotWriter::finish_unnamed`] none.
///
/// The caller sees to it that no checkpoint is written meanwhile; `term` is that of the record's
/// log ID, which is bytes here. `meanwhile` is called between any two rows: it must be brief.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] before the first checkpoint, [`io::ErrorKind::InvalidData`] if
/// the store's rows are not those of its record.
pub fn take(
    store: &dyn StateStore,
    disk: &Arc<dyn Disk>,
    dir: &Path,
    cluster_id: &str,
    term: u64,
    meanwhile: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<SnapshotWriter> {
    let applied = store.applied().ok_or_else(|| {
        let why = "there is no checkpoint to take a snapshot of";
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })?;
    let header = SnapshotHeader {
        cluster_id: cluster_id.to_owned(),
        index: applied.index,
        term,
        log_id: applied.log_id,
        membership: applied.membership,
    };
    let mut writer = SnapshotWriter::create(disk, dir, header)?;
    store.stream(&mut |key, value| {
        meanwhile()?;
        writer.row(key, value)
    })?;
    writer.tally().expect(applied.digest)?;
    Ok(writer)
}

fn file_name(index: u64, term: u64) -> String {
    format!("{index}-{term}.snap")
}

/// An error that names the file.
fn invalid(path: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{}: {why}", path.display()),
    )
}
