//! The handling of damaged logs by an open: a torn tail is removed, and corruption is refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on, fails"
)]

mod support;

use std::io;
use std::ops::Range;
use std::path::Path;

use seqd_disk::simulated::{Call, Failure, Fault, SimulatedDisk};
use seqd_wal::{Wal, WalError, WalOptions};
use support::{
    append, append_each, assert_corrupt, contents, dir, disk, entries, files, open, options,
    record, refused, wait,
};

const SEGMENT_1: &str = "/data/wal/0000000001.seg";
const HEADER_BYTES: usize = 64;

/// Returns a log of `count` batches of one entry each, and the range of the last batch in the first
/// file.
fn log_of(count: u64) -> (SimulatedDisk, Range<usize>) {
    let disk = disk();
    let (wal, _) = open(&disk);
    append_each(&wal, 0..count - 1, payload);
    let before = contents(&disk, SEGMENT_1);
    append(&wal, count - 1, payload(count - 1));
    let image = disk.kept();
    let after = contents(&image, SEGMENT_1);
    let changed = |at: &usize| before[*at] != after[*at];
    let begin = (0..after.len()).find(changed).unwrap() / 8 * 8;
    let end = (0..after.len()).rfind(changed).unwrap() + 1;
    (image, begin..end)
}

fn payload(index: u64) -> Vec<u8> {
    format!("the bytes of entry {index}").into_bytes()
}

fn some_entries(count: u64) -> Vec<(u64, Vec<u8>)> {
    (0..count).map(|index| (index, payload(index))).collect()
}

#[track_caller]
fn assert_zeroed(disk: &SimulatedDisk, from: usize) {
    let bytes = contents(disk, SEGMENT_1);
    assert!(
        bytes[from..].iter().all(|byte| *byte == 0),
        "the remains of a torn write are still there"
    );
}

#[test]
fn an_empty_folder_becomes_an_empty_log() {
    let disk = disk();
    let (wal, recovered) = open(&disk);
    assert_eq!(recovered.last, None);
    assert_eq!((recovered.first_index, recovered.last.clone()), (0, None));
    assert_eq!(wal.synced_index(), None);
    wal.close().unwrap();
    let (_, recovered) = open(&disk.kept());
    assert_eq!(recovered.torn, None);
}

#[test]
fn a_last_batch_cut_at_any_byte_is_a_torn_tail() {
    let (disk, last) = log_of(4);
    for cut in last.clone() {
        let disk = disk.kept();
        disk.edit(SEGMENT_1, |bytes| bytes[cut..].fill(0));
        let (wal, recovered) = open(&disk);
        assert_eq!(entries(&wal), some_entries(3), "cut at {cut}");
        assert_eq!(recovered.last, Some((2, payload(2))));
        let torn = recovered
            .torn
            .map(|torn| (torn.offset as usize, torn.bytes > 0));
        // A cut at the first byte leaves no remains, and neither does a cut within leading zeros.
        assert_zeroed(&disk, last.start);
        if cut > last.start + 4 {
            assert_eq!(torn, Some((last.start, true)), "cut at {cut}");
        }
    }
}

#[test]
fn a_last_batch_with_garbage_from_any_byte_is_a_torn_tail() {
    let (disk, last) = log_of(4);
    for from in last.clone() {
        let disk = disk.kept();
        disk.edit(SEGMENT_1, |bytes| {
            for byte in &mut bytes[from..last.end] {
                *byte = !*byte;
            }
        });
        let (wal, recovered) = open(&disk);
        assert_eq!(entries(&wal), some_entries(3), "garbage from {from}");
        assert_eq!(recovered.torn.unwrap().offset as usize, last.start);
        assert_zeroed(&disk, last.start);
    }
}

#[test]
fn a_file_that_ends_inside_the_last_batch_is_a_torn_tail() {
    let (disk, last) = log_of(4);
    let full = contents(&disk, SEGMENT_1).len();
    for cut in last {
        let disk = disk.kept();
        disk.edit(SEGMENT_1, |bytes| bytes.truncate(cut));
        let (wal, recovered) = open(&disk);
        assert_eq!(entries(&wal), some_entries(3), "cut at {cut}");
        assert!(recovered.torn.is_some());
        assert_eq!(contents(&disk, SEGMENT_1).len(), full, "as long as before");
    }
}

