//! The states that a recovery refuses to begin with, and the order in which it makes its steps
//! durable.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use seqd_disk::{Disk, OsDisk, Tap};

use super::fixture::{APPLIED, ENTRIES, Fixture, SNAPSHOTS, tapped};
use super::takeovers::{OLD, SAID, assert_recovered, failed, mark, planned, recovery};
use super::{bad, files, flip};
use crate::takeover::Source;
use crate::*;
use seqd_store::folder::Folder;

#[track_caller]
fn assert_refused(root: &Path, parts: &[&str]) {
    let before = files(root);
    let planned = recovery(root, Some(0)).err();
    let refused = planned.expect("a recovery was planned from remains that lack entries");
    assert_eq!(refused.code, "corrupt");
    for part in parts {
        assert!(refused.message.contains(part), "{refused}");
    }
    assert!(refused.hint.unwrap().contains("another node's folder"));
    assert!(files(root) == before);
}

#[test]
fn a_log_that_is_lost_or_older_than_the_checkpoint_is_refused_by_a_recovery() {
    let older = Fixture::with(|plan| plan.last = Some(APPLIED - 10));
    let (held, end) = (format!("entry {APPLIED}"), format!("at {}", APPLIED - 10));
    assert_refused(&older.root(), &[&held, &end]);

    let lost = Fixture::new();
    fs::remove_dir_all(lost.root().join("wal")).unwrap();
    assert_refused(&lost.root(), &["its log is lost"]);

    // An unusable checkpoint does not prevent a recovery from a complete log.
    let fixture = Fixture::new();
    fs::remove_file(fixture.root().join("CURRENT")).unwrap();
    planned(&fixture.root()).carry_out(SAID).unwrap();
}

#[test]
fn a_recovery_names_the_small_files_that_it_cannot_read() {
    let fixture = Fixture::new();
    let root = fixture.root();
    flip(&root.join("boot"), 9);
    let notes = planned(&root).takeover().notes.clone();
    let [note] = &*notes else {
        panic!("{notes:?}");
    };
    assert!(note.starts_with("the file boot cannot be read"), "{note}");
}

#[test]
fn a_recovery_of_a_path_that_is_no_folder_is_refused_as_such() {
    let fixture = Fixture::new();
    let refused = recovery(&fixture.root().join("boot"), Some(0))
        .err()
        .unwrap();
    assert_eq!(refused.code, "not-found");
    assert!(refused.message.contains("is not a folder"), "{refused}");
}

/// A disk that fails to read the newest snapshot from a given read on.
struct Unreadable {
    errno: Errno,
    after: u64,
    reads: AtomicU64,
}

impl Tap for Unreadable {
    fn read(&self, path: &Path, below: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let is_newest = path.ends_with("60-2.snap");
        if is_newest && self.reads.fetch_add(1, Ordering::SeqCst) >= self.after {
            return Err(io::Error::from_raw_os_error(self.errno.raw_os_error()));
        }
        below()
    }
}

/// Returns the remaining state in the folder on such a disk, and whether that read occurred.
fn left_on(root: &Path, errno: Errno, after: u64) -> (Result<Source, OfflineError>, bool) {
    let tap = Arc::new(Unreadable {
        errno,
        after,
        reads: AtomicU64::new(0),
    });
    let folder = Folder::of_tool(tapped(&tap), root, "recovery-unfinished").unwrap();
    let identity = folder.identity().unwrap().unwrap();
    let read = remains::read(&folder, &identity);
    (read, tap.reads.load(Ordering::SeqCst) > after)
}

#[test]
fn a_snapshot_that_the_disk_does_not_give_back_is_passed_over_and_reported() {
    let fixture = Fixture::new();
    let root = fixture.root();
    let whole = left_on(&root, Errno::IO, u64::MAX).0.unwrap();
    assert_eq!(whole.notes, Vec::<String>::new());
    for after in 0.. {
        let (source, struck) = left_on(&root, Errno::IO, after);
        let source = source.unwrap();
        assert_eq!(source.position, whole.position, "read {after}");
        assert_eq!(source.state.digest(), whole.state.digest());
        if !struck {
            assert!(after > 2, "it was read in {after} pieces");
            break;
        }
        let [note] = &*source.notes else {
            panic!("read {after}: {:?}", source.notes);
        };
        assert!(
            note.contains("60-2.snap") && note.contains("os error 5"),
            "{note}"
        );
        // An error of the machine prevents the recovery until the file is readable.
        let refused = left_on(&root, Errno::MFILE, after).0.err().unwrap();
        assert!(refused.message.contains("os error 24"), "{refused}");
    }
}

