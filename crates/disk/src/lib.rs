//! Every file operation that durability rests on, behind two small traits.
//!
//! [`OsDisk`] is the operating system's. For tests, `simulated` is a disk in memory whose power can
//! fail, and `Tapped` intercepts some calls of any disk; no feature switches them on, so that what
//! is tested is built as what is shipped.
//!
//! This crate knows operations, not formats: the owner of a file decides when it is synced. It never
//! syncs, retries or buffers on its own.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `durable`, `os`, `read_only`, `simulated`, `stream`, `tapped`: one disk each, and what writers
//!   of files share

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
    /// Fills `buf` from `offset`; a file that ends before that is
    /// [`io::ErrorKind::UnexpectedEof`].
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Reserves `len` bytes, where the file system can; so that a full disk fails here and not later.
    fn reserve(&self, len: u64) -> io::Result<()>;
    /// Cuts the file off, or extends it with zeroes.
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

/// The bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    /// What an ordinary user may still write.
    pub free: u64,
}

/// The operations on names.
pub trait Disk: Send + Sync {
    /// Makes a folder and those above it; no error if it is there.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, in no order; a name that is not UTF-8 is left out.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes a file, which must not exist yet, for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file or a folder, inside one folder or into another of the same file system. A file
    /// that has the new name is replaced. The simulated disk refuses another folder: how much of such
    /// a move a power cut leaves differs between file systems.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// `fsync` of a folder: its names are durable afterwards.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// The space of the file system that a folder is on.
    fn space(&self, path: &Path) -> io::Result<Space>;
}
