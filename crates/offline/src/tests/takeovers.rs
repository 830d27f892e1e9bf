//! A snapshot or a folder becomes the folder of a new cluster, even after interruptions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::{Disk, OsDisk, Tap};

use super::fixture::{CLUSTER, ENTRIES, Fixture, tapped};
use super::{bad, files};
use crate::*;
use seqd_store::folder::Folder;

pub(super) const OLD: &str = "before-01CLUSTER";

/// The text that the operator of these recoveries agreed to.
pub(super) const SAID: &str = "becomes a new cluster";

fn options(margin: Option<u64>) -> TakeoverOptions {
    TakeoverOptions {
        floors: Vec::new(),
        margin,
        written_ms: None,
        drill: false,
        now_ms: 1_795_228_001_118,
    }
}

fn recovery_options(root: &Path, takeover: TakeoverOptions) -> RecoveryOptions {
    RecoveryOptions {
        data_dir: root.to_owned(),
        name: None,
        peer: None,
        http: None,
        takeover,
    }
}

pub(super) fn recovery(root: &Path, margin: Option<u64>) -> Result<Recovery, OfflineError> {
    Recovery::plan(recovery_options(root, options(margin)))
}

/// Plans a recovery of a folder in which none was interrupted.
fn first_planned(options: RecoveryOptions) -> Recovering {
    match Recovery::plan(options).unwrap() {
        Recovery::Planned(recovering) => *recovering,
        Recovery::Unfinished(_) => panic!("nothing was begun"),
    }
}

pub(super) fn planned(root: &Path) -> Recovering {
    first_planned(recovery_options(root, options(Some(10))))
}

/// Checks the required result of a recovery, whatever happened on the way.
#[track_caller]
pub(super) fn assert_recovered(root: &Path) {
    let report = inspect_folder(root).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!(bad(root), Vec::<String>::new());
    let folder = Folder::open(Arc::new(OsDisk), root).unwrap();
    let identity = folder.identity().unwrap().unwrap();
    assert_ne!(identity.cluster_id, CLUSTER);
    assert_eq!(identity.ancestors, [CLUSTER]);
    assert_eq!(identity.name, "n1");
    let kept = root.join(OLD);
    assert!(kept.join("wal").is_dir() && kept.join("identity").is_file());
    let left: Vec<String> = fs::read_dir(root)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name.starts_with("successor") || name == "refused" || name == "said")
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

pub(super) fn mark(root: &Path) {
    let folder = Folder::open(Arc::new(OsDisk), root).unwrap();
    folder
        .mark_refused("recovery-unfinished", "interrupted")
        .unwrap();
}

/// Creates the state of a recovery that was interrupted before its outcome was certain.
fn half_built(root: &Path) {
    mark(root);
    fs::create_dir(root.join("successor-new")).unwrap();
    fs::write(root.join("successor-new/identity"), "half").unwrap();
}

#[test]
fn a_planned_recovery_changes_nothing() {
    type Left = fn(&Path);
    let found: [(&str, Left); 3] = [
        ("a half-built new folder", half_built),
        ("a small file that was being replaced", |root| {
            fs::write(root.join("peers.tmp"), "half").unwrap();
        }),
        ("no lock file", |root| {
            fs::remove_file(root.join("LOCK")).unwrap()
        }),
    ];
    for (what, left) in found {
        let fixture = Fixture::new();
        let root = fixture.root();
        left(&root);
        let before = files(&root);
        drop(planned(&root));
        let after = files(&root);
        assert!(after.keys().eq(before.keys()), "{what}");
        assert!(after == before, "{what}");
        planned(&root).carry_out(SAID).unwrap();
        assert_recovered(&root);
    }
}

#[test]
fn a_folder_whose_recovery_is_planned_is_locked() {
    let fixture = Fixture::new();
    let root = fixture.root();
    let recovering = planned(&root);
    let refused = recovery(&root, Some(10)).err().unwrap();
    assert_eq!(refused.code, "folder-in-use");
    let stop = Folder::open(Arc::new(OsDisk), &root).err().unwrap();
    assert_eq!(stop.code(), "folder-in-use");
    drop(recovering);
    drop(planned(&root));
}

#[test]
fn a_folder_without_a_lock_that_is_used_after_the_plan_is_left_as_it_is() {
    let fixture = Fixture::new();
    let root = fixture.root();
    fs::remove_file(root.join("LOCK")).unwrap();
    let recovering = planned(&root);
    // A node that starts and ends.
    drop(Folder::open(Arc::new(OsDisk), &root).unwrap());
    let before = files(&root);
    let refused = recovering.carry_out(SAID).unwrap_err();
    assert_eq!(refused.code, "folder-in-use");
    assert!(
        refused.message.contains("since this command read it"),
        "{refused}"
    );
    assert!(files(&root) == before);
    planned(&root).carry_out(SAID).unwrap();
    assert_recovered(&root);
}

