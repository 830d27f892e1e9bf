//! Takes the lock of the data folder for a tool, without creating or changing anything.
//!
//! The lock belongs to the open file and not to its bytes, so a file opened for reading suffices,
//! even on a read-only mount.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use seqd_disk::{OsDisk, create_dir_durable};

use super::error::OfflineError;

#[derive(Debug)]
pub(super) struct FolderLock {
    /// The file, which releases the lock when it is closed. Without a lock, the reason.
    held: Result<File, String>,
}

impl FolderLock {
    /// For a tool that reads: no node can start in the meantime, but other tools can read too. If
    /// the folder has no lock file, or its file system has no locks, nothing is locked; see
    /// [`FolderLock::why_not`].
    pub(super) fn to_look(root: &Path) -> Result<Self, OfflineError> {
        Self::take(root, FlockOperation::NonBlockingLockShared)
    }

    /// For a tool that changes something: no other process may use the folder.
    pub(super) fn to_change(root: &Path) -> Result<Self, OfflineError> {
        let lock = Self::take(root, FlockOperation::NonBlockingLockExclusive)?;
        match &lock.held {
            Ok(_) => Ok(lock),
            Err(why) => Err(failed(root, why)),
        }
    }

    /// For a tool that fills a folder: the folder and its lock file are created if they do not
    /// exist.
    pub(super) fn to_fill(root: &Path) -> Result<Self, OfflineError> {
        make(root, OpenOptions::new().create(true).truncate(false))
            .map_err(|error| failed(root, &error))?;
        Self::to_change(root)
    }

    /// For a tool that found no lock file earlier. Returns `None` if the lock file exists by now,
    /// because another process has used the folder since.
    pub(super) fn of_unused(root: &Path) -> Result<Option<Self>, OfflineError> {
        match make(root, OpenOptions::new().create_new(true)) {
            Ok(()) => Self::to_change(root).map(Some),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(failed(root, &error)),
        }
    }

    fn take(root: &Path, operation: FlockOperation) -> Result<Self, OfflineError> {
        check_folder(root)?;
        let unlocked = |why: String| Self { held: Err(why) };
        let file = match OpenOptions::new().read(true).open(root.join("LOCK")) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(unlocked("it has no LOCK file".to_owned()));
            }
            Err(error) => return Err(failed(root, &error)),
        };
        match flock(&file, operation) {
            Ok(()) => Ok(Self { held: Ok(file) }),
            Err(Errno::WOULDBLOCK) => {
                let text = format!("{} is in use by another process", root.display());
                Err(OfflineError::new("folder-in-use", text).with_hint(
                    "stop the node that uses the folder; this tool works only on the folder of a \
                     stopped node",
                ))
            }
            // A network file system may require a file that is open for writing, or may have no
            // locks.
            Err(errno @ (Errno::BADF | Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS)) => Ok(
                unlocked(format!("its file system does not support locks: {errno}")),
            ),
            Err(errno) => Err(failed(root, &errno)),
        }
    }

    /// Returns the reason why nothing is locked, or `None` if the lock is held.
    pub(super) fn why_not(&self) -> Option<&str> {
        self.held.as_ref().err().map(String::as_str)
    }
}

/// Refuses a path that is not a folder.
pub(super) fn check_folder(root: &Path) -> Result<(), OfflineError> {
    let is_folder = match fs::metadata(root) {
        Ok(found) => found.is_dir(),
        Err(error) if is_missing(&error) => false,
        Err(error) => return Err(failed(root, &error)),
    };
    if is_folder {
        return Ok(());
    }
    let text = format!("{} is not a folder", root.display());
    Err(OfflineError::new("not-found", text))
}

fn make(root: &Path, how: &mut OpenOptions) -> io::Result<()> {
    create_dir_durable(&OsDisk, root)?;
    how.write(true).open(root.join("LOCK")).map(drop)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn failed(root: &Path, why: &dyn std::fmt::Display) -> OfflineError {
    OfflineError::new("failure", format!("cannot lock {}: {why}", root.display()))
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
        assert_eq!(refused.code, "folder-in-use", "{refused}");
        node.unlock();
        let one = FolderLock::to_look(dir.path()).unwrap();
        let two = FolderLock::to_look(dir.path()).unwrap();
        assert!(one.why_not().is_none() && two.why_not().is_none());
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
        assert!(lock.why_not().is_some());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(FolderLock::to_change(dir.path()).is_err());
        let missing = FolderLock::to_look(&dir.path().join("nowhere"));
        assert_eq!(missing.unwrap_err().code, "not-found");
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let (inside, looped) = (file.join("data"), dir.path().join("loop"));
        std::os::unix::fs::symlink(&looped, &looped).unwrap();
        for (path, code) in [
            (file, "not-found"),
            (inside, "not-found"),
            (looped, "failure"),
        ] {
            let refused = FolderLock::to_look(&path).unwrap_err();
            assert_eq!(refused.code, code, "{refused}");
        }
    }
}
