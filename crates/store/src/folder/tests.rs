//! Data folders of this program and of others, intact and damaged.

use std::fs;

use seqd_disk::OsDisk;

use super::*;

fn opened(root: &Path) -> Result<Folder, Stop> {
    Folder::open(Arc::new(OsDisk), root)
}

fn identity() -> Identity {
    Identity {
        cluster_id: "C".into(),
        node: 1,
        name: "n1".into(),
        members: Vec::new(),
        founder: true,
        joined: false,
        ancestors: Vec::new(),
    }
}

#[test]
fn a_second_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _held = opened(dir.path()).unwrap();
    let stop = opened(dir.path()).err().unwrap();
    assert_eq!((stop.exit(), stop.code()), (9, "folder-in-use"));
}

#[test]
fn a_file_system_that_takes_no_lock_is_not_a_folder_in_use() {
    let (root, lock) = (Path::new("/data"), Path::new("/data/LOCK"));
    for (errno, code) in [
        (Errno::WOULDBLOCK, "folder-in-use"),
        (Errno::NOLCK, "fsync-failed"),
        (Errno::IO, "fsync-failed"),
    ] {
        let stop = not_locked(root, lock, errno);
        assert_eq!(stop.code(), code, "{stop}");
    }
}

#[test]
fn boot_numbers_rise_and_identities_stay() {
    let dir = tempfile::tempdir().unwrap();
    let folder = opened(dir.path()).unwrap();
    assert_eq!(folder.identity().unwrap(), None);
    folder.write_identity(&identity()).unwrap();
    assert_eq!(folder.raise_boot().unwrap(), 1);
    drop(folder);
    let folder = opened(dir.path()).unwrap();
    assert_eq!(folder.raise_boot().unwrap(), 2);
    assert_eq!(folder.identity().unwrap(), Some(identity()));
}

#[test]
fn a_flipped_bit_in_the_identity_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let folder = opened(dir.path()).unwrap();
    folder.write_identity(&identity()).unwrap();
    let path = dir.path().join("identity");
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&path, bad).unwrap();
        assert_eq!(
            folder.identity().err().unwrap().code(),
            "corrupt",
            "byte {at}"
        );
    }
}

#[test]
fn a_newer_format_and_a_stranger_s_folder_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("format"), "seqd-data 2\n").unwrap();
    assert_eq!(opened(dir.path()).err().unwrap().code(), "newer-format");
    for damaged in [&b""[..], b"seqd-dat", b"seqd-data \xff"] {
        fs::write(dir.path().join("format"), damaged).unwrap();
        assert_eq!(opened(dir.path()).err().unwrap().code(), "corrupt");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("holiday.jpg"), "x").unwrap();
    assert_eq!(opened(dir.path()).err().unwrap().code(), "foreign-folder");
}

#[test]
fn a_refused_folder_is_refused_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let folder = opened(dir.path()).unwrap();
    folder.mark_refused("node-removed", "gone").unwrap();
    drop(folder);
    let stop = opened(dir.path()).err().unwrap();
    assert_eq!(
        (stop.exit(), stop.code(), stop.message.as_str()),
        (9, "node-removed", "gone")
    );
}
