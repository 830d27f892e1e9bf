//! Keeps data private to the user of the process:
//!
//! - the data folder of a node, which contains all data of the cluster, and a lock file with which
//!   another user could prevent the node from starting. Files that root's tools write into it are
//!   given to the folder's owner.
//! - the memory of a process that has keys and tokens, which a core dump would write to a file
//! - new files with secrets

use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown};
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, umask};

/// The mode bits of group and others, and the sticky bit, which marks a shared folder such as /tmp.
const OTHERS: u32 = 0o077;
const SHARED: u32 = 0o1000;

/// Makes new files of this process private to its user. Makes `folder` private too, if it is empty
/// or the folder of a node.
///
/// # Errors
/// The mode of the folder cannot be changed.
pub(crate) fn keep(folder: &Path) -> io::Result<()> {
    umask(Mode::RWXG | Mode::RWXO);
    let Ok(known) = fs::metadata(folder) else {
        // It is created later, with the umask.
        return Ok(());
    };
    if !known.is_dir() || known.mode() & OTHERS == 0 || known.mode() & SHARED != 0 {
        return Ok(());
    }
    let is_empty = fs::read_dir(folder)?.next().is_none();
    let lock = folder.join("LOCK");
    if is_empty || lock.exists() {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        if lock.exists() {
            fs::set_permissions(lock, Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

/// The user and the group of a data folder, for a tool that another user runs, such as root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    uid: u32,
    gid: u32,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

impl Owner {
    /// The owner of `folder`, or, before it exists, of the nearest folder above it. `None` if it is
    /// the user of this process.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let folder = std::path::absolute(folder).ok()?;
        let known = folder.ancestors().find_map(|it| fs::metadata(it).ok())?;
        // Files in a shared folder such as /tmp belong to their makers.
        let is_shared = known.mode() & SHARED != 0;
        let (uid, gid) = (known.uid(), known.gid());
        (uid != geteuid().as_raw() && !is_shared).then_some(Self { uid, gid })
    }

    /// Gives `folder` and its content to this owner. Symbolic links are not followed.
    ///
    /// # Errors
    /// A file cannot be read or given away, for which a process needs the rights of root.
    pub(crate) fn give(self, folder: &Path) -> io::Result<()> {
        lchown(folder, Some(self.uid), Some(self.gid))?;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                self.give(&entry.path())?;
            } else {
                lchown(entry.path(), Some(self.uid), Some(self.gid))?;
            }
        }
        Ok(())
    }
}

/// Disables core dumps of this process.
///
/// # Errors
/// The limit was above one byte, and the system refuses to lower it.
pub(crate) fn no_core_dumps() -> io::Result<()> {
    // One byte instead of zero: if `core_pattern` is a pipe, the kernel writes the dump to it even
    // at a limit of 0, but not at 1 (core(5)). It does not write a file of one byte either. A lower
    // limit stays, because only a privileged process may raise it.
    let own = getrlimit(Resource::Core).maximum;
    let most = Some(own.map_or(1, |own| own.min(1)));
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    Ok(setrlimit(Resource::Core, limit)?)
}

/// Creates a new file that has this mode from the start.
///
/// # Errors
/// The file exists, or it cannot be created.
pub(crate) fn new_file(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    /// Only root can create files of another user, so for other users there is nothing to test.
    #[test]
    fn the_content_of_a_folder_goes_to_the_owner_of_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("data");
        fs::create_dir(&folder).unwrap();
        assert_eq!(Owner::of(&folder), None);
        assert_eq!(Owner::of(&folder.join("not/there")), None);
        if !geteuid().is_root() {
            return;
        }
        lchown(&folder, Some(4711), Some(4712)).unwrap();
        let owner = Owner::of(&folder.join("not/there")).unwrap();
        assert_eq!(owner.to_string(), "4711:4712");
        fs::create_dir(folder.join("wal")).unwrap();
        fs::write(folder.join("wal/1"), "").unwrap();
        std::os::unix::fs::symlink("/", folder.join("link")).unwrap();
        owner.give(&folder).unwrap();
        for name in ["", "wal", "wal/1", "link"] {
            let known = fs::symlink_metadata(folder.join(name)).unwrap();
            assert_eq!((known.uid(), known.gid()), (4711, 4712), "{name}");
        }
        assert_ne!(fs::metadata("/").unwrap().uid(), 4711);
    }

    #[test]
    fn a_node_s_folder_is_closed_to_others_and_no_other_folder_is() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[&str], mode: u32| {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            for file in files {
                fs::write(path.join(file), "").unwrap();
                fs::set_permissions(path.join(file), Permissions::from_mode(0o644)).unwrap();
            }
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            keep(&path).unwrap();
            path
        };
        assert_eq!(mode(&make("empty", &[], 0o755)), 0o700);
        let nodes = make("nodes", &["LOCK"], 0o755);
        assert_eq!(mode(&nodes), 0o700);
        assert_eq!(mode(&nodes.join("LOCK")), 0o600);
        assert_eq!(mode(&make("others", &["notes"], 0o755)), 0o755);
        assert_eq!(mode(&make("shared", &["LOCK"], 0o1777)), 0o1777);
        let made = root.path().join("made");
        fs::create_dir(&made).unwrap();
        assert_eq!(mode(&made), 0o700);
    }
}
