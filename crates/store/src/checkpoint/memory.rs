//! A store in memory: the second one behind [`StateStore`], which keeps the seam honest.
//!
//! What a disk would keep is shared, so that a test can drop the store and open it again.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Change, Checkpoint, RowSource, StateStore, VisitRow, check_write};

/// What would be on the disk.
#[derive(Debug, Default)]
struct Image {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    applied: Option<Checkpoint>,
}

/// A handle on rows in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    image: Arc<Mutex<Image>>,
}

impl MemoryStore {
    fn image(&self) -> MutexGuard<'_, Image> {
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateStore for MemoryStore {
    fn applied(&self) -> Option<Checkpoint> {
        self.image().applied.clone()
    }

    fn write(&mut self, changes: Vec<Change>, applied: &Checkpoint) -> io::Result<()> {
        let mut image = self.image();
        check_write(image.applied.as_ref(), &changes, applied)?;
        for (key, value) in changes {
            match value {
                Some(value) => image.rows.insert(key, value),
                None => image.rows.remove(&key),
            };
        }
        image.applied = Some(applied.clone());
        Ok(())
    }

    fn fill(&mut self, rows: &mut RowSource<'_>, applied: &Checkpoint) -> io::Result<()> {
        let changes = rows.map(|row| row.map(|(key, value)| (key, Some(value))));
        self.write(changes.collect::<io::Result<_>>()?, applied)
    }

    fn stream(&self, visit: &mut VisitRow<'_>) -> io::Result<()> {
        self.image()
            .rows
            .iter()
            .try_for_each(|(key, value)| visit(key, value))
    }

    fn stream_back(&self, visit: &mut VisitRow<'_>) -> io::Result<()> {
        self.image()
            .rows
            .iter()
            .rev()
            .try_for_each(|(key, value)| visit(key, value))
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        0
    }
}
