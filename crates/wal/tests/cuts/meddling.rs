//! Faults that a lie of the disk cannot represent: a layer between the log and the disk that
//! behaves like an incorrect log.

use std::io;
use std::path::Path;
use std::sync::Arc;

use seqd_disk::simulated::SimulatedDisk;
use seqd_disk::{Disk, DiskFile, Tap, Tapped};

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Wrong {
    /// A failed sync is retried, and its `Ok` is trusted.
    SyncRetried,
    /// The first batch of a new segment has no vote.
    VoteLeftBehind,
}

impl Wrong {
    /// Returns the disk with this fault.
    pub(crate) fn on(self, disk: SimulatedDisk) -> Arc<dyn Disk> {
        let (disk, tap) = (Arc::new(disk), Arc::new(self));
        Arc::new(Tapped { disk, tap })
    }
}

const HEADER_BYTES: u64 = 64;
const EXTENT: u8 = 6;
const VOTE: u8 = 2;
const ENTRY: u8 = 1;

/// Returns the opening without its vote, or `None` for any other bytes. Its length stays the same:
/// a committed mark with the bytes of the vote replaces the vote, and the real mark after it
/// overrides that one.
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

impl Tap for Wrong {
    fn write_at(&self, below: &dyn DiskFile, buf: &[u8], offset: u64) -> io::Result<()> {
        if *self == Self::VoteLeftBehind && offset == HEADER_BYTES {
            let mut seed = [0; 4];
            below.read_at(&mut seed, 12)?;
            if let Some(forged) = without_vote(buf, u32::from_le_bytes(seed)) {
                return below.write_at(&forged, offset);
            }
        }
        below.write_at(buf, offset)
    }

    fn sync(&self, _: &Path, below: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        match below() {
            Err(error) if *self == Self::SyncRetried => below().map_err(|_| error),
            result => result,
        }
    }
}