#[test]
fn unchecked_facts_of_a_recovery_are_reported_before_the_confirmation() {
    let fixture = Fixture::new();
    let root = fixture.root();
    assert_eq!(planned(&root).takeover().notes, Vec::<String>::new());
    flip(&root.join("snap/60-2.snap"), 300);
    flip(&root.join("snap/30-1.snap"), 0);
    fs::remove_file(root.join("CURRENT")).unwrap();
    let takeover = planned(&root).takeover().clone();
    assert_eq!(takeover.index, ENTRIES - 1);
    let notes = takeover.notes;
    assert_eq!(notes.len(), 3, "{notes:#?}");
    assert!(notes.iter().any(|note| note.contains("snap/60-2.snap: ")));
    assert!(notes.iter().any(|note| note.contains("snap/30-1.snap: ")));
    assert!(
        notes[2].contains("(CURRENT: it is missing)"),
        "{}",
        notes[2]
    );
}

/// Returns a folder whose log was purged up to the older snapshot and ends at `last`, with both
/// snapshots damaged.
fn without_snapshots(last: Option<u64>) -> Fixture {
    let fixture = Fixture::with(|plan| {
        plan.purged = Some(SNAPSHOTS[0]);
        plan.last = last;
    });
    for name in ["30-1.snap", "60-2.snap"] {
        flip(&fixture.root().join("snap").join(name), 300);
    }
    fixture
}

#[test]
fn a_checkpoint_that_reaches_the_log_replaces_snapshots_that_are_all_bad() {
    let sound = Fixture::new();
    let whole = planned(&sound.root()).takeover().clone();
    let fixture = without_snapshots(None);
    let root = fixture.root();
    let before = files(&root);
    let recovering = planned(&root);
    assert!(files(&root) == before);
    let takeover = recovering.takeover();
    assert_eq!((takeover.index, takeover.term), (whole.index, whole.term));
    let sequences_of = |takeover: &Takeover| format!("{:?}", takeover.sequences);
    assert_eq!(sequences_of(takeover), sequences_of(&whole));
    assert_eq!(takeover.former_members, whole.former_members);
    assert_eq!(takeover.unproven_entries, whole.unproven_entries);
    assert_eq!(takeover.notes.len(), 3, "{:#?}", takeover.notes);
    assert!(takeover.notes[2].contains("is taken from the checkpoint"));
    recovering.carry_out(SAID).unwrap();
    assert_recovered(&root);

    // The checkpoint may be of the last entry that the log had.
    let fixture = without_snapshots(Some(APPLIED));
    assert_eq!(planned(&fixture.root()).takeover().index, APPLIED);
}

#[test]
fn a_checkpoint_that_cannot_replace_the_snapshots_is_refused_by_a_recovery() {
    let older = without_snapshots(Some(APPLIED - 1));
    let (held, end) = (format!("entry {APPLIED}"), format!("at {}", APPLIED - 1));
    assert_refused(&older.root(), &[&held, &end, "or is older"]);

    let gone = without_snapshots(None);
    fs::remove_file(gone.root().join("CURRENT")).unwrap();
    assert_refused(&gone.root(), &["entry 31", "(CURRENT: it is missing)"]);

    let behind = Fixture::with(|plan| plan.purged = Some(APPLIED + 1));
    let refused = "its snapshots end before that entry, and its checkpoint ends at 80";
    assert_refused(&behind.root(), &["entry 82", refused]);
}

#[test]
fn a_refusal_names_the_snapshot_that_can_be_restored_and_none_that_cannot() {
    let hint = |root: &Path| recovery(root, Some(0)).err().unwrap().hint.unwrap();
    let fixture = Fixture::new();
    let root = fixture.root();
    fs::remove_dir_all(root.join("wal")).unwrap();
    for (bad, named) in [(None, "60-2.snap"), (Some("60-2.snap"), "30-1.snap")] {
        if let Some(bad) = bad {
            flip(&root.join("snap").join(bad), 300);
        }
        let named = root.join("snap").join(named).display().to_string();
        assert!(hint(&root).ends_with(&named), "{}", hint(&root));
    }
    flip(&root.join("snap/30-1.snap"), 300);
    assert!(
        hint(&root).ends_with("or restore a backup"),
        "{}",
        hint(&root)
    );
}

