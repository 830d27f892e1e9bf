//! Snapshots as files: all rows of the state at one log index, streamed and checksummed.
//!
//! A snapshot is written and read row by row. No part of this module ever holds more than one block
//! of it. The bytes on the wire are the bytes of the file.
//!
//! ```text
//! file   = magic  header  block*  footer          nothing after the footer
//! frame  = kind u8 | length u32 | payload | crc32c u32          (header, block and footer)
//! block  = ( key length u32 | value length u32 | key | value )*
//! ```
//!
//! Integers are little-endian. The CRC of each frame is seeded with the CRC of the previous frame,
//! the first with the CRC of the magic. This detects changed frames and also frames that were
//! moved, repeated or taken from another file. The header describes the snapshot. The footer
//! contains the number of rows and their digest, which also detects a file that was truncated at
//! the end of a frame.
//!
//! A file receives its final name `<index>-<term>.snap` only when it is complete and synced. Until
//! then its name ends in `.tmp`. A received file keeps such a name until it is adopted.
//!
//! This module does not interpret rows, log IDs and memberships, and does not decide when a
//! snapshot is taken, sent or removed.

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
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::Disk;
use seqd_state::codec::Versioned;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{MAX_ROW_BYTES, StateStore};

pub use folder::{
    Bad, Recovered, check_readable, find_bad, is_any, keep_newest, keep_two, list, recover,
    set_aside, void_older,
};
pub use installed::InstalledMark;
pub use load::{load, rebuild};
pub use reader::{SnapshotReader, summary};
pub use receive::{Received, Receiver};
pub use room::{
    FRESH_STORE_PER_ROW, check_room, check_room_to_export, check_room_to_install, is_refusal,
    left_free,
};
pub use writer::SnapshotWriter;

/// The first bytes of each snapshot. The header and the footer have their own kinds and versions.
const MAGIC: &[u8; 8] = b"seqdsnap";

/// A block is closed when it reaches this size: one read, one CRC, one write.
const BLOCK_BYTES: usize = 64 << 10;

pub const MAX_HEADER_BYTES: usize = 64 << 10;

/// The largest block. A block is closed after it is full, so it may exceed its size by the largest
/// row.
const MAX_BLOCK_BYTES: usize = BLOCK_BYTES + ROW_PREFIX_BYTES + MAX_ROW_BYTES;

const MAX_FOOTER_BYTES: usize = 256;

/// The footer's payload: kind, version, number of rows, digest.
const FOOTER_BYTES: usize = 2 + size_of::<u64>() + size_of::<u128>();

/// The kind and length before each payload, and the CRC after it.
const FRAME_START_BYTES: usize = 5;
const CRC_BYTES: usize = 4;

/// The two lengths before each row.
const ROW_PREFIX_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum FrameKind {
    Header = 1,
    Block = 2,
    Footer = 3,
}

/// The description of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotHeader {
    pub cluster_id: String,
    /// The index of the last entry in the snapshot.
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

/// The expected totals at the end of the file.
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

/// A complete snapshot on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    pub path: PathBuf,
    pub header: SnapshotHeader,
    pub rows: u64,
    /// The digest of the rows, as in [`crate::checkpoint::Checkpoint`].
    pub digest: u128,
    pub len: u64,
}

impl SnapshotFile {
    fn new(path: PathBuf, header: SnapshotHeader, footer: Footer, len: u64) -> SnapshotFile {
        let Footer { rows, digest } = footer;
        SnapshotFile {
            path,
            header,
            rows,
            digest,
            len,
        }
    }
}

impl Deref for SnapshotFile {
    type Target = SnapshotHeader;

    fn deref(&self) -> &SnapshotHeader {
        &self.header
    }
}

/// Writes the rows of a checkpoint store into a snapshot, with the index and the digest of the
/// store's own record. The caller then closes the writer: [`SnapshotWriter::finish`] gives the file
/// its final name, [`SnapshotWriter::finish_unnamed`] removes its name.
///
/// The caller must ensure that no checkpoint is written in the meantime. `term` is the term of the
/// record's log ID, which this module does not decode. `meanwhile` is called between any two rows
/// and must be brief.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] before the first checkpoint, [`io::ErrorKind::InvalidData`] if
/// the rows of the store do not match its record.
pub fn take(
    store: &dyn StateStore,
    disk: &Arc<dyn Disk>,
    dir: &Path,
    cluster_id: &str,
    term: u64,
    meanwhile: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<SnapshotWriter> {
    let applied = store.applied().ok_or_else(|| {
        let why = "there is no checkpoint for a snapshot";
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

/// An error that contains the path of the file.
fn invalid(path: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{}: {why}", path.display()),
    )
}
