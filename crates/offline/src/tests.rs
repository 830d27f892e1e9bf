//! The reports of the tools for intact and damaged folders, which the tools must leave unchanged.

mod fixture;
mod kills;
mod newer;
mod remains;
mod takeovers;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fixture::{APPLIED, CLUSTER, ENTRIES, Fixture, SNAPSHOTS};

use seqd_state::StateLoader;

use super::checkpoint::CheckpointError;
use super::*;
use seqd_store::folder::Folder;

fn checks(root: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    verify_folder(root, &mut |check| checks.push(check.clone())).unwrap();
    checks
}

/// Returns the failed checks as `what: detail`.
fn bad(root: &Path) -> Vec<String> {
    let bad = checks(root).into_iter();
    bad.filter(|check| check.verdict == CheckResult::Bad)
        .map(|check| format!("{}: {}", check.what, check.detail))
        .collect()
}

#[track_caller]
fn assert_bad(root: &Path, parts: &[&str]) {
    let found = bad(root);
    let is_told = |line: &&String| parts.iter().all(|part| line.contains(part));
    assert!(
        found.iter().any(|line| is_told(&line)),
        "{parts:?} in {found:#?}"
    );
}

fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap().flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_folder_is_reported_in_full_and_left_as_it_was() {
    let fixture = Fixture::new();
    let root = fixture.root();
    let before = files(&root);
    let report = inspect_folder(&root).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!(report.unlocked, None);
    assert_eq!(report.format.as_deref(), Some("seqd-data 1"));
    let identity = report.identity.unwrap();
    assert_eq!((identity.cluster_id.as_str(), identity.node), (CLUSTER, 1));
    assert_eq!(report.boot, Some(1));
    let log = &report.log;
    assert_eq!(log.first, Some(EntryId { index: 0, term: 1 }));
    assert_eq!(
        log.last,
        Some(EntryId {
            index: ENTRIES - 1,
            term: 2
        })
    );
    assert_eq!(
        log.committed,
        Some(EntryId {
            index: APPLIED,
            term: 2
        })
    );
    assert_eq!(log.vote.map(|vote| (vote.term, vote.node)), Some((2, 1)));
    assert!(log.segments.len() > 2, "{:?}", log.segments);
    let snapshots: Vec<u64> = report.snapshots.iter().map(|found| found.index).collect();
    assert_eq!(snapshots, [SNAPSHOTS[1], SNAPSHOTS[0]]);
    let checkpoint = report.checkpoint.unwrap();
    assert_eq!(checkpoint.digest, fixture.digest);
    assert_eq!(checkpoint.members.len(), 1);
    assert!(report.sizes.log > 0 && report.sizes.checkpoint > 0);

    let checks = checks(&root);
    assert!(
        checks.iter().all(|check| check.verdict == CheckResult::Ok),
        "{checks:#?}"
    );
    let replayed = checks.iter().filter(|check| check.what == "state");
    assert_eq!(replayed.count(), 3, "both snapshots and the checkpoint");
    assert_eq!(files(&root), before);
}

#[test]
fn a_purged_log_is_applied_from_the_snapshot_that_it_reaches_back_to() {
    let fixture = Fixture::with(|plan| plan.purged = Some(SNAPSHOTS[0]));
    let checks = checks(&fixture.root());
    assert!(
        checks.iter().all(|check| check.verdict == CheckResult::Ok),
        "{checks:#?}"
    );
    let line = checks.iter().rfind(|check| check.what == "state").unwrap();
    let applied = APPLIED - SNAPSHOTS[0];
    assert!(
        line.detail.starts_with(&format!("{applied} entries")),
        "{line:?}"
    );
}

