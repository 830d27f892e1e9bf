//! Faults that no lie of the disk can plant: a seam that stands between the log and the disk and
//! does what a careless log would do.

use std::io;
use std::path::Path;
use std::sync::Arc;

use seqd_disk::simulated::SimulatedDisk;
use seqd_disk::{Disk, DiskFile, Kind};

/// What is done wrong.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Wrong {
    /// A sync that failed is tried again, and believed.
    SyncRetried,
    /// The first batch of a new segment carries no vote.
    VoteLeftBehind,
}

pub(crate) struct Meddling {
    pub(crate) disk: SimulatedDisk,
    pub(crate) wrong: Wrong,
}

struct MeddlingFile {
    file: Arc<dyn DiskFile>,
    wrong: Wrong,
}

impl Meddling {
    fn wrap(&self, file: io::Result<Arc<dyn DiskFile>>) -> io::Result<Arc<dyn DiskFile>> {
        let wrong = self.wrong;
        Ok(Arc::new(MeddlingFile { file: file?, wrong }))
    }
}

impl MeddlingFile {
    fn again(&self, sync: impl Fn() -> io::Result<()>) -> io::Result<()> {
        match sync() {
            Err(error) if self.wrong == Wrong::SyncRetried => sync().map_err(|_| error),
            result => result,
        }
    }
}

const HEADER_BYTES: u64 = 64;
const EXTENT: u8 = 6;
const VOTE: u8 = 2;
const ENTRY: u8 = 1;

/// The opening without its vote. Its length stays: a committed mark takes the place, as the vote's
/// bytes, which the real one behind it replaces. `None` for any other bytes.
fn without_vote(bytes: &[u8], seed: u32) -> Option<Vec<u8>> {
    // Batch header, extent record with its eight bytes, then the vote if there is one.
    let (extent, vote) = (16, 16 + 24);
    if bytes.get(extent) != Some(&EXTENT) || bytes.get(vote) != Some(&VOTE) {
        return None;
    }
    let mut bytes = bytes.to_vec();
    bytes[vote] = ENTRY + 2;
    let crc_at = bytes.len() - 4;
    let crc = crc32c::crc32c_append(seed, &bytes[..crc_at]);
    bytes[crc_at..].copy_from_slice(&crc.to_le_bytes());
    Some(bytes)
}

impl DiskFile for MeddlingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        if self.wrong == Wrong::VoteLeftBehind && offset == HEADER_BYTES {
            let mut seed = [0; 4];
            self.file.read_at(&mut seed, 12)?;
            if let Some(forged) = without_vote(buf, u32::from_le_bytes(seed)) {
                return self.file.write_at(&forged, offset);
            }
        }
        self.file.write_at(buf, offset)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.file.reserve(len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.again(|| self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.again(|| self.file.sync_all())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl Disk for Meddling {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.disk.kind(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.wrap(self.disk.open(path))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.wrap(self.disk.open_read(path))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.wrap(self.disk.create(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }
}
