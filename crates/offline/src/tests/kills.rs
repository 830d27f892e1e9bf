//! A recovery is killed before one of its calls that change or sync the disk: before each call that
//! moves the new folder into place, and before one in eight of the calls that build it. The
//! remaining folder must not start in an intermediate state, and the next recovery must complete
//! it. A restore is killed before each of its calls.
//!
//! A kill leaves every earlier call done. The remains of a move between folders after a power cut
//! are not covered, because the simulated disk does not support such moves.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use seqd_disk::{Disk, DiskFile, Kind, OsDisk, Tap};

use super::fixture::{CLUSTER, Fixture, tapped};
use super::remains::leave_rest;
use super::takeovers::{OLD, SAID, assert_recovered, planned, recovery, restore_of};
use super::{bad, files};
use crate::*;
use seqd_store::folder::Folder;
use seqd_store::testing::copy;

/// More calls than follow once the outcome is certain.
const MOVES: u64 = 30;

/// At least the number of calls that mark the folder and begin the new folder.
const MARKING: u64 = 8;

/// At least the number of a restore's calls that mark the folder, write its format and remove the
/// mark.
const MARKED: u64 = 12;

/// Unwinds at the call with this number and at every later one, on any thread. An error would not
/// be equivalent: clean-up after an error does not happen after a kill. If the unwinding is caught,
/// in the log's writer and while a checkpoint is filled, it becomes an error, and the clean-up
/// after it is killed in turn.
struct Kill {
    at: u64,
    calls: AtomicU64,
}

impl Kill {
    fn call(&self) -> io::Result<()> {
        if self.calls.fetch_add(1, Ordering::SeqCst) < self.at {
            return Ok(());
        }
        // A destructor that runs because of the kill must neither unwind nor remove anything.
        if thread::panicking() {
            return Err(io::Error::other("killed"));
        }
        resume_unwind(Box::new("killed"));
    }
}

impl Tap for Kill {
    fn write_at(&self, below: &dyn DiskFile, buf: &[u8], offset: u64) -> io::Result<()> {
        self.call()?;
        below.write_at(buf, offset)
    }

    fn sync(&self, _: &Path, below: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        self.call()?;
        below()
    }

    fn sync_dir(&self, below: &dyn Disk, path: &Path) -> io::Result<()> {
        self.call()?;
        below.sync_dir(path)
    }

    fn rename(&self, below: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
        self.call()?;
        below.rename(from, to)
    }

    fn remove(&self, below: &dyn Disk, path: &Path) -> io::Result<()> {
        self.call()?;
        below.remove(path)
    }

    fn remove_dir_all(&self, below: &dyn Disk, path: &Path) -> io::Result<()> {
        self.call()?;
        below.remove_dir_all(path)
    }
}

/// Runs a recovery of a copy of this folder that is killed at that call. Returns the number of
/// calls, and whether it completed.
fn killed(of: &Path, root: &Path, at: u64) -> (u64, bool) {
    copy(of, root);
    let calls = AtomicU64::new(0);
    let kill = Arc::new(Kill { at, calls });
    let mut recovering = planned(root);
    recovering.disk = tapped(&kill);
    let ended = catch_unwind(AssertUnwindSafe(|| recovering.carry_out(SAID)));
    let is_over = match ended {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => panic!("call {at}: it went on after the kill: {error}"),
        Err(_) => false,
    };
    (kill.calls.load(Ordering::SeqCst), is_over)
}

/// Returns the cluster of the folder as seen by a start, if it can start.
fn starts_as(root: &Path) -> Option<String> {
    let folder = Folder::open(Arc::new(OsDisk), root).ok()?;
    Some(folder.identity().unwrap()?.cluster_id)
}