#[test]
fn a_planned_recovery_writes_nothing_and_counts_the_whole_log() {
    let fixture = Fixture::new();
    let root = fixture.root();
    let before = files(&root);
    let recovering = planned(&root);
    let takeover = recovering.takeover();
    assert_eq!((takeover.index, takeover.term), (ENTRIES - 1, 2));
    assert_eq!(takeover.from_cluster, CLUSTER);
    assert_eq!(takeover.freed_holds, 1);
    assert_eq!(takeover.member.peer, "n1:7401");
    assert!(takeover.unproven_entries > 0 && takeover.unproven_entries < ENTRIES);
    drop(recovering);
    assert_eq!(files(&root), before);
    let silent = recovery(&root, None).err().unwrap();
    assert_eq!(silent.code, "invalid-argument");
    assert!(silent.hint.unwrap().contains("--margin"));
}

#[test]
fn a_rehearsal_names_no_ancestor() {
    let fixture = Fixture::new();
    let drill = TakeoverOptions {
        drill: true,
        ..options(Some(0))
    };
    let recovering = first_planned(RecoveryOptions {
        name: Some("drill1".to_owned()),
        ..recovery_options(&fixture.root(), drill)
    });
    assert_eq!(recovering.takeover().ancestors, Vec::<String>::new());
    recovering.carry_out(SAID).unwrap();
    let folder = Folder::open(Arc::new(OsDisk), &fixture.root()).unwrap();
    let identity = folder.identity().unwrap().unwrap();
    assert_eq!(
        (identity.name.as_str(), identity.ancestors),
        ("drill1", Vec::new())
    );
}

/// The fixture's entries have a time ahead of the clock, because the clock of their leader was
/// wrong.
#[test]
fn a_state_whose_time_is_wrong_is_taken_over_as_of_the_time_that_is_given() {
    let fixture = Fixture::new();
    let as_of = |written_ms| {
        let takeover = TakeoverOptions {
            written_ms,
            ..options(Some(0))
        };
        recovery_options(&fixture.root(), takeover)
    };
    let as_carried = first_planned(as_of(None));
    let carried_ms = as_carried.takeover().wall_ms;
    assert!(
        as_carried.takeover().age_ms < 0,
        "it carries a time to come"
    );
    drop(as_carried);
    let later = Recovery::plan(as_of(Some(carried_ms + 1))).err().unwrap();
    assert_eq!(later.code, "invalid-argument");
    assert_eq!(
        later.message,
        "the state cannot have been written at 2027-01-15T08:00:00.100Z: allowed are \
         1970-01-01T00:00:00.000Z to 2027-01-15T08:00:00.099Z"
    );
    let written_ms = options(None).now_ms - 1_118;
    let recovering = first_planned(as_of(Some(written_ms)));
    let takeover = recovering.takeover().clone();
    assert_eq!((takeover.wall_ms, takeover.age_ms), (written_ms, 1_118));
    recovering.carry_out(SAID).unwrap();
    // The next backup has the correct time.
    let again = first_planned(as_of(None));
    assert_eq!(again.takeover().wall_ms, written_ms);
}

/// The ID of a cluster has the time of its founder's clock, which may have been ahead too.
#[test]
fn a_cluster_whose_id_has_a_wrong_time_is_taken_over_without_a_rate() {
    // Drawn at 2027-01-15T08:00:00Z.
    const FOUNDED_AHEAD: &str = "01MCC5RM00PHRF4CV5EADZTYP7";
    let fixture = Fixture::with(|plan| plan.cluster_id = Some(FOUNDED_AHEAD));
    let now_ms = options(None).now_ms;
    let takeover = TakeoverOptions {
        written_ms: Some(now_ms - 1_118),
        ..options(Some(10))
    };
    let recovering = first_planned(recovery_options(&fixture.root(), takeover));
    let takeover = recovering.takeover().clone();
    assert_eq!(takeover.ancestors, [FOUNDED_AHEAD]);
    let [note] = &*takeover.notes else {
        panic!("{:?}", takeover.notes);
    };
    assert!(note.contains("the time 2027-01-15T08:00:00.000Z"), "{note}");
    assert!(!takeover.sequences.is_empty());
    for sequence in &takeover.sequences {
        assert_eq!((sequence.margin, sequence.expected), (Some(10), None));
        assert!(sequence.passed_over >= 10 || sequence.next_after.is_none());
    }
    recovering.carry_out(SAID).unwrap();
    assert_eq!(bad(&fixture.root()), Vec::<String>::new());
}

/// A disk that fails a recovery before or after the rename that makes its outcome certain.
struct Fails {
    root: PathBuf,
    behind: bool,
}

impl Tap for Fails {
    fn rename(&self, below: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
        if to == self.root.join("successor") && !self.behind {
            return Err(io::Error::other("not renamed"));
        }
        below.rename(from, to)
    }
    fn sync_dir(&self, below: &dyn Disk, path: &Path) -> io::Result<()> {
        if path == self.root && path.join("successor").is_dir() {
            return Err(io::Error::other("not synced"));
        }
        below.sync_dir(path)
    }
}