#[test]
fn a_flipped_byte_in_any_file_is_reported_with_the_file() {
    let fixture = Fixture::new();
    let root = fixture.root();
    let sound = files(&root);
    let mut tried = 0;
    for (path, bytes) in &sound {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        // The lock file is empty, and sled's own files have a separate test.
        if name == "LOCK" || name.starts_with("state-") || bytes.is_empty() {
            continue;
        }
        let intact = match name.strip_prefix("wal/") {
            // The part of a segment after its batches is zeros, which are read only in the last
            // segment.
            Some(_) => bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1,
            None => bytes.len(),
        };
        for at in [0, intact / 3, intact / 2, intact - 1] {
            flip(path, at);
            let found = checks(&root).into_iter().find(|check| {
                let file = check.what == name || check.detail.contains(&name);
                check.verdict != CheckResult::Ok && file
            });
            assert!(found.is_some(), "{name} byte {at}: {:#?}", checks(&root));
            fs::write(path, bytes).unwrap();
            tried += 1;
        }
    }
    assert!(tried >= 4 * 8, "{tried}");
    assert_eq!(bad(&root), [""; 0]);
}

#[test]
fn a_flipped_byte_in_sled_is_reported_and_sled_not_written_to() {
    let fixture = Fixture::new();
    let root = fixture.root();
    let db = root.join("state-1/db");
    let bytes = fs::read(&db).unwrap();
    let mark = b"a description of some length";
    let at = bytes.windows(mark.len()).position(|window| window == mark);
    flip(&db, at.unwrap());
    let before = files(&root);
    assert_bad(&root, &["state-1"]);
    let report = inspect_folder(&root).unwrap();
    assert!(report.checkpoint.is_none());
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert_eq!(files(&root), before);
}

#[test]
fn a_checkpoint_that_cannot_be_copied_is_not_called_damaged() {
    let fixture = Fixture::new();
    let nowhere = fixture.root().join("nowhere");
    let seen = checkpoint::open_copy::<StateLoader>(&nowhere, &fixture.root(), CLUSTER);
    let error = seen.err().unwrap();
    assert!(
        matches!(error, CheckpointError::NotCopied { .. }),
        "{error:?}"
    );
    let error = OfflineError::from(error);
    assert_eq!(error.code, "failure");
    assert!(error.hint.unwrap().contains("TMPDIR"));
}

#[test]
fn a_torn_tail_is_worth_a_note_and_no_damage() {
    let fixture = Fixture::new();
    let root = fixture.root();
    let last = fs::read_dir(root.join("wal")).unwrap().flatten();
    let last = last.map(|entry| entry.path()).max().unwrap();
    let len = fs::metadata(&last).unwrap().len();
    fs::File::options()
        .write(true)
        .open(&last)
        .unwrap()
        .set_len(len - 8)
        .unwrap();
    let checks = checks(&root);
    assert!(
        checks.iter().all(|check| check.verdict != CheckResult::Bad),
        "{checks:#?}"
    );
    let noted =
        |check: &&Check| check.verdict == CheckResult::Note && check.detail.contains("torn tail");
    assert_eq!(checks.iter().filter(noted).count(), 1);
    assert!(inspect_folder(&root).unwrap().log.torn.is_some());
}

#[test]
fn parts_that_do_not_fit_each_other_are_reported() {
    let older = Fixture::with(|plan| plan.last = Some(APPLIED - 10));
    assert_bad(
        &older.root(),
        &["log and checkpoint", "was lost or is older"],
    );

    // A leader sent the snapshot after the end of the log: nothing before it is applied again.
    let sent = Fixture::with(|plan| plan.last = Some(SNAPSHOTS[1] - 10));
    let found = bad(&sent.root());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("log and checkpoint"), "{found:#?}");

    let behind = Fixture::with(|plan| plan.behind = true);
    assert_bad(
        &behind.root(),
        &["state: at entry 80", "state-1 has digest"],
    );

    let foreign = Fixture::with(|plan| plan.foreign = true);
    assert_bad(&foreign.root(), &["snap/30-1.snap", "cluster 01OTHER"]);

    let fixture = Fixture::with(|plan| plan.purged = Some(SNAPSHOTS[1]));
    let root = fixture.root();
    fs::remove_dir_all(root.join("snap")).unwrap();
    fs::remove_dir_all(root.join("state-1")).unwrap();
    assert_bad(
        &root,
        &["log and snapshots", "no file contains the entries before"],
    );
    assert_bad(&root, &["state-1", "missing"]);
}

