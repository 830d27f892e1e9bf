//! A log of several segments, one of which is missing, foreign, damaged, or should have been
//! removed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on, fails"
)]

mod support;

use std::time::Duration;

use seqd_disk::Disk;
use seqd_disk::simulated::{Call, Failure, Fault, SimulatedDisk};
use seqd_wal::{Wal, WalOptions};
use support::{
    append, assert_corrupt, contents, disk, entries, files, open, options, refused, wait,
};

const SEGMENT_1: &str = "/data/wal/0000000001.seg";
const SEGMENT_2: &str = "/data/wal/0000000002.seg";
const SEGMENT_4: &str = "/data/wal/0000000004.seg";
const HEADER_BYTES: usize = 64;

/// The time for which a writer that must not write is observed, far longer than a batch takes here.
const OBSERVATION_TIME: Duration = Duration::from_millis(100);

/// Returns a log with several segments.
fn long_log() -> (SimulatedDisk, u64) {
    let disk = disk();
    let (wal, _) = open(&disk);
    wait(|done| wal.save_vote(b"vote".to_vec(), done)).unwrap();
    let mut index = 0;
    while !files(&disk).iter().any(|name| name == SEGMENT_4) {
        append(&wal, index, [index as u8; 300]);
        index += 1;
    }
    wal.close().unwrap();
    (disk.kept(), index)
}

#[test]
fn a_segment_missing_in_the_middle_is_named() {
    let (disk, _) = long_log();
    disk.delete(SEGMENT_2);
    assert_corrupt(&refused(options(&disk)), SEGMENT_2);
}

#[test]
fn a_first_segment_that_was_not_purged_is_missed() {
    let (disk, _) = long_log();
    disk.delete(SEGMENT_1);
    let error = refused(options(&disk));
    assert_corrupt(&error, SEGMENT_2);
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn a_flipped_bit_in_an_earlier_segment_is_corruption_there() {
    let (disk, _) = long_log();
    let used = contents(&disk, SEGMENT_1)
        .iter()
        .rposition(|byte| *byte != 0)
        .unwrap();
    for at in (0..=used).step_by(3) {
        let disk = disk.kept();
        disk.edit(SEGMENT_1, |bytes| bytes[at] ^= 0x10);
        assert_corrupt(&refused(options(&disk)), SEGMENT_1);
    }
}

#[test]
fn a_named_segment_with_a_bad_header_or_opening_is_corrupt_even_as_the_last() {
    let (disk, _) = long_log();
    for at in (0..HEADER_BYTES).chain([HEADER_BYTES, HEADER_BYTES + 20]) {
        let disk = disk.kept();
        disk.edit(SEGMENT_4, |bytes| bytes[at] ^= 1);
        assert_corrupt(&refused(options(&disk)), SEGMENT_4);
    }
    for len in [0, 10, HEADER_BYTES, HEADER_BYTES + 8] {
        let disk = disk.kept();
        disk.edit(SEGMENT_4, |bytes| bytes.truncate(len));
        assert_corrupt(&refused(options(&disk)), SEGMENT_4);
    }
}

#[test]
fn a_segment_under_another_name_is_corrupt() {
    let (disk, _) = long_log();
    disk.put("/data/wal/0000000005.seg", &contents(&disk, SEGMENT_1));
    assert_corrupt(&refused(options(&disk)), "/data/wal/0000000005.seg");
    let (disk, _) = long_log();
    disk.put("/data/wal/7.seg", b"");
    assert_corrupt(&refused(options(&disk)), "/data/wal/7.seg");
}

#[test]
fn a_log_that_is_opened_and_not_accepted_gets_no_batch() {
    let (disk, _) = long_log();
    let all = entries(&open(&disk.kept()).0);
    let segments = files(&disk);
    let last = segments.last().unwrap();
    let kept = contents(&disk, last);
    disk.remove(last.as_ref()).unwrap();
    let before: Vec<_> = files(&disk).iter().map(|f| contents(&disk, f)).collect();
    let (wal, _) = Wal::open(WalOptions {
        witness_after: Duration::ZERO,
        ..options(&disk)
    })
    .unwrap();
    // If the writer treated the log as idle, it would write a witness now and not only at the
    // close.
    assert!(!wal.wait_synced(u64::MAX, OBSERVATION_TIME).unwrap());
    assert_eq!(wal.stats().batches, 0);
    wal.close().unwrap();
    assert_eq!(wal.stats().batches, 0);
    let after: Vec<_> = files(&disk).iter().map(|f| contents(&disk, f)).collect();
    assert!(after == before);
    // Because nothing was written, the missing segment can be restored.
    disk.put(last, &kept);
    assert!(entries(&open(&disk).0) == all);
}

#[test]
fn purged_segments_before_a_gap_are_removed() {
    let (disk, index) = long_log();
    let left = contents(&disk, SEGMENT_1);
    let (wal, _) = open(&disk);
    wait(|done| wal.purge(index - 2, Vec::new(), done)).unwrap();
    wal.close().unwrap();
    // The removal of the first segment failed, but the removals of later segments did not.
    let disk = disk.kept();
    disk.put(SEGMENT_1, &left);
    assert_eq!(files(&disk), [SEGMENT_1, SEGMENT_4]);
    let (wal, recovered) = open(&disk);
    assert_eq!(recovered.first_index, index - 1);
    wal.close().unwrap();
    assert_eq!(files(&disk), [SEGMENT_4]);
}

#[test]
fn after_a_removal_that_failed_none_is_removed_before_the_next_start() {
    let (disk, index) = long_log();
    let (wal, _) = open(&disk);
    disk.plant(Fault::on(Call::Remove, Failure::InputOutput));
    wait(|done| wal.purge(index - 2, Vec::new(), done)).unwrap();
    wal.close().unwrap();
    assert_eq!(files(&disk).len(), 4);
    let (wal, _) = open(&disk);
    wal.close().unwrap();
    assert_eq!(files(&disk).len(), 1);
}
