//! Checks that there is space for another snapshot, before one is received and while one is
//! written: a full disk stops the node, but a refused snapshot does not.

use std::io;
use std::path::Path;

use seqd_disk::{Disk, Space};
use seqd_guards::is_out;

/// The bytes below which a node takes no entries: two segments of the log, the growth of a
/// checkpoint, and the writes of a fast disk between two checks of its space. No snapshot may fill
/// the disk, whether the node takes it, an operator requests it or a leader sends it.
const LEFT_FREE: u64 = 64 << 20;

/// `LEFT_FREE` is limited to the disk's size divided by this. Otherwise a small disk would have no
/// space for any snapshot.
const PART_OF_DISK: u64 = 8;

/// Returns the bytes below which a node on a disk of this size takes no entries.
#[must_use]
pub fn left_free(total: u64) -> u64 {
    LEFT_FREE.min(total / PART_OF_DISK)
}

/// Refuses a file of about `bytes` if the file system of the folder does not have enough space. If
/// the free space is unknown, the file is accepted.
///
/// The file may use half of the bytes below which a node takes no entries. Otherwise a node that
/// takes no entries could not take the snapshot that makes its log shorter, and would stay full.
pub fn check_room(disk: &dyn Disk, folder: &Path, bytes: u64) -> io::Result<()> {
    check(disk, folder, bytes, |total| left_free(total) / 2)
}

/// Like [`check_room`], for a file that does not help to free space: it must leave all of
/// [`left_free`].
pub fn check_room_to_export(disk: &dyn Disk, folder: &Path, bytes: u64) -> io::Result<()> {
    check(disk, folder, bytes, left_free)
}

/// A newly built store takes at most this many times the bytes of its rows in a snapshot.
pub const FRESH_STORE_PER_ROW: u64 = 2;

/// Refuses a received snapshot of `bytes` if there is not enough space to install it: for its file,
/// and for the store that is built from it before the previous store is removed.
pub fn check_room_to_install(disk: &dyn Disk, folder: &Path, bytes: u64) -> io::Result<()> {
    check_room(disk, folder, bytes.saturating_mul(1 + FRESH_STORE_PER_ROW))
}

/// Returns whether an error is such a refusal, and not a failed write on a full disk.
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
        "{} has {free} bytes free; after {bytes} more, {left} must remain",
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

    /// A disk of one GiB with this many free bytes.
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
    fn a_node_that_takes_no_entries_still_takes_a_snapshot_but_exports_none() {
        let floor = left_free(1 << 30);
        let free = disk(floor - 1);
        check_room(&*free, Path::new("."), floor / 2 - 1).unwrap();
        check_room(&*free, Path::new("."), floor / 2).expect_err("more than half of it is used");
        check_room_to_export(&*free, Path::new("."), 0).expect_err("an export fills the disk");
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
        let (finished, files) = write(48 << 20);
        assert_eq!((finished.unwrap().rows, files), (8, 1));
        let (refused, files) = write(32 << 20);
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
