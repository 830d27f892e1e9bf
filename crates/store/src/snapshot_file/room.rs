//! Whether there is room for one more snapshot. Checked before one is written or received: a full disk
//! ends the node, a snapshot that is refused does not.

use std::io;
use std::path::Path;

use seqd_disk::{Disk, Space};

/// Bytes that a snapshot leaves free: two segments of the log. Neither what an operator asks for
/// nor what a leader sends must be what fills the disk.
const LEFT_FREE: u64 = 32 << 20;

/// Refuses a file of about `bytes` in a folder whose file system has no room to spare. One whose
/// free space is not known is accepted.
pub fn check_room(disk: &dyn Disk, folder: &Path, bytes: u64) -> io::Result<()> {
    let Ok(Space { free, .. }) = disk.space(folder) else {
        return Ok(());
    };
    if free >= bytes.saturating_add(LEFT_FREE) {
        return Ok(());
    }
    let why = format!(
        "{} has {free} bytes free, and a snapshot of about {bytes} has to leave {LEFT_FREE}",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::StorageFull, why))
}

#[cfg(test)]
mod tests {
    use seqd_disk::OsDisk;

    use super::*;

    #[test]
    fn a_snapshot_does_not_fill_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        check_room(&OsDisk, dir.path(), 0).unwrap();
        let refused = check_room(&OsDisk, dir.path(), u64::MAX).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        assert!(refused.to_string().contains("bytes free"), "{refused}");
        check_room(&OsDisk, Path::new("/no/such/folder"), u64::MAX).unwrap();
    }
}
