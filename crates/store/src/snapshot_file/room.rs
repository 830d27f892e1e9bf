//! Whether there is room for one more snapshot. Checked before one is received, and while one is written:
//! a full disk ends the node, a snapshot that is refused does not.

use std::io;
use std::path::Path;

use seqd_disk::{Disk, Space};
use seqd_guards::is_out;

/// Bytes that a snapshot leaves free: two segments of the log, a checkpoint that grows, and what a fast disk
/// takes between two looks at its space. Neither a snapshot of the node itself, nor one that an operator
/// requests or a leader sends, must be what fills the disk.
const LEFT_FREE: u64 = 64 << 20;

/// At most this part of the disk, or a small disk would have no room for any snapshot.
const PART_OF_DISK: u64 = 8;

/// The bytes that a snapshot leaves free on a disk of this size.
#[must_use]
pub fn left_free(total: u64) -> u64 {
    LEFT_FREE.min(total / PART_OF_DISK)
}

/// Refuses a file of about `bytes` in a folder whose file system has no room to spare. One whose
/// free space is not known is accepted.
pub fn check_room(disk: &dyn Disk, folder: &Path, bytes: u64) -> io::Result<()> {
    check(disk, folder, bytes, left_free)
}

/// A store that was just built takes at most this many times the bytes of its rows in a snapshot.
pub const FRESH_STORE_PER_ROW: u64 = 2;

/// Refuses a received snapshot of `bytes` that has no room to be installed: for its file, and for the store
/// that is built from it before the former one goes. It may take half of what other snapshots leave,
/// because it is the way out for a node that takes no entries for want of room.
pub fn check_room_to_install(disk: &dyn Disk, folder: &Path, bytes: u64) -> io::Result<()> {
    let needed = bytes.saturating_mul(1 + FRESH_STORE_PER_ROW);
    check(disk, folder, needed, |total| left_free(total) / 2)
}

/// Returns whether an error is such a refusal, and not that of a write that did not fit.
pub fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull && error.raw_os_error().is_none()
}

fn check(
    disk: &dyn Disk,
    folder: &Path,
    bytes: u64,
    left: impl FnOnce(u64) -> u64,
) -> io::Result<()> {
    let Ok(Space { free, total }) = disk.space(folder) else {
        return Ok(());
    };
    let left = left(total);
    if free >= bytes.saturating_add(left) || is_out!(SnapshotLeavesRoom) {
        return Ok(());
    }
    let why = format!(
        "{} has {free} bytes free, and {bytes} more have to leave {left}",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::StorageFull, why))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use seqd_disk::{OsDisk, Tap, Tapped};

    use super::*;
    use crate::snapshot_file::{SnapshotHeader, SnapshotWriter};

    /// A disk that reports so many free bytes of a GiB.
    struct Free(u64);

    impl Tap for Free {
        fn space(&self, _: &dyn Disk, _: &Path) -> io::Result<Space> {
            let (total, free) = (1 << 30, self.0);
            Ok(Space { total, free })
        }
    }

    fn disk(free: u64) -> Arc<dyn Disk> {
        Arc::new(Tapped {
            disk: Arc::new(OsDisk),
            tap: Arc::new(Free(free)),
        })
    }

    #[test]
    fn a_snapshot_does_not_fill_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        check_room(&OsDisk, dir.path(), 0).unwrap();
        let refused = check_room(&OsDisk, dir.path(), u64::MAX).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        assert!(refused.to_string().contains("bytes free"), "{refused}");
        check_room(&OsDisk, Path::new("/no/such/folder"), u64::MAX).unwrap();
    }

    #[test]
    fn a_snapshot_that_would_fill_the_disk_ends_and_leaves_nothing() {
        let write = |free| {
            let dir = tempfile::tempdir().unwrap();
            let header = SnapshotHeader {
                cluster_id: "cluster".to_owned(),
                index: 7,
                term: 3,
                log_id: Vec::new(),
                membership: Vec::new(),
            };
            let mut writer = SnapshotWriter::create(&disk(free), dir.path(), header).unwrap();
            let value = vec![7; (1 << 20) - 1];
            let written = (0..8_u8).try_for_each(|row| writer.row(&[row], &value));
            let finished = written.and_then(|()| writer.finish());
            (finished, fs::read_dir(dir.path()).unwrap().count())
        };
        let (finished, files) = write(80 << 20);
        assert_eq!((finished.unwrap().rows, files), (8, 1));
        let (refused, files) = write(64 << 20);
        let refused = refused.expect_err("the snapshot fills the disk");
        assert!(is_refusal(&refused), "{refused}");
        assert_eq!(files, 0);
    }

    #[test]
    fn a_received_snapshot_has_room_for_the_store_that_is_built_from_it() {
        let check = |free, bytes| check_room_to_install(&*disk(free), Path::new("."), bytes);
        let mib = |count: u64| count << 20;
        check(mib(62), mib(10)).unwrap();
        let refused = check(mib(62) - 1, mib(10)).expect_err("an install fills the disk");
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    }
}
