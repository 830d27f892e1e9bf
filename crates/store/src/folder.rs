//! The data folder: its lock, its format, and the small files with its identity.
//!
//! ```text
//! LOCK      held while a process uses the folder
//! format    "seqd-data 1"
//! identity  cluster ID, node ID, name, members at the bootstrap
//! boot      how often the folder was started
//! peers     what the other nodes have acknowledged
//! refused   why the folder must never be started again
//! ```
//!
//! A small file is written as `.tmp`, synced and renamed, and its directory is synced. Its last
//! four bytes are the CRC-32C of the rest. All files except `LOCK` are accessed through the disk
//! with which the folder is opened. The lock is a lock of the operating system, because it excludes
//! other processes.

#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use seqd_disk::{Disk, create_dir_durable, read_file, replace_file};
use seqd_state::codec::{self, Versioned};
use serde::{Deserialize, Serialize};

use crate::disk_errors::newer;
use crate::records::{Member, PeersRecord};
use crate::stop::{Stop, StopReason};

pub const FORMAT: &str = "seqd-data 1";

/// The largest small file in bytes. A membership of a hundred nodes takes a tenth of it.
const MAX_SMALL_FILE_BYTES: usize = 256 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub cluster_id: String,
    pub node: u64,
    pub name: String,
    /// The members that founded the cluster or, for a node that joined, the members of the cluster
    /// that it joined.
    pub members: Vec<(u64, Member)>,
    /// `true` if this node chose the cluster ID and must repeat its prepare after a crash.
    pub founder: bool,
    /// `true` if this node was added to an existing cluster.
    pub joined: bool,
    /// The clusters from which this one was restored.
    pub ancestors: Vec<String>,
}

impl Versioned for Identity {
    const KIND: u8 = 100;
    const VERSION: u8 = 1;
}

#[derive(Serialize, Deserialize)]
pub struct BootRecord {
    pub boot: u64,
}

impl Versioned for BootRecord {
    const KIND: u8 = 101;
    const VERSION: u8 = 1;
}

#[derive(Serialize, Deserialize)]
pub struct RefusedRecord {
    pub code: String,
    pub message: String,
}

impl Versioned for RefusedRecord {
    const KIND: u8 = 102;
    const VERSION: u8 = 1;
}

/// The folder, locked for this process.
pub struct Folder {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    lock: Option<File>,
}