#[test]
fn a_killed_recovery_is_brought_to_its_end() {
    let fixture = Fixture::new();
    let old = files(&fixture.root());
    let dir = tempfile::tempdir().unwrap();
    let (all, is_over) = killed(&fixture.root(), &dir.path().join("whole"), u64::MAX);
    assert!(is_over);
    let (mut finished, mut begun_again) = (0, 0);
    // One in eight of the calls that build the new folder represents all of them, because none of
    // them makes the outcome certain.
    for at in (0..all).filter(|at| at % 8 == 0 || at + MOVES >= all) {
        let root = dir.path().join(at.to_string());
        assert!(!killed(&fixture.root(), &root, at).1, "call {at}");
        let starts = starts_as(&root);
        match recovery(&root, Some(10)).unwrap() {
            Recovery::Unfinished(unfinished) => {
                assert_eq!(starts, None, "call {at}");
                assert!(
                    at + MOVES > all,
                    "call {at}: {MOVES} are too few for all moves"
                );
                finished += 1;
                assert_eq!(unfinished.consent().unwrap().as_deref(), Some(SAID));
                assert_eq!(unfinished.finish().unwrap(), root.join(OLD));
            }
            Recovery::Planned(again) if again.takeover().from_cluster == CLUSTER => {
                assert!(starts.is_none_or(|cluster| cluster == CLUSTER), "call {at}");
                // Nothing is cleaned up after a kill.
                let is_left = root.join("successor-new").exists();
                assert_eq!(is_left, at >= MARKING, "call {at}");
                begun_again += 1;
                again.carry_out(SAID).unwrap();
            }
            // The recovery was complete except for the remains of the new folder, which the next
            // recovery removes.
            Recovery::Planned(_) => {
                assert!(
                    starts.is_some_and(|cluster| cluster != CLUSTER),
                    "call {at}"
                );
                std::fs::remove_dir_all(root.join("successor-in")).ok();
            }
        }
        assert_recovered(&root);
        for (path, bytes) in &old {
            let name = path.strip_prefix(fixture.root()).unwrap();
            if name != Path::new("LOCK") && name != Path::new("format") {
                let kept: PathBuf = root.join(OLD).join(name);
                assert!(
                    std::fs::read(kept).unwrap() == *bytes,
                    "call {at}: {name:?}"
                );
            }
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
    assert!(
        finished > MOVES / 2 && begun_again > 8,
        "{finished}, {begun_again}"
    );
}

/// Runs a restore that is killed at that call. Returns the number of calls, and whether it
/// completed.
fn killed_restore(of: &Fixture, root: &Path, at: u64) -> (u64, bool) {
    let calls = AtomicU64::new(0);
    let kill = Arc::new(Kill { at, calls });
    let mut restore = Restore::plan(restore_of(of, root)).unwrap();
    restore.disk = tapped(&kill);
    let is_over = match catch_unwind(AssertUnwindSafe(|| restore.carry_out())) {
        Ok(Ok(())) => true,
        // The kill of the log's writer thread is an error, after which nothing is cleaned up.
        Ok(Err(_)) | Err(_) => false,
    };
    (kill.calls.load(Ordering::SeqCst), is_over)
}

#[test]
fn a_killed_restore_leaves_a_folder_that_does_not_start_and_is_repeated() {
    let fixture = Fixture::new();
    let dir = tempfile::tempdir().unwrap();
    let (all, is_over) = killed_restore(&fixture, &dir.path().join("whole"), u64::MAX);
    assert!(is_over);
    // One in eight of the calls that build the folder represents all of them.
    for at in (0..all).filter(|at| *at < MARKED || at % 8 == 0 || at + MARKED >= all) {
        let root = dir.path().join(at.to_string());
        assert!(!killed_restore(&fixture, &root, at).1, "call {at}");
        // A kill before the sync of the removed mark leaves a complete folder.
        let is_whole = at + 1 == all;
        let started = Folder::open(Arc::new(OsDisk), &root);
        assert_eq!(started.is_ok(), is_whole, "call {at}");
        drop(started);
        if !is_whole {
            Restore::plan(restore_of(&fixture, &root))
                .unwrap()
                .carry_out()
                .unwrap();
        }
        assert_eq!(bad(&root), Vec::<String>::new(), "call {at}");
        assert!(
            starts_as(&root).is_some_and(|cluster| cluster != CLUSTER),
            "call {at}"
        );
        std::fs::remove_dir_all(&root).unwrap();
    }
}

#[test]
fn remains_of_a_finished_recovery_do_not_finish_the_next() {
    let fixture = Fixture::new();
    leave_rest(&fixture.root());
    let dir = tempfile::tempdir().unwrap();
    let (mut begun, mut marked) = (0, 0);
    for at in 0.. {
        let root = dir.path().join(at.to_string());
        assert!(!killed(&fixture.root(), &root, at).1, "call {at}");
        // The calls from here on are those of a recovery that finds no remains.
        if root.join("successor-new/boot").exists() {
            break;
        }
        begun += 1;
        marked += u64::from(root.join("refused").exists());
        match recovery(&root, Some(10)).unwrap() {
            Recovery::Planned(again) => again.carry_out(SAID).unwrap(),
            Recovery::Unfinished(_) => panic!("call {at}: nothing was built"),
        };
        assert_recovered(&root);
    }
    assert!(marked > 2 && begun > marked, "{begun}, {marked}");
}

/// Fails every lookup of the two names that determine the next step, from the given one on.
struct FailsKind {
    root: PathBuf,
    from: u64,
    asked: AtomicU64,
}

impl Tap for FailsKind {
    fn kind(&self, below: &dyn Disk, path: &Path) -> io::Result<Option<Kind>> {
        let decides = ["successor", "successor-in"].map(|name| self.root.join(name));
        if decides.iter().any(|name| name == path)
            && self.asked.fetch_add(1, Ordering::SeqCst) >= self.from
        {
            return Err(io::Error::other("not known"));
        }
        below.kind(path)
    }
}

#[test]
fn a_recovery_that_cannot_ask_for_its_own_folders_neither_ends_nor_starts() {
    let fixture = Fixture::new();
    let dir = tempfile::tempdir().unwrap();
    let mut unfinished = 0;
    for from in 0.. {
        let root = dir.path().join(from.to_string());
        copy(&fixture.root(), &root);
        let tap = Arc::new(FailsKind {
            root: root.clone(),
            from,
            asked: AtomicU64::new(0),
        });
        let mut recovering = planned(&root);
        recovering.disk = tapped(&tap);
        let ended = recovering.carry_out(SAID);
        if tap.asked.load(Ordering::SeqCst) <= from {
            ended.unwrap();
            break;
        }
        let error = ended.unwrap_err();
        assert!(error.message.ends_with("not known"), "{from}: {error}");
        let starts = starts_as(&root);
        match recovery(&root, Some(10)).unwrap() {
            Recovery::Unfinished(left) => {
                assert_eq!(starts, None, "question {from}");
                unfinished += 1;
                left.finish().unwrap();
            }
            Recovery::Planned(again) => {
                assert_eq!(starts.as_deref(), Some(CLUSTER), "question {from}");
                again.carry_out(SAID).unwrap();
            }
        }
        assert_recovered(&root);
    }
    // The lookups that find whether the new folder is complete, and whether it is being moved.
    assert_eq!(unfinished, 2);
}

#[test]
fn a_recovery_that_fails_and_cannot_ask_whether_it_is_certain_stays_refused() {
    struct Fails;
    impl Tap for Fails {
        fn rename(&self, below: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
            if to.ends_with("successor") {
                return Err(io::Error::other("not renamed"));
            }
            below.rename(from, to)
        }
        fn kind(&self, below: &dyn Disk, path: &Path) -> io::Result<Option<Kind>> {
            if path.ends_with("successor") {
                return Err(io::Error::other("not known"));
            }
            below.kind(path)
        }
    }
    let fixture = Fixture::new();
    let root = fixture.root();
    let mut recovering = planned(&root);
    recovering.disk = tapped(&Arc::new(Fails));
    assert!(recovering.carry_out(SAID).is_err());
    assert_eq!(starts_as(&root), None);
    planned(&root).carry_out(SAID).unwrap();
    assert_recovered(&root);
}
