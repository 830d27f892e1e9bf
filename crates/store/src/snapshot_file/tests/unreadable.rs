//! A disk that cannot read a block of a snapshot, and a machine that cannot read the file.

use std::path::PathBuf;

use rustix::io::Errno;
use seqd_disk::{Tap, Tapped};

use super::*;
use crate::snapshot_file::folder::Bad;

/// Fails the reads of one file after this many.
struct Refuses {
    path: PathBuf,
    after: usize,
    errno: Errno,
    reads: std::sync::atomic::AtomicUsize,
}

impl Tap for Refuses {
    fn read(&self, path: &Path, below: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        if path != self.path {
            return below();
        }
        let reads = &self.reads;
        if reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < self.after {
            return below();
        }
        Err(self.errno.into())
    }
}

fn refusing(path: &Path, after: usize, errno: Errno) -> Tapped<Refuses> {
    let tap = Refuses {
        path: path.to_owned(),
        after,
        errno,
        reads: 0.into(),
    };
    Tapped {
        disk: os(),
        tap: Arc::new(tap),
    }
}

/// Returns a folder with two snapshots, of which the newer one has several blocks, and the path of
/// the newer one.
fn two_snapshots() -> (TempDir, PathBuf) {
    let dir = temp();
    write(dir.path(), 9, &some_rows(5));
    let newest = write(dir.path(), 12, &some_rows(9_000));
    assert!(newest.len > 4 * BLOCK_BYTES as u64);
    (dir, newest.path)
}

#[test]
fn a_snapshot_with_a_block_that_cannot_be_read_is_set_aside_by_its_name() {
    for after in 0..5 {
        let (dir, newest) = two_snapshots();
        let disk = refusing(&newest, after, Errno::IO);
        let found = recover(&disk, dir.path(), CLUSTER).unwrap();
        assert_eq!(indexes(&found.valid), [9], "after {after} reads");
        let [Bad { path, why, .. }] = &found.bad[..] else {
            panic!("{found:?}");
        };
        assert_eq!(*path, newest);
        assert_eq!(names(dir.path()), ["12-3.snap", "9-3.snap"]);
        set_aside(&disk, dir.path(), &found.bad).unwrap();
        let expected = format!("{}: in the frame at byte ", newest.display());
        assert!(why.starts_with(&expected), "{why}");
        assert!(why.ends_with("Input/output error (os error 5)"), "{why}");
        assert_eq!(names(dir.path()), ["12-3.snap.bad", "9-3.snap"]);
    }
}

#[test]
fn a_snapshot_whose_header_or_footer_cannot_be_read_is_not_listed() {
    let (dir, newest) = two_snapshots();
    for after in 0..2 {
        let disk = refusing(&newest, after, Errno::IO);
        assert_eq!(indexes(&list(&disk, dir.path()).unwrap()), [9], "{after}");
    }
    assert_eq!(indexes(&list(&OsDisk, dir.path()).unwrap()), [12, 9]);
}

#[test]
fn a_failure_of_the_machine_is_reported_and_sets_nothing_aside() {
    for errno in [Errno::MFILE, Errno::ACCESS, Errno::NOMEM] {
        let (dir, newest) = two_snapshots();
        let disk = refusing(&newest, 1, errno);
        let error = recover(&disk, dir.path(), CLUSTER).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("12-3.snap: in the frame"), "{text}");
        assert_eq!(names(dir.path()), ["12-3.snap", "9-3.snap"]);
        let disk = refusing(&newest, 0, errno);
        assert!(list(&disk, dir.path()).is_err(), "{errno:?}");
    }
}