#[test]
fn a_flipped_bit_before_the_last_batch_is_corruption() {
    let (disk, last) = log_of(4);
    for at in 0..last.start {
        let disk = disk.kept();
        disk.edit(SEGMENT_1, |bytes| bytes[at] ^= 1 << (at % 8));
        assert_corrupt(&refused(options(&disk)), SEGMENT_1);
    }
}

#[test]
fn a_refused_log_is_left_as_it_was_found() {
    let (disk, _) = log_of(4);
    disk.edit(SEGMENT_1, |bytes| bytes[HEADER_BYTES + 60] ^= 1);
    let before = contents(&disk, SEGMENT_1);
    refused(options(&disk));
    assert_eq!(contents(&disk, SEGMENT_1), before);
    assert_corrupt(&refused(options(&disk)), SEGMENT_1);
}

#[test]
fn zeroes_over_an_earlier_batch_are_corruption() {
    let (disk, last) = log_of(4);
    disk.edit(SEGMENT_1, |bytes| {
        bytes[HEADER_BYTES + 48..last.start].fill(0)
    });
    assert_corrupt(&refused(options(&disk)), SEGMENT_1);
}

#[test]
fn a_bad_batch_followed_by_a_torn_one_is_corruption() {
    // The torn batch was begun, so the previous one had been synced.
    let (disk, last) = log_of(4);
    disk.edit(SEGMENT_1, |bytes| {
        bytes[last.start - 10] ^= 1;
        bytes[last.end - 1] ^= 1;
    });
    assert_corrupt(&refused(options(&disk)), SEGMENT_1);
}

#[test]
fn truncated_entries_do_not_reappear_after_a_batch_of_equal_length() {
    // A long write was torn: its header is lost, and its later sectors reached the disk.
    let (disk, last) = log_of(4);
    disk.edit(SEGMENT_1, |bytes| {
        bytes[last.start..last.start + 16].fill(0);
        bytes[last.end..last.end + 2000].fill(0xee);
    });
    let (wal, recovered) = open(&disk);
    assert_eq!(recovered.torn.unwrap().offset as usize, last.start);
    // The next batch ends exactly where the remains would continue, and a power cut follows.
    append(&wal, 3, payload(3));
    let disk = disk.lost();
    assert_zeroed(&disk, last.end);
    let (wal, recovered) = open(&disk);
    assert_eq!(recovered.torn, None);
    assert_eq!(entries(&wal), some_entries(4));
}

#[test]
fn remains_beyond_the_bad_batch_are_zeroed_durably() {
    let (disk, last) = log_of(4);
    disk.edit(SEGMENT_1, |bytes| {
        bytes[last.start] ^= 1;
        bytes[last.end + 800..last.end + 900].fill(0xee);
    });
    let (_wal, recovered) = open(&disk);
    assert_eq!(
        recovered.torn.unwrap().bytes as usize,
        last.end + 900 - last.start
    );
    let after_cut = disk.lost();
    assert_zeroed(&after_cut, last.start);
}

#[test]
fn entries_that_an_open_reports_are_durable_even_if_they_were_never_synced() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, 0, payload(0));
    disk.hold_syncs();
    let (done, _answer) = support::answer();
    wal.append(vec![record(1, payload(1))], done);
    disk.wait_for_held_sync();
    // The process is killed: its unsynced write is in the page cache of the running machine.
    let page_cache = disk.killed();
    disk.release_syncs();
    let (_, recovered) = open(&page_cache);
    assert_eq!(recovered.last, Some((1, payload(1))));
    let (_, recovered) = open(&page_cache.lost());
    assert_eq!(
        recovered.last,
        Some((1, payload(1))),
        "it was reported, so it must stay"
    );
}

#[test]
fn entries_that_an_open_reports_are_durable_even_if_their_sync_had_failed() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, 0, payload(0));
    disk.plant(Fault::on(Call::SyncData, Failure::InputOutput));
    // Long enough for sectors of its own, so that writing its neighbors would not save it.
    let long = vec![5; 2000];
    wait(|done| wal.append(vec![record(1, &long)], done)).unwrap_err();
    // The next process reads it from pages that count as clean.
    let page_cache = disk.killed();
    let (_wal, recovered) = open(&page_cache);
    assert_eq!(recovered.last, Some((1, long.clone())));
    let (_, recovered) = open(&page_cache.lost());
    assert_eq!(
        recovered.last,
        Some((1, long)),
        "it was reported, so it must stay"
    );
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull
}

#[track_caller]
fn assert_sync_failed(error: &WalError) {
    assert!(
        matches!(error, WalError::Io { doing: "sync", source, .. } if !is_full(source)),
        "{error}"
    );
}

