//! A store in one file of the given disk: the second implementation of [`StateStore`], which
//! simulated power cuts affect.
//!
//! ```text
//! rows  = frame*        the first one holds the format record, each later one a checkpoint
//! frame = length u32 | crc32c u32 of the payload, seeded with the frame before | payload
//! ```
//!
//! A checkpoint is one frame and one `fdatasync`. The next open truncates a frame that was not
//! synced. The store never reclaims space and holds all rows in memory: it is for tests.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use seqd_disk::{Disk, DiskFile};

use super::batch;
use super::record::{Format, seal, unseal};
use super::{
    Between, Change, Checkpoint, RowSource, StateStore, Stores, Tally, VisitRow, check_row,
    check_write,
};

const FILE_NAME: &str = "rows";

/// The length and the CRC that precede a payload.
const START_BYTES: usize = 8;

/// Stores in files.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileStores;

/// A file and its decoded content.
struct FileStore {
    file: Arc<dyn DiskFile>,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    applied: Option<Checkpoint>,
    end: u64,
    crc: u32,
    failed: bool,
}

impl Stores for FileStores {
    fn may_hang(&self) -> bool {
        false
    }

    fn create(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        format: &Format,
    ) -> io::Result<Box<dyn StateStore>> {
        disk.create_dir_all(folder)?;
        let mut store = FileStore {
            file: disk.create(&folder.join(FILE_NAME))?,
            rows: BTreeMap::new(),
            applied: None,
            end: 0,
            crc: 0,
            failed: false,
        };
        store.append(&seal(format)?)?;
        disk.sync_dir(folder)?;
        Ok(Box::new(store))
    }

    fn open(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        _deadline: Instant,
    ) -> io::Result<(Box<dyn StateStore>, Format)> {
        let file = disk.open(&folder.join(FILE_NAME))?;
        let len = file.len()?;
        let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        file.read_at(&mut bytes, 0)?;
        let mut store = FileStore {
            file,
            rows: BTreeMap::new(),
            applied: None,
            end: 0,
            crc: 0,
            failed: false,
        };
        let mut frames = Vec::new();
        let mut rest = &bytes[..];
        while let Some((payload, crc, behind)) = split_frame(rest, store.crc) {
            frames.push(payload);
            (store.crc, rest) = (crc, behind);
        }
        store.end = len - rest.len() as u64;
        let mut frames = frames.into_iter();
        let format = frames.next().ok_or_else(|| malformed("no format record"))?;
        let format = unseal::<Format>(format)?;
        for frame in frames {
            store.enter(frame)?;
        }
        // The part after the last intact frame is removed, and the rest is synced.
        store.file.set_len(store.end)?;
        store.file.sync_all()?;
        disk.sync_dir(folder)?;
        Ok((Box::new(store), format))
    }
}

impl FileStore {
    fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier checkpoint failed"));
        }
        let crc = crc32c::crc32c_append(self.crc, payload);
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
        let mut frame = Vec::with_capacity(START_BYTES + payload.len());
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&crc.to_le_bytes());
        frame.extend_from_slice(payload);
        let written = self
            .file
            .write_at(&frame, self.end)
            .and_then(|()| self.file.sync_data());
        self.failed = written.is_err();
        written?;
        self.end += frame.len() as u64;
        self.crc = crc;
        Ok(())
    }

    /// Applies the frame of a checkpoint to the rows.
    fn enter(&mut self, frame: &[u8]) -> io::Result<()> {
        let rows = &mut self.rows;
        let applied = batch::decode(frame, &mut |key, value| {
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        })?;
        self.applied = Some(applied);
        Ok(())
    }
}

impl StateStore for FileStore {
    fn applied(&self) -> Option<Checkpoint> {
        self.applied.clone()
    }

    fn write(&mut self, changes: Vec<Change>, applied: &Checkpoint) -> io::Result<()> {
        check_write(self.applied.as_ref(), &changes, applied)?;
        let frame = batch::encode(&changes, applied)?;
        self.append(&frame)?;
        self.enter(&frame)
    }

    fn fill(
        &mut self,
        rows: &mut RowSource<'_>,
        applied: &Checkpoint,
        between: &mut Between<'_>,
    ) -> io::Result<()> {
        let mut changes = Vec::new();
        let mut tally = Tally::default();
        for row in rows {
            between()?;
            let (key, value) = row?;
            check_row(&key, &value)?;
            tally.add(&key, &value);
            changes.push((key, Some(value)));
        }
        tally.expect(applied.digest)?;
        self.write(changes, applied)
    }

    fn stream(&self, visit: &mut VisitRow<'_>) -> io::Result<()> {
        self.rows
            .iter()
            .try_for_each(|(key, value)| visit(key, value))
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier checkpoint failed"));
        }
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        self.end
    }
}

/// Returns the payload of the first frame, its CRC, and the bytes after it, or `None` if the frame
/// is not intact.
fn split_frame(bytes: &[u8], seed: u32) -> Option<(&[u8], u32, &[u8])> {
    let (start, behind) = bytes.split_first_chunk::<START_BYTES>()?;
    let [l0, l1, l2, l3, crc @ ..] = *start;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let (payload, behind) = behind.split_at_checked(length)?;
    let crc = u32::from_le_bytes(crc);
    // An empty payload is never written. If it were accepted, zeros would form a valid frame.
    (length > 0 && crc32c::crc32c_append(seed, payload) == crc).then_some((payload, crc, behind))
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
