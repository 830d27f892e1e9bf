//! The folder for a copy of a checkpoint, which the tools open instead of the checkpoint itself.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Creates a folder that no other user can read, whatever the umask is, because the state contains
/// secrets.
pub(super) fn private_folder(temporary: &Path) -> io::Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("seqd-look-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(temporary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_user_can_read_the_copy_of_a_checkpoint() {
        let temporary = tempfile::tempdir().unwrap();
        let copy = private_folder(temporary.path()).unwrap();
        let mode = std::fs::metadata(copy.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