impl Folder {
    /// Creates or opens the folder and takes its lock.
    pub fn open(disk: Arc<dyn Disk>, root: &Path) -> Result<Self, Stop> {
        create_root(&*disk, root).map_err(|e| Stop::unusable(root, &e))?;
        let path = root.join("LOCK");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| Stop::unusable(&path, &e))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| not_locked(root, &path, error))?;
        Self::checked(disk, root, Some(lock))
    }

    /// Like `open`, on a disk that is invisible to other processes and has no locks.
    pub fn open_unlocked(disk: Arc<dyn Disk>, root: &Path) -> Result<Self, Stop> {
        create_root(&*disk, root).map_err(|e| Stop::unusable(root, &e))?;
        Self::checked(disk, root, None)
    }

    /// Opens a folder whose lock a tool already holds. An empty folder becomes a data folder, as at
    /// a start. Nothing else is created and nothing is removed, and a mark with the tool's own code
    /// does not make it fail.
    pub fn of_tool(disk: Arc<dyn Disk>, root: &Path, own_mark: &str) -> Result<Self, Stop> {
        let root = root.to_owned();
        let lock = None;
        let folder = Self { disk, root, lock };
        folder.check_format()?;
        if refused_code(&*folder.disk, &folder.root)?.as_deref() != Some(own_mark) {
            folder.check_refused()?;
        }
        Ok(folder)
    }

    /// Marks an empty or unfinished folder whose lock a tool already holds, and then makes it a data
    /// folder: without the mark, a start would take it for the folder of a new node.
    pub fn to_fill(
        disk: Arc<dyn Disk>,
        root: &Path,
        own_mark: &str,
        message: &str,
    ) -> Result<Self, Stop> {
        let root = root.to_owned();
        let lock = None;
        let folder = Self { disk, root, lock };
        let has_format = folder.has_format()?;
        if refused_code(&*folder.disk, &folder.root)?.as_deref() != Some(own_mark) {
            folder.check_refused()?;
        }
        folder
            .mark_refused(own_mark, message)
            .map_err(|e| Stop::unusable(&folder.root, &e))?;
        if !has_format {
            folder.write_format()?;
        }
        Ok(folder)
    }

    fn checked(disk: Arc<dyn Disk>, root: &Path, lock: Option<File>) -> Result<Self, Stop> {
        let root = root.to_owned();
        let folder = Self { disk, root, lock };
        folder.check_format()?;
        folder.check_refused()?;
        folder
            .remove_leftovers()
            .map_err(|e| Stop::unusable(&folder.root, &e))?;
        Ok(folder)
    }

    /// Checks the format. An empty folder becomes a data folder.
    fn check_format(&self) -> Result<(), Stop> {
        if self.has_format()? {
            return Ok(());
        }
        // A tool marks the folder that it fills before it writes the format.
        self.check_refused()?;
        let found = self.foreign_content();
        if let Some(found) = found.map_err(|e| Stop::unusable(&self.root, &e))? {
            return Err(Stop::new(
                StopReason::ForeignFolder,
                format!(
                    "{} holds {found} but no `format` file: it is not a data folder of seqd, or \
                     part of it was deleted; give this node an empty folder",
                    self.root.display()
                ),
            ));
        }
        self.write_format()
    }

    fn write_format(&self) -> Result<(), Stop> {
        let path = self.root.join("format");
        replace_file(&*self.disk, &path, format!("{FORMAT}\n").as_bytes())
            .map_err(|e| Stop::unusable(&path, &e))
    }

    /// Returns whether the folder has a format. A format that this version does not read is an
    /// error.
    fn has_format(&self) -> Result<bool, Stop> {
        let path = self.root.join("format");
        let read = read_file(&*self.disk, &path, MAX_SMALL_FILE_BYTES);
        let text = match read {
            Ok(bytes) => bytes.map(String::from_utf8).transpose(),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                return Err(Stop::damaged(&path, "it is too long"));
            }
            Err(e) => return Err(Stop::unusable(&path, &e)),
        };
        match text.map_err(|_| Stop::damaged(&path, "it is not UTF-8 text"))? {
            Some(text) if text.trim_end() == FORMAT => Ok(true),
            Some(text) if is_a_format(&text) => Err(Stop::new(
                StopReason::NewerFormat,
                format!(
                    "{} contains {:?}, and this version reads {FORMAT:?}; start the version of seqd \
                     that wrote the folder, or a newer one",
                    path.display(),
                    text.trim_end()
                ),
            )),
            Some(text) => Err(Stop::damaged(
                &path,
                &format!("it contains {:?}", text.trim_end()),
            )),
            None => Ok(false),
        }
    }

    /// Removes the remains of interrupted writes of small files.
    fn remove_leftovers(&self) -> io::Result<()> {
        for name in self.disk.list(&self.root)? {
            if name.ends_with(".tmp") {
                self.disk.remove(&self.root.join(name))?;
            }
        }
        Ok(())
    }

    /// Returns the name of an entry that an empty folder would not contain.
    fn foreign_content(&self) -> io::Result<Option<String>> {
        let own = |name: &str| matches!(name, "LOCK" | "lost+found" | "format.tmp");
        let names = self.disk.list(&self.root)?;
        Ok(names.into_iter().find(|name| !own(name)))
    }

    fn check_refused(&self) -> Result<(), Stop> {
        let path = self.root.join("refused");
        let Some(record) = self.read_checked::<RefusedRecord>(&path)? else {
            return Ok(());
        };
        let reason = StopReason::of_code(&record.code).filter(|reason| reason.is_final());
        Err(Stop::new(
            reason.unwrap_or(StopReason::StaleFolder),
            record.message,
        ))
    }

    /// Releases the lock, so that another process, or another node of this process, can use the
    /// folder.
    pub fn unlock(&self) {
        let Some(lock) = &self.lock else {
            return;
        };
        if let Err(error) = flock(lock, FlockOperation::Unlock) {
            tracing::warn!(%error, "the folder's lock was not released");
        }
    }

    /// Marks the folder so that no later start contacts the peers again.
    pub fn mark_refused(&self, code: &str, message: &str) -> io::Result<()> {
        let record = RefusedRecord {
            code: code.to_owned(),
            message: message.to_owned(),
        };
        self.write_checked(&self.root.join("refused"), &record)
    }

    /// Removes the mark. Only the tool that set it may call this.
    pub fn unmark_refused(&self) -> io::Result<()> {
        self.disk.remove(&self.root.join("refused"))?;
        self.disk.sync_dir(&self.root)
    }

    pub fn identity(&self) -> Result<Option<Identity>, Stop> {
        self.read_checked(&self.root.join("identity"))
    }

    /// Stores the identity durably.
    pub fn write_identity(&self, identity: &Identity) -> io::Result<()> {
        self.write_checked(&self.root.join("identity"), identity)
    }

    /// Increments the boot number durably and returns it.
    pub fn raise_boot(&self) -> Result<u64, Stop> {
        let path = self.root.join("boot");
        let record = self.read_checked::<BootRecord>(&path)?;
        let boot = record.map_or(0, |record| record.boot) + 1;
        self.write_checked(&path, &BootRecord { boot })
            .map_err(|e| Stop::unusable(&path, &e))?;
        Ok(boot)
    }

    fn write_checked<T: Versioned>(&self, path: &Path, value: &T) -> io::Result<()> {
        let bytes = codec::seal(value).map_err(io::Error::other)?;
        replace_file(&*self.disk, path, &bytes)
    }

    fn read_checked<T: Versioned>(&self, path: &Path) -> Result<Option<T>, Stop> {
        read_checked(&*self.disk, path).map_err(|error| unread(path, &error))
    }

    /// Returns the stored table of the positions that the peers have acknowledged.
    ///
    /// # Errors
    /// An I/O error instead of a [`Stop`]: a node starts without this file if it is damaged.
    pub fn peers(&self) -> io::Result<Option<PeersRecord>> {
        read_checked(&*self.disk, &self.root.join("peers"))
    }

    pub fn write_peers(&self, record: &PeersRecord) -> io::Result<()> {
        self.write_checked(&self.root.join("peers"), record)
    }

    /// Returns whether the folder of the log exists and contains a segment. A disk error is
    /// returned as such: a log that cannot be read is not lost.
    pub fn has_log(&self) -> io::Result<bool> {
        match self.disk.list(&self.wal()) {
            Ok(names) => Ok(names.iter().any(|name| name.ends_with(".seg"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn wal(&self) -> PathBuf {
        self.root.join("wal")
    }

    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snap")
    }
}

/// The stop for a lock that was not acquired. A file system without locks is not reported as in
/// use.
fn not_locked(root: &Path, lock: &Path, error: Errno) -> Stop {
    if error != Errno::WOULDBLOCK {
        return Stop::of_io(&format!("cannot lock {}", lock.display()), &error.into());
    }
    Stop::new(
        StopReason::FolderInUse,
        format!(
            "{} is in use by another process; stop that process, or give this node its own folder",
            root.display()
        ),
    )
}

/// Returns the code in the mark of a folder that must not be started, if it has one.
pub fn refused_code(disk: &dyn Disk, root: &Path) -> Result<Option<String>, Stop> {
    let path = root.join("refused");
    let record = read_checked::<RefusedRecord>(disk, &path).map_err(|error| unread(&path, &error));
    Ok(record?.map(|record| record.code))
}

/// Reads a small file and verifies its checksum. Returns `None` if the file does not exist.
pub fn read_checked<T: Versioned>(disk: &dyn Disk, path: &Path) -> io::Result<Option<T>> {
    let Some(bytes) = read_file(disk, path, MAX_SMALL_FILE_BYTES)? else {
        return Ok(None);
    };
    codec::unseal(&bytes).map(Some).map_err(|error| {
        if error.is_newer() {
            newer(error.to_string())
        } else {
            io::Error::new(io::ErrorKind::InvalidData, error.to_string())
        }
    })
}

/// The stop for a small file without which the node cannot start.
fn unread(path: &Path, error: &io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::InvalidData => Stop::damaged(path, &error.to_string()),
        _ => Stop::unusable(path, error),
    }
}

/// Creates the folder, or makes its directory entry durable if it exists. If the parent directory
/// is not readable, another process created the folder.
fn create_root(disk: &dyn Disk, root: &Path) -> io::Result<()> {
    let was_there = disk.kind(root)?.is_some();
    match create_dir_durable(disk, root) {
        Err(error) if was_there && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
}

/// Returns whether any version of seqd writes this text into `format`.
pub fn is_a_format(text: &str) -> bool {
    let number = text.trim_end().strip_prefix("seqd-data ");
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}
