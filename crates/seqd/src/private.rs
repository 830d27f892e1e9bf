//! A data folder is for the user of its node alone: it holds all that the cluster knows, and whoever
//! could open its lock could keep the node from starting.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::umask;

/// The bits of a mode that are of other users, and that of a folder which many share, such as /tmp.
const OTHERS: u32 = 0o077;
const SHARED: u32 = 0o1000;

/// Makes what this process creates its user's alone, and `folder` too if it is empty or a node's.
///
/// # Errors
/// The mode of the folder cannot be changed.
pub(crate) fn keep(folder: &Path) -> io::Result<()> {
    umask(Mode::RWXG | Mode::RWXO);
    let Ok(known) = fs::metadata(folder) else {
        // It is made later, with the mask.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
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
