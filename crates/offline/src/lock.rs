//! The data folder's lock, as a tool takes it: without making or changing anything.
//!
//! The lock belongs to the open file and not to its bytes, so that a file opened for reading is
//! enough, also on a read-only mount.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use seqd_disk::{OsDisk, create_dir_durable};

#[derive(Debug)]
pub struct FolderLock {
    /// Kept open: closing it would let go.
    held: Option<File>,
    why_not: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A node, or a tool that changes something, has it.
    #[error("{} is in use by another process", path.display())]
    InUse { path: PathBuf },
    /// There is no such folder.
    #[error("{} is not a folder", path.display())]
    Missing { path: PathBuf },
    /// The system refused.
    #[error("cannot lock {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl FolderLock {
    /// For a tool that looks: no node can start meanwhile, other tools can look too. Where the
    /// folder has no lock file, or its file system no locks, nothing is locked, and
    /// [`FolderLock::why_not`] says so.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn to_look(root: &Path) -> Result<Self, LockError> {
        Self::take(root, FlockOperation::NonBlockingLockShared)
    }

    /// For a tool that changes something: nobody else may use the folder.
    ///
    /// # Errors
    /// See [`LockError`]; here a lock that cannot be taken is one.
    pub fn to_change(root: &Path) -> Result<Self, LockError> {
        let lock = Self::take(root, FlockOperation::NonBlockingLockExclusive)?;
        match lock.why_not {
            None => Ok(lock),
            Some(why) => Err(LockError::Io {
                path: root.to_owned(),
                source: io::Error::other(why),
            }),
        }
    }

    /// For a tool that fills a folder: the folder and its lock file are made if they are not there.
    ///
    /// # Errors
    /// As [`FolderLock::to_change`].
    pub(super) fn to_fill(root: &Path) -> Result<Self, LockError> {
        Self::make(root, OpenOptions::new().create(true).truncate(false))?;
        Self::to_change(root)
    }

    /// For a tool that found no lock file when it looked: nothing if there is one by now, so that
    /// somebody has used the folder since.
    ///
    /// # Errors
    /// As [`FolderLock::to_change`].
    pub(super) fn of_unused(root: &Path) -> Result<Option<Self>, LockError> {
        match Self::make(root, OpenOptions::new().create_new(true)) {
            Ok(()) => Self::to_change(root).map(Some),
            Err(LockError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn make(root: &Path, how: &mut OpenOptions) -> Result<(), LockError> {
        let made = create_dir_durable(&OsDisk, root)
            .and_then(|()| how.write(true).open(root.join("LOCK")));
        made.map(drop).map_err(|source| LockError::Io {
            path: root.to_owned(),
            source,
        })
    }

    fn take(root: &Path, operation: FlockOperation) -> Result<Self, LockError> {
        let path = root.to_owned();
        if !root.is_dir() {
            return Err(LockError::Missing { path });
        }
        let unlocked = |why: String| Self {
            held: None,
            why_not: Some(why),
        };
        let file = match OpenOptions::new().read(true).open(root.join("LOCK")) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(unlocked("it has no LOCK file".to_owned()));
            }
            Err(source) => return Err(LockError::Io { path, source }),
        };
        match flock(&file, operation) {
            Ok(()) => Ok(Self {
                held: Some(file),
                why_not: None,
            }),
            Err(Errno::WOULDBLOCK) => Err(LockError::InUse { path }),
            // A network file system may want a file that is open for writing, or have no locks.
            Err(errno @ (Errno::BADF | Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS)) => {
                Ok(unlocked(format!("its file system does not lock: {errno}")))
            }
            Err(errno) => Err(LockError::Io {
                path,
                source: errno.into(),
            }),
        }
    }

    /// Why nothing is locked; `None` while the lock is held.
    #[must_use]
    pub fn why_not(&self) -> Option<&str> {
        self.why_not.as_deref()
    }

    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use seqd_store::folder::Folder;

    #[test]
    fn a_node_and_a_tool_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let node = Folder::open(Arc::new(seqd_disk::OsDisk), dir.path()).unwrap();
        let refused = FolderLock::to_look(dir.path()).unwrap_err();
        assert!(matches!(refused, LockError::InUse { .. }), "{refused}");
        node.unlock();
        let one = FolderLock::to_look(dir.path()).unwrap();
        let two = FolderLock::to_look(dir.path()).unwrap();
        assert!(one.is_held() && two.is_held());
        let stop = Folder::open(Arc::new(seqd_disk::OsDisk), dir.path())
            .err()
            .unwrap();
        assert_eq!(stop.code(), "folder-in-use");
        assert!(FolderLock::to_change(dir.path()).is_err());
        drop((one, two));
        FolderLock::to_change(dir.path()).unwrap();
    }

    #[test]
    fn looking_makes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let lock = FolderLock::to_look(dir.path()).unwrap();
        assert!(!lock.is_held() && lock.why_not().is_some());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(FolderLock::to_change(dir.path()).is_err());
        let missing = FolderLock::to_look(&dir.path().join("nowhere"));
        assert!(matches!(missing, Err(LockError::Missing { .. })));
    }
}
