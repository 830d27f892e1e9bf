//! The received part of a snapshot. It is kept when the transfer is interrupted, so that the next
//! transfer continues after it.
//!
//! Its file does not outlive the process. It is discarded once the node no longer needs it: when
//! another snapshot is sent from its beginning, or when the node has applied all its entries.

use std::io;
use std::sync::Arc;

use seqd_net::Lock;
use seqd_store::folder::Folder;
use seqd_store::snapshot_file::{self, Receiver};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Clone)]
pub(crate) struct Unfinished {
    part: Arc<Lock<Option<Part>>>,
    /// One snapshot is received at a time, because a second one would only replace the first.
    receiving: Arc<Semaphore>,
}

struct Part {
    receiver: Receiver,
    /// Index of the last entry that the snapshot contains.
    index: u64,
    bytes: u64,
    /// The CRC-32C of these bytes.
    crc: u32,
}

impl Default for Unfinished {
    fn default() -> Self {
        Self {
            part: Arc::default(),
            receiving: Arc::new(Semaphore::new(1)),
        }
    }
}

/// All calls but [`Unfinished::alone`] and [`Unfinished::is_obsolete`] may wait for a disk.
impl Unfinished {
    /// The permit to receive a snapshot, held during the receipt; `None` if another snapshot is
    /// being received.
    pub(crate) fn alone(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.receiving).try_acquire_owned().ok()
    }

    /// The number of bytes that are kept, and their CRC-32C.
    pub(crate) fn kept(&self) -> (u64, u32) {
        let part = self.part.lock();
        part.as_ref().map_or((0, 0), |part| (part.bytes, part.crc))
    }

    /// Begins a snapshot of `len` bytes. Removes the kept part of another one.
    pub(crate) fn begin(&self, folder: &Folder, index: u64, len: u64) -> io::Result<()> {
        let mut part = self.part.lock();
        *part = None;
        snapshot_file::check_room_to_install(&**folder.disk(), &folder.snapshots(), len)?;
        let receiver = Receiver::create(folder.disk(), &folder.snapshots())?;
        *part = Some(Part {
            receiver,
            index,
            bytes: 0,
            crc: 0,
        });
        Ok(())
    }

    /// Continues the snapshot of which `from` bytes are kept.
    pub(crate) fn resume(&self, from: u64) -> io::Result<()> {
        match self.kept() {
            (kept, _) if kept == from => Ok(()),
            (kept, _) => Err(io::Error::other(format!(
                "{kept} bytes of the snapshot are kept, not {from}"
            ))),
        }
    }

    pub(crate) fn write(&self, chunk: &[u8]) -> io::Result<()> {
        let mut kept = self.part.lock();
        let Some(part) = &mut *kept else {
            return Err(io::Error::other("nothing of the snapshot is kept"));
        };
        let written = part.receiver.write(chunk);
        match written {
            Ok(()) => {
                part.bytes += chunk.len() as u64;
                part.crc = crc32c::crc32c_append(part.crc, chunk);
            }
            // The number of bytes that were written is not known.
            Err(_) => *kept = None,
        }
        written
    }

    /// Takes the received part.
    pub(crate) fn take(&self) -> io::Result<Receiver> {
        let part = self.part.lock().take();
        part.map(|part| part.receiver)
            .ok_or_else(|| io::Error::other("nothing of the snapshot is kept"))
    }

    /// Returns whether there is a part, and all its entries were applied. Never waits: if the part
    /// is in use, it is not obsolete.
    pub(crate) fn is_obsolete(&self, applied: u64) -> bool {
        let part = self.part.try_lock();
        part.is_some_and(|part| part.as_ref().is_some_and(|part| part.index <= applied))
    }

    /// Removes the part unless it is being received, if all its entries were applied.
    pub(crate) fn remove_obsolete(&self, applied: u64) {
        if let Some(_alone) = self.alone() {
            self.part.lock().take_if(|part| part.index <= applied);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use seqd_disk::OsDisk;

    use super::*;

    fn files(folder: &Folder) -> usize {
        std::fs::read_dir(folder.snapshots()).unwrap().count()
    }

    /// Seven bytes of a snapshot up to entry 5.
    fn begun(root: &Path) -> (Folder, Unfinished) {
        let folder = Folder::open(Arc::new(OsDisk), root).unwrap();
        std::fs::create_dir(folder.snapshots()).unwrap();
        let unfinished = Unfinished::default();
        unfinished.begin(&folder, 5, 100).unwrap();
        unfinished.write(b"one").unwrap();
        unfinished.write(b"more").unwrap();
        (folder, unfinished)
    }

    #[test]
    fn kept_bytes_are_identified_by_their_length_and_checksum() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, unfinished) = begun(dir.path());
        assert_eq!(unfinished.kept(), (7, crc32c::crc32c(b"onemore")));
        unfinished.resume(7).unwrap();
        let refused = unfinished.resume(6).unwrap_err().to_string();
        assert!(refused.contains("7 bytes"), "{refused}");
        unfinished.begin(&folder, 9, 100).unwrap();
        assert_eq!((unfinished.kept(), files(&folder)), ((0, 0), 1));
    }

    #[test]
    fn an_outdated_snapshot_is_removed_unless_it_is_being_received() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, unfinished) = begun(dir.path());
        unfinished.remove_obsolete(4);
        let alone = unfinished.alone().unwrap();
        assert!(unfinished.alone().is_none());
        unfinished.remove_obsolete(5);
        assert_eq!((unfinished.kept().0, files(&folder)), (7, 1));
        drop(alone);
        unfinished.remove_obsolete(5);
        assert_eq!((unfinished.kept(), files(&folder)), ((0, 0), 0));
        assert!(unfinished.write(b"more").is_err());
        assert!(unfinished.take().is_err());
    }
}