#[test]
fn missing_files_are_reported() {
    let fixture = Fixture::new();
    let root = fixture.root();
    fs::remove_file(root.join("wal/0000000002.seg")).unwrap();
    assert_bad(&root, &["wal/0000000002.seg", "missing"]);
    fs::remove_dir_all(root.join("wal")).unwrap();
    assert_bad(&root, &["wal: no segment", "lost"]);
    assert_bad(&root, &["log and checkpoint"]);
    let fixture = Fixture::new();
    let root = fixture.root();
    fs::remove_file(root.join("CURRENT")).unwrap();
    assert_bad(&root, &["CURRENT", "missing"]);
    fs::remove_file(root.join("format")).unwrap();
    assert_bad(&root, &["format", "missing"]);
    assert_eq!(inspect_folder(&root).unwrap().problems[0].file, "format");
}

#[test]
fn a_folder_that_a_start_refuses_is_a_problem_although_its_files_can_be_read() {
    let problems = |change: &dyn Fn(&Path)| {
        let fixture = Fixture::new();
        let root = fixture.root();
        change(&root);
        let report = inspect_folder(&root).unwrap();
        let files = report.problems.into_iter().map(|problem| problem.file);
        files.collect::<Vec<_>>()
    };
    let first = "wal/0000000001.seg";
    assert_eq!(problems(&|root| flip(&root.join(first), 100))[0], first);
    let lost = |root: &Path| fs::remove_dir_all(root.join("wal")).unwrap();
    assert!(problems(&lost).contains(&"wal".to_owned()));
    let without = |root: &Path| fs::remove_file(root.join("identity")).unwrap();
    assert_eq!(problems(&without), ["identity"]);
    let newer = |root: &Path| fs::write(root.join("format"), "seqd-data 99\n").unwrap();
    assert_eq!(problems(&newer), ["format"]);

    let fixture = Fixture::new();
    without(&fixture.root());
    assert_bad(&fixture.root(), &["identity", "missing"]);
}

#[test]
fn a_folder_in_use_is_not_looked_at() {
    let fixture = Fixture::new();
    let root = fixture.root();
    let _node = Folder::open(std::sync::Arc::new(seqd_disk::OsDisk), &root).unwrap();
    assert_eq!(inspect_folder(&root).unwrap_err().code, "folder-in-use");
    let refused = verify_folder(&root, &mut |_| {}).unwrap_err();
    assert_eq!(refused.code, "folder-in-use");
}

#[test]
fn a_snapshot_is_read_in_full_and_its_damage_has_a_place() {
    let fixture = Fixture::new();
    let path = fixture.root().join("snap/60-2.snap");
    let report = read_snapshot(&path, &mut |_| {}).unwrap();
    assert_eq!((report.index, report.term), (60, 2));
    assert_eq!(report.cluster_id, CLUSTER);
    assert_eq!(report.records.sequences, 29);
    assert_eq!(report.wall_ms, 1_800_000_000_060);
    assert_eq!(report.members.len(), 1);
    let len = fs::metadata(&path).unwrap().len() as usize;
    for at in [0, 9, 20, len / 2, len - 1] {
        flip(&path, at);
        let error = read_snapshot(&path, &mut |_| {}).unwrap_err();
        assert_eq!(error.code, "corrupt", "byte {at}");
        assert!(error.message.contains("60-2.snap"), "{error}");
        assert!(
            at == 0 || error.message.contains("in the frame at byte"),
            "{error}"
        );
        flip(&path, at);
    }
    let missing = read_snapshot(Path::new("/no/such.snap"), &mut |_| {}).unwrap_err();
    assert_eq!(missing.code, "not-found");
}

#[test]
fn a_folder_of_the_first_format_is_sound_and_left_as_it_was() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../raft/tests/golden/data-v1");
    let before = files(&root);
    assert_eq!(bad(&root), [""; 0]);
    let report = inspect_folder(&root).unwrap();
    assert_eq!(report.problems, []);
    assert!(report.unlocked.is_some() && report.checkpoint.is_some());
    assert_eq!(files(&root), before);
}
