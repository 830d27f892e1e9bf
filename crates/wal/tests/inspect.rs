//! An inspection reports what an open would find, and leaves the log unchanged.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on, fails"
)]

mod support;

use seqd_disk::simulated::SimulatedDisk;
use seqd_disk::{Disk, ReadOnly};
use seqd_wal::{Wal, WalOptions, inspect};
use support::{append, append_each, dir, open, options, wait};

const SEGMENT_BYTES: u64 = 1024;

fn small(disk: &SimulatedDisk) -> WalOptions {
    WalOptions {
        segment_bytes: SEGMENT_BYTES,
        ..options(disk)
    }
}

/// Returns a log of several small segments with a vote, a truncation and a purge.
fn log() -> SimulatedDisk {
    let disk = support::disk();
    let (wal, _) = Wal::open(small(&disk)).unwrap();
    wait(|done| wal.save_vote(b"vote".to_vec(), done)).unwrap();
    append_each(&wal, 0..12, |_| vec![b'a'; 200]);
    wait(|done| wal.truncate_after(Some(9), done)).unwrap();
    append(&wal, 10, "the last");
    wait(|done| wal.purge(1, b"purged".to_vec(), done)).unwrap();
    disk.kept()
}

fn segments(disk: &SimulatedDisk) -> Vec<String> {
    let mut names = disk.list(&dir()).unwrap();
    names.retain(|name| name.ends_with(".seg"));
    names.sort();
    names
}

fn contents(disk: &SimulatedDisk) -> Vec<Vec<u8>> {
    segments(disk)
        .iter()
        .map(|name| disk.contents(dir().join(name)).unwrap())
        .collect()
}

/// Inspects and opens the log. Both must have the same result, and the inspection must change
/// nothing.
#[track_caller]
fn assert_agrees(disk: &SimulatedDisk, what: &str) -> bool {
    let before = contents(disk);
    let seen = inspect(&ReadOnly(disk.clone()), &dir()).unwrap();
    assert_eq!(contents(disk), before, "{what}: the look changed the log");
    match Wal::open(small(disk)) {
        Err(refused) => {
            let damage = seen.damage.as_ref().map(ToString::to_string);
            assert_eq!(damage, Some(refused.to_string()), "{what}");
            false
        }
        Ok((wal, recovered)) => {
            assert!(seen.damage.is_none(), "{what}: {:?}", seen.damage);
            assert_eq!(seen.torn, recovered.torn, "{what}");
            assert_eq!(seen.vote, recovered.vote, "{what}");
            assert_eq!(seen.committed, recovered.committed, "{what}");
            assert_eq!(seen.purged, recovered.purged, "{what}");
            assert_eq!(seen.next_index(), wal.next_index(), "{what}");
            let read = wal.read(0..u64::MAX, usize::MAX).unwrap();
            assert_eq!(read.first().map(|r| r.index), Some(seen.first_index()));
            for record in read {
                assert_eq!(seen.entry(record.index).unwrap(), Some(record.bytes));
            }
            true
        }
    }
}

#[test]
fn an_inspection_reports_the_segments_and_the_marks() {
    let disk = log();
    let seen = inspect(&ReadOnly(disk.clone()), &dir()).unwrap();
    let names = segments(&disk);
    assert!(names.len() > 2, "{names:?}");
    assert_eq!(seen.segments.len(), names.len());
    for (segment, name) in seen.segments.iter().zip(&names) {
        assert!(segment.path.ends_with(name));
        assert_eq!(
            segment.bytes,
            disk.contents(dir().join(name)).unwrap().len() as u64
        );
        assert!(segment.used <= segment.bytes && segment.batches > 0);
    }
    let live: Vec<u64> = seen
        .segments
        .iter()
        .filter_map(|s| s.entries)
        .flat_map(|(first, last)| first..=last)
        .collect();
    assert_eq!(
        live,
        (seen.first_index()..seen.next_index()).collect::<Vec<_>>()
    );
    assert_eq!((seen.first_index(), seen.next_index()), (2, 11));
    assert_eq!(seen.entry(11).unwrap(), None);
    assert_eq!(seen.vote.as_deref(), Some(&b"vote"[..]));
    assert!(assert_agrees(&disk, "as written"));
}

#[test]
fn a_look_agrees_with_an_open_on_every_flipped_byte() {
    let disk = log();
    let (mut opened, mut refused) = (0, 0);
    for name in segments(&disk) {
        for at in 0..disk.contents(dir().join(&name)).unwrap().len() {
            let disk = disk.kept();
            disk.edit(dir().join(&name), |bytes| bytes[at] ^= 0x20);
            match assert_agrees(&disk, &format!("{name} byte {at}")) {
                true => opened += 1,
                false => refused += 1,
            }
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} {refused}");
}

#[test]
fn a_look_agrees_with_an_open_on_a_file_cut_anywhere_and_on_a_missing_one() {
    let disk = log();
    let names = segments(&disk);
    let last = names.last().unwrap();
    for len in (0..disk.contents(dir().join(last)).unwrap().len()).step_by(8) {
        let disk = disk.kept();
        disk.edit(dir().join(last), |bytes| bytes.truncate(len));
        assert_agrees(&disk, &format!("{last} cut at {len}"));
    }
    for name in &names {
        let disk = disk.kept();
        disk.remove(&dir().join(name)).unwrap();
        assert_agrees(&disk, &format!("without {name}"));
    }
}

#[test]
fn a_folder_that_is_not_there_is_a_log_without_segments() {
    let disk = support::disk();
    let seen = inspect(&ReadOnly(disk.clone()), &dir()).unwrap();
    assert!(seen.segments.is_empty() && seen.damage.is_none());
    let (wal, _) = open(&disk);
    append(&wal, 0, "one");
    assert_eq!(inspect(&ReadOnly(disk), &dir()).unwrap().next_index(), 1);
}