#[test]
fn content_kept_by_an_earlier_recovery_is_not_mixed_with_that_of_this_one() {
    let fixture = Fixture::new();
    let root = fixture.root();
    fs::create_dir(root.join(OLD)).unwrap();
    let before = files(&root);
    let refused = recovery(&root, Some(0)).err().unwrap();
    assert_eq!(refused.code, "already-exists");
    assert!(refused.hint.unwrap().contains("move it"));
    assert!(files(&root) == before);
    fs::remove_dir(root.join(OLD)).unwrap();
    planned(&root).carry_out(SAID).unwrap();
    assert_recovered(&root);
}

#[test]
fn a_recovery_that_is_interrupted_at_its_very_end_is_not_made_twice() {
    // All content is in place, and the mark still exists.
    let fixture = Fixture::new();
    let root = fixture.root();
    planned(&root).carry_out(SAID).unwrap();
    let cluster = identity(&root);
    mark(&root);
    leave_rest(&root);
    let Recovery::Unfinished(unfinished) = recovery(&root, None).unwrap() else {
        panic!("its mark is still there");
    };
    assert_eq!(unfinished.finish().unwrap(), root.join(OLD));
    assert_recovered(&root);
    assert_eq!(identity(&root), cluster);

    // The mark is removed: the recovery is complete, and the rest has no meaning.
    leave_rest(&root);
    let next = planned(&root);
    assert_eq!(next.takeover().from_cluster, cluster);
    next.carry_out(SAID).unwrap();
    assert_eq!(bad(&root), Vec::<String>::new());
    assert!(!root.join("successor-in").exists());
}

/// Creates the remains of a recovery that is interrupted after its last step, when they have no
/// meaning.
pub(super) fn leave_rest(root: &Path) {
    fs::create_dir(root.join("successor-in")).unwrap();
    fs::write(root.join("successor-in/from-cluster"), "01CLUSTER").unwrap();
    fs::write(root.join("successor-in/said"), SAID).unwrap();
}

#[test]
fn a_mark_that_is_not_a_recovery_s_stays_whatever_a_recovery_left() {
    for code in ["node-removed", "stale-folder", "superseded"] {
        let fixture = Fixture::new();
        let root = fixture.root();
        planned(&root).carry_out(SAID).unwrap();
        leave_rest(&root);
        let folder = Folder::open(Arc::new(OsDisk), &root).unwrap();
        let why = "it must never start again";
        folder.mark_refused(code, why).unwrap();
        drop(folder);
        let before = files(&root);
        let refused = recovery(&root, Some(0)).err().unwrap();
        assert_eq!(refused.code, code);
        assert!(files(&root) == before, "{code}");

        // A recovery that is completed also does not remove it.
        let (_fixture, root) = failed(true);
        let disk = Arc::new(OsDisk);
        let folder = Folder::of_tool(disk, &root, "recovery-unfinished").unwrap();
        folder.mark_refused(code, why).unwrap();
        let Recovery::Unfinished(unfinished) = recovery(&root, None).unwrap() else {
            panic!("{code}: the new folder is whole");
        };
        unfinished.finish().unwrap();
        let refused = Folder::open(Arc::new(OsDisk), &root).err().unwrap();
        assert_eq!(refused.code(), code);
    }
}

fn identity(root: &Path) -> String {
    let report = inspect_folder(root).unwrap();
    report.identity.unwrap().cluster_id
}

/// Folders whose names changed after their last sync, at each rename to `successor-in`.
#[derive(Default)]
struct Unsynced {
    now: Mutex<BTreeSet<PathBuf>>,
    at_the_turn: Mutex<Vec<PathBuf>>,
}

impl Tap for Unsynced {
    fn sync_dir(&self, below: &dyn Disk, path: &Path) -> io::Result<()> {
        self.now.lock().unwrap().remove(path);
        below.sync_dir(path)
    }

    fn rename(&self, below: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
        let mut now = self.now.lock().unwrap();
        if to.ends_with("successor-in") {
            self.at_the_turn.lock().unwrap().extend(now.iter().cloned());
        }
        now.extend(
            [from, to]
                .iter()
                .filter_map(|path| Some(path.parent()?.to_owned())),
        );
        below.rename(from, to)
    }
}

#[test]
fn the_old_content_is_durably_moved_before_the_new_folder_moves_in() {
    let fixture = Fixture::new();
    let root = fixture.root();
    let tap = Arc::new(Unsynced::default());
    let mut recovering = planned(&root);
    recovering.disk = tapped(&tap);
    recovering.carry_out(SAID).unwrap();
    let unsynced = tap.at_the_turn.lock().unwrap();
    let ours: Vec<_> = unsynced
        .iter()
        .filter(|path| **path == root || path.ends_with(OLD))
        .collect();
    assert_eq!(ours, Vec::<&PathBuf>::new());
    assert!(tap.now.lock().unwrap().is_empty());
}
