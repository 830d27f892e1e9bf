//! A snapshot that arrives from a peer in chunks.
//!
//! It is verified in full before it is used, and has no final name until it is adopted:
//! a transfer that was not installed must not look like a snapshot of this node after a crash.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::{Disk, FileWriter};

use super::reader::verify;
use super::writer::TmpFile;
use super::{SnapshotFile, file_name, invalid};

/// A transfer that is under way. Dropped before [`Receiver::finish`], it leaves nothing.
pub struct Receiver {
    out: FileWriter,
    tmp: TmpFile,
}

/// A snapshot that arrived whole. Dropped before [`Received::adopt`], it leaves nothing.
pub struct Received {
    file: SnapshotFile,
    tmp: TmpFile,
}

impl Receiver {
    /// Begins to receive a snapshot into `dir`. How many bytes may come is the caller's to bound.
    pub fn create(disk: &Arc<dyn Disk>, dir: &Path) -> io::Result<Receiver> {
        // One transfer comes at a time, but one before it may not be installed yet.
        let mut number = 0;
        loop {
            let path = dir.join(format!("received-{number}.tmp"));
            match TmpFile::create(disk, path) {
                Ok((tmp, file)) => {
                    let out = FileWriter::new(file);
                    return Ok(Receiver { out, tmp });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.out.write_all(chunk)
    }

    /// Syncs the file and verifies it in full, and that it is a snapshot of `cluster_id`.
    pub fn finish(self, cluster_id: &str) -> io::Result<Received> {
        self.out.file().sync_all()?;
        let file = verify(self.tmp.disk(), self.tmp.path())?;
        if file.cluster_id != cluster_id {
            let other = format!("it belongs to cluster {:?}", file.cluster_id);
            return Err(invalid(self.tmp.path(), other));
        }
        Ok(Received {
            file,
            tmp: self.tmp,
        })
    }
}

impl Received {
    /// Where it is: a temporary name.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Index and term of the last entry that is in it.
    pub fn position(&self) -> (u64, u64) {
        (self.file.index, self.file.term)
    }

    pub fn len_bytes(&self) -> u64 {
        self.file.len
    }

    /// Gives the file its final name in its folder, durably.
    pub fn adopt(self) -> io::Result<SnapshotFile> {
        let Received { mut file, mut tmp } = self;
        let dir = tmp
            .path()
            .parent()
            .map(Path::to_path_buf)
            .unwrap_or_else(PathBuf::new);
        file.path = tmp.rename(&dir, &file_name(file.index, file.term))?;
        Ok(file)
    }
}
