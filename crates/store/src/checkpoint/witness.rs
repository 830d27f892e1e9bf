//! The index of the last checkpoint that the store is known to contain, in a separate file that
//! sled cannot lose.
//!
//! sled treats damage in the middle of its file as a torn tail and returns to an earlier batch
//! without an error: rows, digest and record match each other, but synced checkpoints are missing.
//! The log would replay them if it still holds their entries, but the fault would not be detected.
//! The index of each checkpoint is therefore noted here after it was synced. The note itself is not
//! synced each time: after a power cut it may be older than the store, but never newer.

use std::io;
use std::path::Path;
use std::sync::Arc;

use seqd_disk::{Disk, DiskFile};
use seqd_guards::is_out;

const FILE_NAME: &str = "witness";

/// The index and its CRC, little-endian.
const NOTE_BYTES: usize = 12;

pub(super) struct Witness {
    file: Arc<dyn DiskFile>,
}

impl Witness {
    /// Opens or creates the file in `folder`.
    pub(super) fn open(disk: &dyn Disk, folder: &Path) -> io::Result<Witness> {
        let path = folder.join(FILE_NAME);
        let file = match disk.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(&path)?,
            opened => opened?,
        };
        Ok(Witness { file })
    }

    /// Records that the checkpoint at `index` is synced.
    pub(super) fn note(&self, index: u64) -> io::Result<()> {
        let mut note = [0; NOTE_BYTES];
        let (start, crc) = note.split_at_mut(size_of::<u64>());
        start.copy_from_slice(&index.to_le_bytes());
        crc.copy_from_slice(&crc32c::crc32c(start).to_le_bytes());
        self.file.write_at(&note, 0)
    }

    /// Returns an error if the store is older than the note. A damaged note counts as absent.
    pub(super) fn check(&self, found: Option<u64>) -> io::Result<()> {
        let mut note = [0; NOTE_BYTES];
        if self.file.len()? < NOTE_BYTES as u64 {
            return Ok(());
        }
        self.file.read_at(&mut note, 0)?;
        let Some((start, crc)) = note.split_first_chunk::<{ size_of::<u64>() }>() else {
            return Ok(());
        };
        let noted = u64::from_le_bytes(*start);
        if crc32c::crc32c(start).to_le_bytes() != crc || found.is_some_and(|at| at >= noted) {
            return Ok(());
        }
        if is_out!(WitnessCompared) {
            return Ok(());
        }
        let holds = found.map_or("no checkpoint".to_owned(), |at| format!("index {at}"));
        let why = format!("it contains {holds}, but index {noted} had been synced");
        Err(io::Error::new(io::ErrorKind::InvalidData, why))
    }

    /// Makes the note durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use seqd_disk::OsDisk;

    use super::*;

    #[test]
    fn a_store_that_went_back_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let witness = Witness::open(&OsDisk, dir.path()).unwrap();
        witness.check(None).unwrap();
        witness.note(300).unwrap();
        witness.note(301).unwrap();
        let again = Witness::open(&OsDisk, dir.path()).unwrap();
        again.check(Some(301)).unwrap();
        again.check(Some(400)).unwrap();
        let back = again
            .check(Some(300))
            .expect_err("a store that went back was taken");
        assert!(back.to_string().contains("index 301 had been"));
        assert!(again.check(None).is_err());
    }

    #[test]
    fn a_damaged_note_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let witness = Witness::open(&OsDisk, dir.path()).unwrap();
        witness.note(u64::MAX).unwrap();
        let path = dir.path().join(FILE_NAME);
        let bytes = std::fs::read(&path).unwrap();
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x04;
            std::fs::write(&path, damaged).unwrap();
            witness.check(Some(1)).unwrap();
        }
    }
}
