//! A snapshot is read back exactly as it was written, or not at all.

use std::fs;
use std::io;
use std::path::Path;

use proptest::prelude::*;
use seqd_disk::OsDisk;
use tempfile::TempDir;

use super::folder::Recovered;
use super::reader::verify;
use super::*;
use crate::checkpoint::file_store::FileStores;
use crate::checkpoint::{
    Checkpoint, Opened, Place, Row, TakeRows, Tally, create_empty, create_generation, open,
};
use crate::testing::of_a_newer_program;

mod unreadable;

const CLUSTER: &str = "cluster-a";

#[derive(Debug, Default)]
struct Rows(Vec<Row>);

impl TakeRows for Rows {
    fn hashed_row(&mut self, key: &[u8], value: &[u8], _: u128) -> io::Result<()> {
        self.0.push((key.to_vec(), value.to_vec()));
        Ok(())
    }
}

fn os() -> Arc<dyn Disk> {
    Arc::new(OsDisk)
}

fn temp() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn header(index: u64) -> SnapshotHeader {
    SnapshotHeader {
        cluster_id: CLUSTER.to_owned(),
        index,
        term: 3,
        log_id: vec![1, 2, 3],
        membership: b"one, two, three".to_vec(),
    }
}

fn some_rows(rows: u32) -> Vec<Row> {
    let row = |number: u32| {
        (
            format!("seq/{number:05}").into_bytes(),
            format!("the value of {number}").into_bytes(),
        )
    };
    (0..rows).map(row).collect()
}

fn write(dir: &Path, index: u64, rows: &[Row]) -> SnapshotFile {
    let mut writer = SnapshotWriter::create(&os(), dir, header(index)).unwrap();
    for (key, value) in rows {
        writer.row(key, value).unwrap();
    }
    writer.finish().unwrap()
}

fn read(path: &Path) -> io::Result<Vec<Row>> {
    SnapshotReader::open(&OsDisk, path)?.rows().collect()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn indexes(listed: &[SnapshotFile]) -> Vec<u64> {
    listed.iter().map(|file| file.index).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_rows_come_back(
        rows in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..40),
             prop::collection::vec(any::<u8>(), 0..5000)),
            0..200),
    ) {
        let dir = temp();
        let file = write(dir.path(), 12, &rows);
        prop_assert_eq!(read(&file.path).unwrap(), rows);
        prop_assert_eq!(file.len, fs::metadata(&file.path).unwrap().len());
        prop_assert_eq!(verify(&OsDisk, &file.path).unwrap(), file);
    }
}

#[test]
fn the_file_names_its_cluster_and_node() {
    let dir = temp();
    let rows = some_rows(10);
    let file = write(dir.path(), 12, &rows);
    assert_eq!(file.path, dir.path().join("12-3.snap"));
    assert_eq!(
        (file.cluster_id.as_str(), file.index, file.term),
        (CLUSTER, 12, 3)
    );
    assert_eq!(
        (file.log_id.clone(), file.membership.clone()),
        (vec![1, 2, 3], b"one, two, three".to_vec())
    );
    assert_eq!(file.rows, 10);
    let mut tally = Tally::default();
    for (key, value) in &rows {
        tally.add(key, value);
    }
    assert_eq!(file.digest, tally.digest);
    assert_eq!(list(&OsDisk, dir.path()).unwrap(), [file]);
}

#[test]
fn golden_bytes_of_a_snapshot() {
    let dir = temp();
    let header = SnapshotHeader {
        cluster_id: "c".to_owned(),
        index: 5,
        term: 2,
        log_id: vec![7],
        membership: vec![8, 9],
    };
    let mut writer = SnapshotWriter::create(&os(), dir.path(), header).unwrap();
    writer.row(b"k", b"vw").unwrap();
    let bytes = fs::read(writer.finish().unwrap().path).unwrap();

    let long = |number: u64| number.to_le_bytes();
    let mut expected = b"seqdsnap".to_vec();
    let mut crc = crc32c::crc32c(&expected);
    let mut frame = |kind: u8, payload: &[u8]| {
        let mut bytes = vec![kind];
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(payload);
        crc = crc32c::crc32c_append(crc, &bytes);
        bytes.extend(crc.to_le_bytes());
        bytes
    };
    let mut payload = vec![66, 1];
    payload.extend(long(1));
    payload.extend(b"c");
    payload.extend([long(5), long(2), long(1)].concat());
    payload.extend([7]);
    payload.extend(long(2));
    payload.extend([8, 9]);
    expected.extend(frame(1, &payload));
    expected.extend(frame(2, &[1, 0, 0, 0, 2, 0, 0, 0, b'k', b'v', b'w']));
    let mut payload = vec![67, 1];
    payload.extend(long(1));
    payload.extend(seqd_state::row_hash(b"k", b"vw").to_le_bytes());
    expected.extend(frame(3, &payload));
    assert_eq!(bytes, expected);
}