#[test]
fn a_cut_whose_sync_failed_is_made_again() {
    let (disk, last) = log_of(4);
    disk.edit(SEGMENT_1, |bytes| {
        bytes[last.start..last.end + 2000].fill(0xee)
    });
    disk.plant(Fault::on(Call::SyncData, Failure::InputOutput));
    assert_sync_failed(&refused(options(&disk)));
    // The zeros are in the page cache but not on the disk.
    let (_wal, _) = open(&disk);
    let after_cut = disk.lost();
    assert_zeroed(&after_cut, last.start);
}

#[test]
fn an_open_syncs_the_folder_and_its_parent() {
    let (disk, _) = log_of(2);
    open(&disk);
    let is_synced = |folder: &Path| {
        let mut operations = disk.operations().into_iter();
        operations.any(|operation| operation.call == Call::SyncDir && operation.path == folder)
    };
    assert!(is_synced(&dir()) && is_synced(dir().parent().unwrap()));
}

#[test]
fn a_newer_format_is_named_as_such() {
    let (disk, _) = log_of(2);
    disk.edit(SEGMENT_1, |bytes| {
        bytes[8] = 9;
        let crc = crc32c::crc32c(&bytes[..60]).to_le_bytes();
        bytes[60..64].copy_from_slice(&crc);
    });
    let error = refused(options(&disk));
    let (found, known) = match error {
        WalError::NewerFormat { found, known, .. } => (found, known),
        other => panic!("{other}"),
    };
    assert_eq!((found, known), (9, 1));
}

#[test]
fn leftovers_that_never_got_a_name_are_removed() {
    let (disk, _) = log_of(2);
    disk.put("/data/wal/0000000002.seg.tmp", &[7; 100]);
    let (wal, _) = open(&disk);
    assert_eq!(entries(&wal), some_entries(2));
    assert_eq!(files(&disk), [SEGMENT_1]);
}

#[test]
fn a_clean_close_leaves_a_witness_for_the_last_batch() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, 0, payload(0));
    wal.save_committed(b"mark".to_vec());
    wal.close().unwrap();
    let disk = disk.kept();
    let (_, recovered) = open(&disk);
    assert_eq!(recovered.committed.as_deref(), Some(&b"mark"[..]));
    let at = find(&contents(&disk, SEGMENT_1), &payload(0));
    disk.edit(SEGMENT_1, |bytes| bytes[at] ^= 1);
    assert_corrupt(&refused(options(&disk)), SEGMENT_1);
}

fn find(haystack: &[u8], needle: &[u8]) -> usize {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
        .unwrap()
}

#[test]
fn options_that_cannot_work_are_refused() {
    let disk = disk();
    for segment_bytes in [0, 1023, (1 << 30) + 1] {
        let error = refused(WalOptions {
            segment_bytes,
            ..options(&disk)
        });
        assert!(matches!(error, WalError::Option { name, .. } if name == "segment_bytes"));
    }
}

#[test]
fn a_full_disk_at_the_first_start_is_reported_as_such() {
    let disk = disk();
    disk.set_full(true);
    let error = refused(options(&disk));
    assert!(
        matches!(&error, WalError::Io { source, .. } if is_full(source)),
        "{error}"
    );
    disk.set_full(false);
    disk.plant(Fault::on(Call::SyncData, Failure::InputOutput));
    assert_sync_failed(&refused(options(&disk)));
    Wal::open(options(&disk)).unwrap();
}

#[test]
fn the_real_disk_keeps_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("data").join("wal");
    let options = || WalOptions {
        segment_bytes: 4096,
        ..WalOptions::new(&dir)
    };
    let (wal, recovered) = Wal::open(options()).unwrap();
    assert_eq!(recovered.last, None);
    wait(|done| wal.save_vote(b"vote".to_vec(), done)).unwrap();
    append_each(&wal, 0..100, payload);
    wait(|done| wal.purge(79, b"meta".to_vec(), done)).unwrap();
    wal.close().unwrap();
    let (wal, recovered) = Wal::open(options()).unwrap();
    assert_eq!(recovered.vote.as_deref(), Some(&b"vote"[..]));
    assert_eq!(recovered.purged, Some((79, b"meta".to_vec())));
    assert_eq!(recovered.last, Some((99, payload(99))));
    assert_eq!(entries(&wal), some_entries(100)[80..]);
    assert!(!dir.join(SEGMENT_1).exists());
}
