//! The mark of a snapshot that is being installed: the log may end before it.
//!
//! ```text
//! snap/installed = index u64 | term u64 | crc32c u32
//! ```
//!
//! From the time at which a received snapshot replaces the state until the log has been purged up
//! to it, the checkpoint is ahead of the log. At any other time this means that the log was lost or
//! is an older copy. The mark is therefore made durable before the snapshot receives its final
//! name, and is removed after the purge. Such a log is accepted only if the mark exists.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seqd_disk::{Disk, read_file, replace_file};

const FILE_NAME: &str = "installed";

/// Index, term and CRC.
const FILE_BYTES: usize = 20;

/// The mark, in memory and on the disk.
pub struct InstalledMark {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    held: Mutex<Option<(u64, u64)>>,
}

impl InstalledMark {
    /// Reads the mark. A damaged mark counts as absent.
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path) -> io::Result<InstalledMark> {
        let held = match read_file(&**disk, &dir.join(FILE_NAME), FILE_BYTES) {
            Ok(bytes) => bytes.and_then(|bytes| parse(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
            Err(error) => return Err(error),
        };
        Ok(InstalledMark {
            disk: Arc::clone(disk),
            dir: dir.to_owned(),
            held: Mutex::new(held),
        })
    }

    fn held(&self) -> MutexGuard<'_, Option<(u64, u64)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index and term of the snapshot whose installation has begun, until the purge.
    pub fn get(&self) -> Option<(u64, u64)> {
        *self.held()
    }

    /// Sets the mark durably.
    pub fn set(&self, index: u64, term: u64) -> io::Result<()> {
        let mut bytes = [index.to_le_bytes(), term.to_le_bytes()].concat();
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        let mut held = self.held();
        replace_file(&*self.disk, &self.dir.join(FILE_NAME), &bytes)?;
        *held = Some((index, term));
        Ok(())
    }

    /// Removes the mark once the log is durably purged up to `index`, or known to reach it.
    pub fn clear_upto(&self, index: u64) -> io::Result<()> {
        let mut held = self.held();
        if held.is_some_and(|(of, _)| of <= index) {
            self.disk.remove(&self.dir.join(FILE_NAME))?;
            self.disk.sync_dir(&self.dir)?;
            *held = None;
        }
        Ok(())
    }
}

fn parse(bytes: &[u8]) -> Option<(u64, u64)> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
        return None;
    }
    let (index, term) = body.split_first_chunk::<8>()?;
    let term = term.try_into().ok()?;
    Some((u64::from_le_bytes(*index), u64::from_le_bytes(term)))
}

#[cfg(test)]
mod tests {
    use seqd_disk::OsDisk;

    use super::*;

    #[test]
    fn a_mark_stays_until_the_log_is_purged_up_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        let mark = InstalledMark::open(&disk, dir.path()).unwrap();
        assert_eq!(mark.get(), None);
        mark.clear_upto(u64::MAX).unwrap();
        mark.set(500, 3).unwrap();
        mark.clear_upto(499).unwrap();
        let again = InstalledMark::open(&disk, dir.path()).unwrap();
        assert_eq!(again.get(), Some((500, 3)));
        again.clear_upto(500).unwrap();
        assert_eq!(again.get(), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_mark_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        InstalledMark::open(&disk, dir.path())
            .unwrap()
            .set(258, 3)
            .unwrap();
        let path = dir.path().join(FILE_NAME);
        let good = std::fs::read(&path).unwrap();
        let mut expected = vec![2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
        expected.extend(crc32c::crc32c(&expected).to_le_bytes());
        assert_eq!(good, expected);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 4;
            std::fs::write(&path, bad).unwrap();
            assert_eq!(InstalledMark::open(&disk, dir.path()).unwrap().get(), None);
        }
    }
}
