//! Data of a newer program is not reported as damaged.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use seqd_disk::OsDisk;
use seqd_state::codec;
use seqd_store::checkpoint::{self, Checkpoint, Place};
use seqd_store::folder::Folder;
use seqd_store::records::{LogIdRecord, PeersRecord, StoredMembershipRecord};
use seqd_store::snapshot_file::{SnapshotHeader, SnapshotWriter};
use seqd_store::testing::{of_a_newer_program, small_file_of_a_newer_program};

use super::fixture::{APPLIED, CLUSTER, Fixture};
use super::{checks, files};
use crate::checkpoint::{describe, load};
use crate::{CheckResult, OfflineError, inspect_folder, read_snapshot};

/// Gives a value a version that this program does not support.
fn newer_version(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[1] = 200;
    bytes
}

fn membership() -> Vec<u8> {
    codec::encode(&StoredMembershipRecord::default()).unwrap()
}

/// Returns the row of a level that no program has.
fn level_row() -> (Vec<u8>, Vec<u8>) {
    (b"e".to_vec(), vec![17, 1, 99, 0, 0, 0])
}

fn snapshot(folder: &Path, membership: Vec<u8>, rows: &[(Vec<u8>, Vec<u8>)]) {
    let header = SnapshotHeader {
        cluster_id: CLUSTER.to_owned(),
        index: 90,
        term: 2,
        log_id: codec::encode(&LogIdRecord { term: 2, index: 90 }).unwrap(),
        membership,
    };
    let mut writer = SnapshotWriter::create(&(Arc::new(OsDisk) as _), folder, header).unwrap();
    for (key, value) in rows {
        writer.row(key, value).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn a_snapshot_of_a_newer_program_is_newer_format() {
    let table = (b"~".to_vec(), b"what a table of that level keeps".to_vec());
    for (membership, rows, why) in [
        (membership(), vec![level_row(), table], "level 99"),
        (newer_version(membership()), vec![], "its header"),
        (
            membership(),
            vec![(b"e".to_vec(), vec![17, 200, 1])],
            "version 200",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        snapshot(dir.path(), membership, &rows);
        let path = dir.path().join("90-2.snap");
        let error = read_snapshot(&path, &mut |_| {}).unwrap_err();
        assert_eq!(error.code, "newer-format", "{error}");
        assert!(error.message.contains(why), "{error}");
        assert!(error.message.contains("90-2.snap"), "{error}");
    }

    let fixture = Fixture::new();
    let path = fixture.root().join("snap/60-2.snap");
    fs::write(&path, of_a_newer_program(&fs::read(&path).unwrap())).unwrap();
    let error = read_snapshot(&path, &mut |_| {}).unwrap_err();
    assert_eq!(error.code, "newer-format", "{error}");
}

/// Replaces the checkpoint by one with these rows and this membership.
fn replace_checkpoint(root: &Path, membership: Vec<u8>, rows: &[(Vec<u8>, Vec<u8>)]) {
    fs::remove_dir_all(root.join("state-1")).unwrap();
    fs::remove_file(root.join("CURRENT")).unwrap();
    let place = Place::on_sled(root, CLUSTER);
    let digest = (rows.iter()).fold(0_u128, |sum, (key, value)| {
        sum.wrapping_add(seqd_state::row_hash(key, value))
    });
    let log_id = LogIdRecord {
        term: 2,
        index: APPLIED,
    };
    let applied = Checkpoint {
        index: APPLIED,
        log_id: codec::encode(&log_id).unwrap(),
        membership,
        digest,
    };
    let rows = rows.iter().cloned().map(Ok);
    let store = checkpoint::create_generation(&place, rows, &applied).unwrap();
    store.close().unwrap();
}

#[test]
fn a_checkpoint_of_a_newer_program_is_newer_format() {
    let fixture = Fixture::new();
    let root = fixture.root();
    replace_checkpoint(&root, membership(), &[level_row()]);
    let error = OfflineError::from(load(&root, CLUSTER).err().unwrap());
    assert_eq!(error.code, "newer-format", "{error}");

    replace_checkpoint(&root, newer_version(membership()), &[]);
    let error = OfflineError::from(describe(&root, CLUSTER).err().unwrap());
    assert_eq!(error.code, "newer-format", "{error}");
    let folder = Folder::of_tool(Arc::new(OsDisk), &root, "tool").unwrap();
    let identity = folder.identity().unwrap().unwrap();
    let error = super::super::remains::read(&folder, &identity)
        .err()
        .unwrap();
    assert_eq!(error.code, "newer-format", "{error}");
}

#[test]
fn a_newer_format_of_the_folder_is_not_damage_and_other_text_is() {
    for (text, expected) in [("seqd-data 2\n", true), ("seqd-dat\n", false)] {
        let fixture = Fixture::new();
        let root = fixture.root();
        fs::write(root.join("format"), text).unwrap();
        let report = inspect_folder(&root).unwrap();
        let found: Vec<_> = (report.problems.iter())
            .map(|problem| (problem.file.as_str(), problem.is_newer))
            .collect();
        assert_eq!(found, [("format", expected)], "{text}");
    }
}

#[test]
fn newer_parts_of_a_folder_are_reported_as_such_and_left() {
    let fixture = Fixture::new();
    let root = fixture.root();
    replace_checkpoint(&root, newer_version(membership()), &[]);
    let path = root.join("snap/60-2.snap");
    fs::write(&path, of_a_newer_program(&fs::read(&path).unwrap())).unwrap();
    let record = PeersRecord {
        cluster_id: CLUSTER.to_owned(),
        rows: Vec::new(),
    };
    let peers = small_file_of_a_newer_program(&codec::seal(&record).unwrap());
    fs::write(root.join("peers"), peers).unwrap();

    let before = files(&root);
    let report = inspect_folder(&root).unwrap();
    let mut found: Vec<_> = (report.problems.iter())
        .map(|problem| (problem.file.as_str(), problem.is_newer))
        .collect();
    found.sort_unstable();
    let expected = [("peers", true), ("snap/60-2.snap", true), ("state-2", true)];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert!(found.iter().all(|(_, is_newer)| *is_newer), "{found:?}");
    let bad = checks(&root).into_iter();
    let bad: Vec<_> = bad
        .filter(|check| check.verdict == CheckResult::Bad && !check.is_newer)
        .collect();
    assert_eq!(bad, []);
    assert_eq!(files(&root), before);
}