#[test]
fn each_flipped_byte_of_a_small_file_is_found() {
    let dir = temp();
    let file = write(dir.path(), 12, &some_rows(20));
    let bytes = fs::read(&file.path).unwrap();
    for position in 0..bytes.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[position] ^= mask;
            fs::write(&file.path, damaged).unwrap();
            let error = verify(&OsDisk, &file.path).unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::InvalidData,
                "byte {position}: {error}"
            );
            assert!(read(&file.path).is_err(), "byte {position}");
            // Such a file is set aside, and does not prevent a start.
            check_readable(&OsDisk, dir.path()).unwrap();
        }
    }
}

#[test]
fn a_cut_or_longer_file_is_found() {
    let dir = temp();
    let file = write(dir.path(), 12, &some_rows(20));
    let bytes = fs::read(&file.path).unwrap();
    for end in 0..bytes.len() {
        fs::write(&file.path, &bytes[..end]).unwrap();
        assert_eq!(
            verify(&OsDisk, &file.path).unwrap_err().kind(),
            io::ErrorKind::InvalidData,
            "{end}"
        );
    }
    fs::write(&file.path, [bytes, vec![0]].concat()).unwrap();
    assert!(
        verify(&OsDisk, &file.path)
            .unwrap_err()
            .to_string()
            .contains("after the footer")
    );
}

#[test]
fn blocks_that_were_swapped_repeated_or_left_out_are_found() {
    let dir = temp();
    let file = write(dir.path(), 12, &some_rows(6_000));
    let bytes = fs::read(&file.path).unwrap();
    let mut frames = Vec::new();
    let mut at = MAGIC.len();
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 1..at + 5].try_into().unwrap()) as usize;
        frames.push(&bytes[at..at + 9 + length]);
        at += 9 + length;
    }
    assert!(frames.len() >= 5, "{}", frames.len());
    let check = |order: &[usize]| {
        let mut damaged = MAGIC.to_vec();
        order
            .iter()
            .for_each(|frame| damaged.extend(frames[*frame]));
        fs::write(&file.path, damaged).unwrap();
        verify(&OsDisk, &file.path).is_err()
    };
    let right: Vec<usize> = (0..frames.len()).collect();
    assert!(!check(&right));
    let mut swapped = right.clone();
    swapped.swap(1, 2);
    assert!(check(&swapped));
    let mut repeated = right.clone();
    repeated.insert(2, 1);
    assert!(check(&repeated));
    let mut shorter = right;
    shorter.remove(2);
    assert!(check(&shorter));
}

#[test]
fn a_newer_file_is_distinguished_from_a_damaged_one() {
    let dir = temp();
    let file = write(dir.path(), 12, &[]);
    let bytes = of_a_newer_program(&fs::read(&file.path).unwrap());
    fs::write(&file.path, bytes).unwrap();
    assert_eq!(
        verify(&OsDisk, &file.path).unwrap_err().kind(),
        io::ErrorKind::Unsupported
    );
    let error = recover(&OsDisk, dir.path(), CLUSTER).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert_eq!(names(dir.path()), ["12-3.snap"]);
}

