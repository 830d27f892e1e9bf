//! Receives a snapshot from a peer in chunks.
//!
//! It is verified in full before it is used, and has no final name until it is adopted: after a
//! crash, a transfer that was not installed must not look like a snapshot of this node.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::{Disk, FileWriter};

use super::reader::verify;
use super::writer::TmpFile;
use super::{SnapshotFile, file_name, invalid};

/// A transfer in progress. If it is dropped before [`Receiver::finish`], its file is removed.
pub struct Receiver {
    out: FileWriter,
    tmp: TmpFile,
}

/// A snapshot that was received completely. If it is dropped before [`Received::adopt`], its file
/// is removed.
pub struct Received {
    file: SnapshotFile,
    tmp: TmpFile,
}

impl Receiver {
    /// Begins to receive a snapshot into `dir`. The caller limits the number of bytes.
    pub fn create(disk: &Arc<dyn Disk>, dir: &Path) -> io::Result<Receiver> {
        // There is one transfer at a time, but the previous one may not be installed yet.
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

    /// Syncs the file, verifies it in full, and checks that it belongs to `cluster_id`.
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
    /// Returns the path of the file, which has a temporary name.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Returns the index and term of the last entry in the snapshot.
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
