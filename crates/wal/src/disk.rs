//! Every file operation of the log, behind two small traits, so that a test can make one fail,
//! block or lie. Nothing else in this crate names `std::fs`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FallocateFlags;

/// An open file. All positions are bytes from its start.
pub trait DiskFile: Send + Sync {
    /// Fills `buf` from `offset`; a file that ends before that is an error.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` at `offset`.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Reserves `len` bytes, where the file system can; a full disk is told here, not later.
    fn reserve(&self, len: u64) -> io::Result<()>;
    /// `fdatasync`: the data, and the size if it changed.
    fn sync_data(&self) -> io::Result<()>;
    /// `fsync`: data and metadata.
    fn sync_all(&self) -> io::Result<()>;
    /// The size in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether nothing is in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// The folder operations that the log needs.
pub trait Disk: Send + Sync {
    /// Makes a folder and those above it; no error if it is there.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, in no order; a name that is not UTF-8 is left out.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes a file, which must not exist yet.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file inside one folder.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// `fsync` of a folder: its names are durable afterwards.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// The operating system's disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk;

impl DiskFile for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(buf, offset)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(self, FallocateFlags::empty(), 0, len) {
            // A file system without it only loses the early warning and a few extents.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(self)?)
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self)?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl Disk for OsDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(
            OpenOptions::new().read(true).write(true).open(path)?,
        ))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(
            OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .open(path)?,
        ))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // A folder opens read-only, and only for this.
        Ok(rustix::fs::fsync(&File::open(path)?)?)
    }
}