#[test]
fn rows_and_headers_have_bounds() {
    let dir = temp();
    let mut writer = SnapshotWriter::create(&os(), dir.path(), header(12)).unwrap();
    let error = writer.row(b"k", &vec![0; MAX_ROW_BYTES]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    let largest = (b"k".to_vec(), vec![1; MAX_ROW_BYTES - 1]);
    writer
        .row(b"almost a block", &vec![2; BLOCK_BYTES - 64])
        .unwrap();
    writer.row(&largest.0, &largest.1).unwrap();
    let file = writer.finish().unwrap();
    assert_eq!(read(&file.path).unwrap()[1], largest);

    let long = SnapshotHeader {
        membership: vec![0; MAX_HEADER_BYTES],
        ..header(13)
    };
    let error = SnapshotWriter::create(&os(), dir.path(), long)
        .err()
        .unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(names(dir.path()), ["12-3.snap"]);
}

#[test]
fn an_unfinished_snapshot_leaves_nothing_and_a_killed_one_is_cleaned() {
    let dir = temp();
    let mut writer = SnapshotWriter::create(&os(), dir.path(), header(12)).unwrap();
    writer.row(b"k", b"v").unwrap();
    assert_eq!(names(dir.path()), ["12-3.snap.tmp"]);
    assert_eq!(list(&OsDisk, dir.path()).unwrap(), []);
    drop(writer);
    assert_eq!(names(dir.path()), [""; 0]);

    write(dir.path(), 9, &some_rows(1));
    fs::write(dir.path().join("12-3.snap.tmp"), b"seqd").unwrap();
    fs::write(dir.path().join("received-0.tmp"), b"seqd").unwrap();
    fs::write(dir.path().join("notes"), b"of someone").unwrap();
    let found = recover(&OsDisk, dir.path(), CLUSTER).unwrap();
    assert_eq!((indexes(&found.valid), found.bad.len()), (vec![9], 0));
    assert_eq!(names(dir.path()), ["9-3.snap", "notes"]);
}

#[test]
fn the_list_goes_by_number_and_two_are_kept() {
    let dir = temp();
    for index in [9, 100, 20, 3] {
        write(dir.path(), index, &some_rows(1));
    }
    fs::write(dir.path().join("0100-3.snap"), b"not a name of ours").unwrap();
    assert_eq!(
        indexes(&list(&OsDisk, dir.path()).unwrap()),
        [100, 20, 9, 3]
    );
    keep_two(&OsDisk, dir.path()).unwrap();
    keep_two(&OsDisk, dir.path()).unwrap();
    assert_eq!(indexes(&list(&OsDisk, dir.path()).unwrap()), [100, 20]);
    void_older(&OsDisk, dir.path(), 100).unwrap();
    assert_eq!(names(dir.path()), ["0100-3.snap", "100-3.snap"]);
}

#[test]
fn a_start_keeps_valid_snapshots_and_ignores_damaged_ones() {
    let dir = temp();
    assert_eq!(
        recover(&OsDisk, dir.path(), CLUSTER).unwrap(),
        Recovered::default()
    );
    for index in [10, 20, 30, 40, 50] {
        write(dir.path(), index, &some_rows(5));
    }
    let newest = dir.path().join("50-3.snap");
    let mut bytes = fs::read(&newest).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(newest, bytes).unwrap();
    fs::rename(dir.path().join("30-3.snap"), dir.path().join("40-3.snap")).unwrap();
    fs::write(dir.path().join("20-3.snap"), b"").unwrap();
    assert_eq!(indexes(&list(&OsDisk, dir.path()).unwrap()), [50, 30, 10]);

    let found = recover(&OsDisk, dir.path(), CLUSTER).unwrap();
    assert_eq!(indexes(&found.valid), [10]);
    let why: Vec<&str> = found.bad.iter().map(|bad| bad.why.as_str()).collect();
    assert_eq!(why.len(), 3);
    assert!(why[0].contains("checksum"), "{why:?}");
    assert!(why[1].contains("index 30"), "{why:?}");
    assert!(why[2].contains("too early"), "{why:?}");
    assert_eq!(names(dir.path()).len(), 4);
    set_aside(&OsDisk, dir.path(), &found.bad).unwrap();
    assert_eq!(
        names(dir.path()),
        ["10-3.snap", "40-3.snap.bad", "50-3.snap.bad"]
    );
    assert_eq!(recover(&OsDisk, dir.path(), CLUSTER).unwrap().bad, []);

    let found = recover(&OsDisk, dir.path(), "cluster-b").unwrap();
    assert_eq!((found.valid, found.bad.len()), (Vec::new(), 1));
}

#[test]
fn a_received_snapshot_has_its_name_only_once_adopted() {
    let (from, to) = (temp(), temp());
    let rows = some_rows(9_000);
    let sent = write(from.path(), 12, &rows);
    let bytes = fs::read(&sent.path).unwrap();
    let transfer = || {
        let mut receiver = Receiver::create(&os(), to.path()).unwrap();
        bytes
            .chunks(7_001)
            .for_each(|chunk| receiver.write(chunk).unwrap());
        receiver.finish(CLUSTER).unwrap()
    };

    let received = transfer();
    assert_eq!(received.len_bytes(), sent.len);
    assert_eq!(
        verify(&OsDisk, received.path()).unwrap().digest,
        sent.digest
    );
    assert_eq!(list(&OsDisk, to.path()).unwrap(), []);
    drop(received);
    assert_eq!(names(to.path()), [""; 0]);

    let adopted = transfer().adopt().unwrap();
    assert_eq!(adopted.path, to.path().join("12-3.snap"));
    assert_eq!(names(to.path()), ["12-3.snap"]);
    assert_eq!(read(&adopted.path).unwrap(), rows);
}

#[test]
fn a_damaged_or_foreign_transfer_is_refused_and_leaves_nothing() {
    let (from, to) = (temp(), temp());
    let bytes = fs::read(write(from.path(), 12, &some_rows(50)).path).unwrap();
    let transfer = |bytes: &[u8], cluster_id: &str| -> io::Result<Received> {
        let mut receiver = Receiver::create(&os(), to.path())?;
        receiver.write(bytes)?;
        receiver.finish(cluster_id)
    };
    let mut damaged = bytes.clone();
    damaged[100] ^= 1;
    assert!(transfer(&damaged, CLUSTER).is_err());
    assert!(transfer(&bytes[..bytes.len() - 1], CLUSTER).is_err());
    assert!(transfer(&bytes, "cluster-b").is_err());
    assert_eq!(names(to.path()), [""; 0]);
    assert!(transfer(&bytes, CLUSTER).is_ok());
}

fn taken(store: &dyn StateStore, dir: &Path) -> io::Result<SnapshotFile> {
    take(store, &os(), dir, CLUSTER, 3, &mut || Ok(()))?.finish()
}

#[test]
fn a_checkpoint_taken_as_a_snapshot_builds_the_same_checkpoint() {
    let (dir, data) = (temp(), temp());
    let rows = some_rows(7_000);
    let mut tally = Tally::default();
    for (key, value) in &rows {
        tally.add(key, value);
    }
    let applied = Checkpoint {
        index: 44,
        log_id: vec![4],
        membership: vec![5],
        digest: tally.digest,
    };
    let streamed = temp();
    let mut store = create_empty(&Place {
        stores: Arc::new(FileStores),
        ..Place::on_sled(streamed.path(), CLUSTER)
    })
    .unwrap();
    let before = taken(&*store, dir.path()).unwrap_err();
    assert_eq!(before.kind(), io::ErrorKind::InvalidInput);
    let puts = rows
        .iter()
        .map(|(key, value)| (key.clone(), Some(value.clone())));
    store.write(puts.collect(), &applied).unwrap();
    let file = taken(&*store, dir.path()).unwrap();
    assert_eq!((file.index, file.term), (44, 3));

    let read = SnapshotReader::open(&OsDisk, &file.path).unwrap().rows();
    let place = Place::on_sled(data.path(), CLUSTER);
    let built = create_generation(&place, read, &applied).unwrap();
    assert_eq!(built.applied(), Some(applied.clone()));
    built.close().unwrap();
    match open::<Rows>(&place, false).unwrap() {
        Opened::Good {
            rows: mut found,
            applied: known,
            ..
        } => {
            found.0.sort_unstable();
            assert_eq!((found.0, known), (rows, applied.clone()));
        }
        other => panic!("{other:?}"),
    }

    let wrong = Checkpoint {
        digest: 0,
        ..applied
    };
    store.write(Vec::new(), &wrong).unwrap();
    fs::remove_file(&file.path).unwrap();
    let error = taken(&*store, dir.path()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(names(dir.path()), [""; 0]);
}
