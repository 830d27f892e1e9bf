//! Every file operation that durability depends on, behind two small traits.
//!
//! [`OsDisk`] is the disk of the operating system. For tests, `simulated` is a disk in memory whose
//! power can fail, and `Tapped` intercepts some calls of any disk. No feature enables them, so that
//! tests use the same build as the product.
//!
//! This crate provides operations, not formats: the owner of a file decides when it is synced. It
//! never syncs, retries or buffers on its own.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `durable`, `os`, `read_only`, `simulated`, `stream`, `tapped`: the implementations of a disk,
//!   and shared helpers for files

mod durable;
mod os;
mod read_only;
pub mod simulated;
mod stream;
mod tapped;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use durable::{create_dir_durable, read_file, replace_file, sibling};
pub use os::OsDisk;
pub use read_only::ReadOnly;
pub use stream::{FileReader, FileWriter};
pub use tapped::{Tap, Tapped};

/// An open file. All positions are bytes from its start.
pub trait DiskFile: Send + Sync {
    /// Fills `buf` from `offset`. Returns [`io::ErrorKind::UnexpectedEof`] if the file ends before
    /// that.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Reserves `len` bytes if the file system supports it, so that a full disk fails here and not
    /// later.
    fn reserve(&self, len: u64) -> io::Result<()>;
    /// Truncates the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// `fdatasync`: the data, and the size if it changed.
    fn sync_data(&self) -> io::Result<()>;
    /// `fsync`: data and metadata.
    fn sync_all(&self) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
}

/// The size of a file system in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    /// The space available to an ordinary user.
    pub free: u64,
}

/// The operations on names.
pub trait Disk: Send + Sync {
    /// Creates a folder and its parents. Succeeds if it exists.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Returns the names in a folder in no particular order. Names that are not UTF-8 are omitted.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a file for reading and writing. It must not exist yet.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file or a folder, within one folder or into another one of the same file system.
    /// An existing file with the new name is replaced. The simulated disk rejects a move to another
    /// folder, because file systems differ in how much of it survives a power cut.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// `fsync` of a folder: its names are durable afterwards.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Returns the space of the file system of a folder.
    fn space(&self, path: &Path) -> io::Result<Space>;
}
