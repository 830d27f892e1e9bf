//! A disk that refuses every change.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::{Disk, DiskFile, Kind, Space};

/// Opens every file for reading only.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOnly<D>(pub D);

fn refused() -> io::Error {
    io::Error::new(
        io::ErrorKind::ReadOnlyFilesystem,
        "this disk is opened for reading alone",
    )
}

impl<D: Disk> Disk for ReadOnly<D> {
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.0.list(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.0.kind(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        // The reader of a log opens its segments for reading and writing. A write to such a file
        // fails.
        self.0.open_read(path)
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.0.open_read(path)
    }

    fn create(&self, _: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Err(refused())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn remove_dir_all(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.0.space(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OsDisk, replace_file};

    #[test]
    fn a_disk_that_is_looked_at_does_not_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept");
        std::fs::write(&path, "as it was").unwrap();
        let disk = ReadOnly(OsDisk);
        let file = disk.open(&path).unwrap();
        assert_eq!(file.len().unwrap(), 9);
        assert!(file.write_at(b"x", 0).is_err());
        assert!(file.set_len(0).is_err());
        assert!(replace_file(&disk, &path, b"new").is_err());
        assert!(disk.remove(&path).is_err());
        assert!(disk.rename(&path, &dir.path().join("moved")).is_err());
        assert!(disk.create_dir_all(&dir.path().join("made")).is_err());
        assert_eq!(disk.list(dir.path()).unwrap(), ["kept"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"as it was");
    }
}
