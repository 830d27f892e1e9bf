//! Changes that are applied while a snapshot is streamed from the store. They are kept in order
//! until the store may be written again.
//!
//! While a snapshot is written, no checkpoint may change the rows that it reads. If the changes
//! stayed in the state until the snapshot is complete, taking all of them at once would delay
//! `apply` for long. They are therefore taken every 50 ms as usual, each time as a checkpoint of
//! its own, and written to a file. Memory holds only one of them at a time, however long the
//! snapshot takes. The file is not synced, because the log has its content. A start removes it with
//! the other leftovers.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::{Disk, DiskFile};

use crate::records::restore_position;
use crate::storage::drain::Drain;
use crate::types::LogId;
use seqd_store::checkpoint::{Change, Checkpoint, batch};
use seqd_store::first_error::FirstError;

/// A name that a start removes.
const FILE_NAME: &str = "staged.tmp";

/// Several staged checkpoints are merged into one write to the store, up to about this many bytes,
/// so that a row that changed in each of them is written once.
const MERGED_BYTES: usize = 2 << 20;

/// Waiting checkpoints. The file is removed when this is dropped.
pub(crate) struct Staging {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Option<Arc<dyn DiskFile>>,
    waiting: VecDeque<(u64, usize)>,
    end: u64,
    /// The position up to which changes were taken from the state.
    taken: Option<LogId>,
    /// Set if changes were taken and could not be kept.
    lost: FirstError,
}

impl Staging {
    /// Creates an empty staging. The file is created with the first checkpoint.
    pub(crate) fn new(disk: &Arc<dyn Disk>, dir: &Path, taken: Option<LogId>) -> Self {
        Self {
            disk: Arc::clone(disk),
            path: dir.join(FILE_NAME),
            file: None,
            waiting: VecDeque::new(),
            end: 0,
            taken,
            lost: FirstError::default(),
        }
    }

    /// Takes the changes since the last call.
    pub(crate) fn stage(&mut self, drain: &Drain) -> io::Result<()> {
        if drain.applied().read().applied == self.taken {
            return Ok(());
        }
        let (changes, position) = drain.take()?;
        let (taken, _) = restore_position(&position.log_id, &position.membership)?;
        self.taken = taken;
        let kept = self.push(&changes, &position);
        self.lost.note(kept)
    }

    pub(crate) fn staged_bytes(&self) -> u64 {
        self.end
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Appends a checkpoint to the waiting ones.
    fn push(&mut self, changes: &[Change], applied: &Checkpoint) -> io::Result<()> {
        let bytes = batch::encode(changes, applied)?;
        let file = match &self.file {
            Some(file) => file,
            None => {
                if self.disk.kind(&self.path)?.is_some() {
                    self.disk.remove(&self.path)?;
                }
                self.file.insert(self.disk.create(&self.path)?)
            }
        };
        file.write_at(&bytes, self.end)?;
        self.waiting.push_back((self.end, bytes.len()));
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Takes the first waiting checkpoint, or several merged into one.
    pub(crate) fn pop(&mut self) -> io::Result<Option<(Vec<Change>, Checkpoint)>> {
        self.lost.check()?;
        let Some(file) = &self.file else {
            return Ok(None);
        };
        let (mut merged, mut position, mut taken) = (BTreeMap::new(), None, 0);
        while let Some((offset, len)) = self.waiting.front().copied() {
            if position.is_some() && taken + len > MERGED_BYTES {
                break;
            }
            let mut bytes = vec![0; len];
            file.read_at(&mut bytes, offset)?;
            position = Some(batch::decode(&bytes, &mut |key, value| {
                merged.insert(key, value);
            })?);
            taken += len;
            self.waiting.pop_front();
        }
        Ok(position.map(|position| (merged.into_iter().collect(), position)))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.file.is_some() {
            // If this fails, the next start removes the file.
            let _ = self.disk.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use seqd_disk::OsDisk;

    use super::*;

    fn position(index: u64) -> Checkpoint {
        Checkpoint {
            index,
            log_id: vec![1],
            membership: vec![2],
            digest: u128::from(index),
        }
    }

    #[test]
    fn waiting_requests_are_returned_in_order_and_merged() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        std::fs::write(dir.path().join(FILE_NAME), "left over").unwrap();
        let mut staging = Staging::new(&disk, dir.path(), None);
        assert!(staging.pop().unwrap().is_none());
        let row = |key: &[u8], value: Option<&[u8]>| (key.to_vec(), value.map(<[u8]>::to_vec));
        let first = [row(b"a", Some(b"1")), row(b"b", Some(b"1"))];
        staging.push(&first, &position(5)).unwrap();
        let second = [row(b"b", None), row(b"c", Some(b""))];
        staging.push(&second, &position(9)).unwrap();
        let (changes, at) = staging.pop().unwrap().unwrap();
        assert_eq!(at, position(9));
        let merged = [row(b"a", Some(b"1")), row(b"b", None), row(b"c", Some(b""))];
        assert_eq!(changes, merged);
        assert!(staging.pop().unwrap().is_none());
        staging.push(&first, &position(10)).unwrap();
        assert_eq!(staging.pop().unwrap().unwrap().1, position(10));
        drop(staging);
        assert!(!dir.path().join(FILE_NAME).exists());
    }

    #[test]
    fn large_checkpoints_are_written_one_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        let mut staging = Staging::new(&disk, dir.path(), None);
        for index in 1..=3 {
            let large = vec![(vec![7], Some(vec![0; MERGED_BYTES * 2 / 3]))];
            staging.push(&large, &position(index)).unwrap();
        }
        for index in 1..=3 {
            assert_eq!(staging.pop().unwrap().unwrap().1, position(index));
        }
        assert!(staging.pop().unwrap().is_none());
    }
}