/// Returns a folder whose recovery failed because of the disk.
pub(super) fn failed(behind: bool) -> (Fixture, PathBuf) {
    let fixture = Fixture::new();
    let root = fixture.root();
    let mut recovering = planned(&root);
    recovering.disk = tapped(&Arc::new(Fails {
        root: root.clone(),
        behind,
    }));
    let error = recovering.carry_out(SAID).unwrap_err();
    let why = if behind { "not synced" } else { "not renamed" };
    assert!(error.message.ends_with(why), "{error}");
    (fixture, root)
}

#[test]
fn a_recovery_that_fails_before_it_is_certain_leaves_a_folder_that_starts() {
    let (_fixture, root) = failed(false);
    let folder = Folder::open(Arc::new(OsDisk), &root).unwrap();
    assert_eq!(folder.identity().unwrap().unwrap().cluster_id, CLUSTER);
    assert!(!root.join("successor-new").exists());
    drop(folder);
    planned(&root).carry_out(SAID).unwrap();
    assert_recovered(&root);
}

#[test]
fn a_recovery_that_fails_once_it_is_certain_stays_to_be_finished() {
    let (_fixture, root) = failed(true);
    // After a power cut the new or the old content may exist. The old content must not be started.
    let stop = Folder::open(Arc::new(OsDisk), &root).err().unwrap();
    assert_eq!(stop.code(), "stale-folder");
    let Recovery::Unfinished(unfinished) = recovery(&root, None).unwrap() else {
        panic!("it was certain already");
    };
    assert_eq!(unfinished.consent().unwrap().as_deref(), Some(SAID));
    unfinished.finish().unwrap();
    assert_recovered(&root);
}

#[test]
fn a_recovery_whose_old_cluster_is_not_named_moves_nothing() {
    type Damage = fn(&Path);
    let damages: [Damage; 2] = [
        |file| fs::remove_file(file).unwrap(),
        |file| fs::write(file, "").unwrap(),
    ];
    for damage in damages {
        let (_fixture, root) = failed(true);
        damage(&root.join("successor/from-cluster"));
        let before = files(&root);
        let Recovery::Unfinished(unfinished) = recovery(&root, None).unwrap() else {
            panic!("it was certain already");
        };
        let refused = unfinished.finish().unwrap_err();
        assert_eq!(refused.code, "corrupt", "{refused}");
        assert!(files(&root) == before);
    }
}

/// The options of a restore of the newest snapshot of the fixture.
pub(super) fn restore_of(fixture: &Fixture, data_dir: &Path) -> RestoreOptions {
    let snapshots = fs::read_dir(fixture.root().join("snap")).unwrap().flatten();
    RestoreOptions {
        file: snapshots.map(|entry| entry.path()).max().unwrap(),
        data_dir: data_dir.to_owned(),
        member: Member {
            name: "n9".to_owned(),
            peer: "n9:7401".to_owned(),
            http: "http://n9:7400".to_owned(),
        },
        is_http_given: true,
        takeover: options(Some(0)),
    }
}

#[test]
fn a_restore_that_is_interrupted_is_replaced_by_the_next() {
    let fixture = Fixture::new();
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().join("new");
    let of = |data_dir: &Path| restore_of(&fixture, data_dir);
    let restore = || Restore::plan(of(&data_dir));
    let plan = restore().unwrap();
    assert!(!data_dir.exists());
    plan.carry_out().unwrap();
    assert_eq!(bad(&data_dir), Vec::<String>::new());
    let refused = restore().err();
    let refused = refused.expect("a restore was planned into a folder in use");
    assert_eq!(refused.code, "already-exists");

    // An incomplete folder with the mark that a restore removes last.
    let folder = Folder::open(Arc::new(OsDisk), &data_dir).unwrap();
    folder
        .mark_refused("restore-unfinished", "interrupted")
        .unwrap();
    drop(folder);
    fs::remove_file(data_dir.join("identity")).unwrap();
    fs::remove_dir_all(data_dir.join("snap")).unwrap();
    assert!(Folder::open(Arc::new(OsDisk), &data_dir).is_err());
    restore().unwrap().carry_out().unwrap();
    assert_eq!(bad(&data_dir), Vec::<String>::new());

    // Another restore was faster: its folder stays unchanged.
    let data_dir = dir.path().join("quick");
    let plan = Restore::plan(of(&data_dir)).unwrap();
    Restore::plan(of(&data_dir)).unwrap().carry_out().unwrap();
    let made = files(&data_dir);
    assert_eq!(plan.carry_out().unwrap_err().code, "already-exists");
    assert!(files(&data_dir) == made);
    let folder = Folder::open(Arc::new(OsDisk), &data_dir).unwrap();
    assert_eq!(folder.identity().unwrap().unwrap().name, "n9");
}
