//! A log without threads: nothing is written until its pump steps.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on, fails"
)]

mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use seqd_disk::simulated::{Call, Failure, Fault};
use seqd_wal::{Wal, WalOptions};
use support::{answer, disk, entries, files, open, options, record};

#[test]
fn no_byte_is_written_until_the_pump_steps() {
    let disk = disk();
    let (wal, recovered, pump) = Wal::open_manual(options(&disk)).unwrap();
    assert!(recovered.last.is_none() && !pump.step());
    let before = disk.operation_count();
    let (done, first) = answer();
    wal.append(vec![record(0, "a")], done);
    let (done, second) = answer();
    wal.save_vote(b"vote".to_vec(), done);
    assert_eq!(disk.operation_count(), before);
    assert_eq!(first.try_recv().unwrap_err(), mpsc::TryRecvError::Empty);
    assert!(pump.step());
    first.try_recv().unwrap().unwrap();
    second.try_recv().unwrap().unwrap();
    assert_eq!(disk.operation_count(), before + 2, "one write, one sync");
    assert!(!pump.step());
    pump.write_witness();
    assert_eq!(wal.stats().witnesses, 1);
    assert_eq!(open(&disk.lost()).1.vote.as_deref(), Some(&b"vote"[..]));
}

#[test]
fn a_wait_writes_the_queue_and_never_hangs() {
    let disk = disk();
    let bounded = WalOptions {
        max_queue_bytes: 100,
        ..options(&disk)
    };
    let (wal, _, _pump) = Wal::open_manual(bounded).unwrap();
    for index in 0..10 {
        wal.append(vec![record(index, [1; 90])], Box::new(Result::unwrap));
    }
    assert!(wal.wait_synced(9, Duration::MAX).unwrap());
    assert!(!wal.wait_synced(10, Duration::MAX).unwrap());
}

#[test]
fn a_close_writes_queued_entries_and_segments_are_created_and_removed() {
    let disk = disk();
    let (wal, _, pump) = Wal::open_manual(options(&disk)).unwrap();
    for index in 0..100 {
        wal.append(vec![record(index, [1; 200])], Box::new(Result::unwrap));
        pump.run();
    }
    assert!(files(&disk).len() > 3);
    wal.purge(98, Vec::new(), Box::new(Result::unwrap));
    wal.close().unwrap();
    assert_eq!(wal.stats().segments, 1);
    assert_eq!(files(&disk).len(), 1, "what was prepared is discarded");
    let (again, _) = open(&disk.lost());
    assert_eq!(entries(&again), [(99, vec![1; 200])]);
}

#[test]
fn the_next_segment_is_filled_in_pieces_while_the_log_advances() {
    let disk = disk();
    let large = WalOptions {
        segment_bytes: 8 << 20,
        ..options(&disk)
    };
    let (wal, _, pump) = Wal::open_manual(large).unwrap();
    let mut pieces = Vec::new();
    for index in 0..60 {
        let before = disk.count(Call::SyncAll);
        wal.append(
            vec![record(index, [1; 200 << 10])],
            Box::new(Result::unwrap),
        );
        pump.run();
        pieces.push(disk.count(Call::SyncAll) - before);
    }
    assert_eq!(wal.stats().segments, 2);
    assert_eq!(pieces.iter().max(), Some(&1), "{pieces:?}");
    let first = &pieces[..8 * 1024 / 200];
    assert_eq!(first.iter().sum::<u64>(), 8, "{pieces:?}");
}

#[test]
fn a_failure_is_reported_to_all_that_wait_and_all_that_come() {
    let disk = disk();
    let (wal, _, pump) = Wal::open_manual(options(&disk)).unwrap();
    disk.plant(Fault::on(Call::SyncData, Failure::InputOutput));
    let appended = |wal: &Wal, index| {
        let (done, answer) = answer();
        wal.append(vec![record(index, "a")], done);
        answer
    };
    let first = appended(&wal, 0);
    pump.run();
    first.try_recv().unwrap().unwrap_err();
    let later = appended(&wal, 1);
    pump.run();
    later.try_recv().unwrap().unwrap_err();
    assert!(wal.failed().is_some() && wal.wait_synced(0, Duration::MAX).is_err());
    assert!(wal.close().is_err());
}

#[test]
fn durations_are_measured_by_the_clock_that_was_given() {
    let disk = disk();
    let readings = AtomicU64::new(0);
    let stepping = WalOptions {
        clock: Arc::new(move || Duration::from_secs(readings.fetch_add(1, Ordering::Relaxed))),
        ..options(&disk)
    };
    let (wal, _, pump) = Wal::open_manual(stepping).unwrap();
    wal.append(vec![record(0, "a")], Box::new(Result::unwrap));
    assert!(pump.step());
    assert_eq!(wal.stats().sync_total, Duration::from_secs(1));
}
