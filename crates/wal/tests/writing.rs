//! A running log: group commit, the order of results, witnesses, purges, and failures.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on, fails"
)]

mod support;

use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use seqd_disk::simulated::{Call, Failure, Fault};
use seqd_wal::{Done, FailedStep, Record, Wal, WalFailure, WalOptions};
use support::{
    DEADLINE, answer, append, append_each, disk, entries, eventually, files, open, options, record,
    wait,
};

/// Callbacks that record in a shared list the order in which they ran, and their results.
#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<Answer>>>);

/// The name of a call and its error, if any.
type Answer = (u32, Option<io::ErrorKind>);

impl Order {
    fn done(&self, name: u32) -> Done {
        let list = Arc::clone(&self.0);
        Box::new(move |result| {
            list.lock()
                .unwrap()
                .push((name, result.err().map(|e| e.kind())))
        })
    }

    fn seen(&self) -> Vec<Answer> {
        self.0.lock().unwrap().clone()
    }

    fn wait_for(&self, count: usize) {
        eventually("all callbacks ran", || self.seen().len() >= count);
    }
}

#[test]
fn an_answer_waits_for_the_sync() {
    let disk = disk();
    let (wal, _) = open(&disk);
    disk.hold_syncs();
    let (done, answer) = answer();
    wal.append(vec![record(0, "a")], done);
    disk.wait_for_held_sync();
    assert_eq!(answer.try_recv().unwrap_err(), mpsc::TryRecvError::Empty);
    assert_eq!(wal.synced_index(), None);
    assert!(!wal.wait_synced(0, Duration::from_millis(1)).unwrap());
    assert!(wal.stalled_for().unwrap() >= Duration::from_millis(1));
    // The entry is not durable: a power cut at this moment loses it.
    assert_eq!(open(&disk.lost()).1.last, None);
    disk.release_syncs();
    answer.recv_timeout(DEADLINE).unwrap().unwrap();
    assert_eq!(wal.synced_index(), Some(0));
    assert_eq!(wal.stalled_for(), None);
    assert!(wal.wait_synced(0, Duration::ZERO).unwrap());
    assert_eq!(open(&disk.lost()).1.last, Some((0, b"a".to_vec())));
}

#[test]
fn calls_during_a_sync_are_synced_together_and_answered_in_order() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let order = Order::default();
    disk.hold_syncs();
    wal.append(vec![record(0, "first")], order.done(0));
    disk.wait_for_held_sync();
    let before = disk.count(Call::SyncData);
    for index in 1..=20 {
        wal.append(vec![record(index, "more")], order.done(index as u32));
    }
    wal.save_vote(b"vote".to_vec(), order.done(21));
    wal.truncate_after(Some(10), order.done(22));
    wal.purge(3, b"meta".to_vec(), order.done(23));
    assert_eq!(order.seen(), []);
    disk.release_syncs();
    order.wait_for(24);
    assert_eq!(disk.count(Call::SyncData) - before, 1);
    assert_eq!(
        order.seen(),
        (0..24).map(|name| (name, None)).collect::<Vec<_>>()
    );
    assert_eq!(wal.stats().batches, 2);
    assert_eq!(wal.synced_index(), Some(10));
}

#[test]
fn queued_entries_are_read_and_truncated_ones_are_not() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, 0, "zero");
    disk.hold_syncs();
    let order = Order::default();
    wal.append(vec![record(1, "one"), record(2, "two")], order.done(1));
    disk.wait_for_held_sync();
    assert_eq!(
        wal.read(1..3, 1000).unwrap(),
        [record(1, "one"), record(2, "two")]
    );
    wal.truncate_after(Some(1), order.done(2));
    assert_eq!(
        wal.read(0..9, 1000).unwrap(),
        [record(0, "zero"), record(1, "one")]
    );
    // The first bytes of entry 2 are still being written when others replace them.
    wal.append(vec![record(2, "other")], order.done(3));
    assert_eq!(wal.read(2..3, 1000).unwrap(), [record(2, "other")]);
    disk.release_syncs();
    order.wait_for(3);
    let expected = [
        (0, b"zero".to_vec()),
        (1, b"one".to_vec()),
        (2, b"other".to_vec()),
    ];
    assert_eq!(entries(&wal), expected);
    assert_eq!(entries(&open(&disk.lost()).0), expected);
}

#[test]
fn a_read_is_bounded_in_bytes_but_answers_one_entry_at_least() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append_each(&wal, 0..50, |index| vec![index as u8; 100]);
    assert_eq!(wal.read(10..40, 250).unwrap().len(), 2);
    assert_eq!(wal.read(10..40, 0).unwrap().len(), 1);
    assert_eq!(wal.read(10..40, usize::MAX).unwrap().len(), 30);
    assert_eq!(wal.read(50..60, usize::MAX).unwrap(), []);
}

#[test]
fn an_entry_that_rotted_on_disk_is_an_error_not_an_answer() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, 0, "some bytes");
    disk.edit("/data/wal/0000000001.seg", |bytes| {
        let at = bytes
            .windows(10)
            .position(|window| window == b"some bytes")
            .unwrap();
        bytes[at] ^= 1;
    });
    assert_eq!(
        wal.read(0..1, 1000).unwrap_err().kind(),
        io::ErrorKind::InvalidData
    );
}

#[test]
fn an_entry_out_of_order_is_refused_and_the_log_continues() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, 5, "a log may begin anywhere");
    for bad in [4, 5, 7, u64::MAX] {
        let answer = wait(|done| wal.append(vec![record(bad, "")], done));
        assert_eq!(
            answer.unwrap_err().kind(),
            io::ErrorKind::InvalidInput,
            "{bad}"
        );
    }
    let gap = vec![record(6, ""), record(8, "")];
    assert!(wait(|done| wal.append(gap, done)).is_err());
    append(&wal, 6, "next");
    assert_eq!(wal.next_index(), 7);
    assert_eq!(entries(&open(&disk.kept()).0).len(), 2);
}

#[test]
fn a_failed_sync_ends_the_log_and_is_never_retried() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, 0, "durable");
    let order = Order::default();
    disk.hold_syncs();
    wal.append(vec![record(1, "a")], order.done(1));
    disk.wait_for_held_sync();
    wal.append(vec![record(2, "b")], order.done(2));
    wal.save_vote(b"vote".to_vec(), order.done(3));
    disk.plant(Fault::on(Call::SyncData, Failure::InputOutput));
    let before = disk.count(Call::SyncData);
    disk.release_syncs();
    order.wait_for(3);
    wal.append(vec![record(3, "c")], order.done(4));
    order.wait_for(4);
    let kind = io::Error::from_raw_os_error(5).kind();
    let all = [1, 2, 3, 4].map(|name| (name, Some(kind)));
    assert_eq!(order.seen(), all);
    assert_eq!(wal.synced_index(), Some(0));
    assert!(wal.wait_synced(1, DEADLINE).is_err());
    let failure = wal.failed().unwrap();
    assert_eq!(failure.step, FailedStep::Sync);
    assert_eq!(failure.kind, kind);
    assert!(
        failure.to_string().contains("/data/wal/0000000001.seg"),
        "{failure}"
    );
    let error = wal.close().unwrap_err();
    assert!(
        error
            .get_ref()
            .unwrap()
            .downcast_ref::<WalFailure>()
            .is_some()
    );
    assert_eq!(
        disk.count(Call::SyncData),
        before,
        "no sync was tried again"
    );
}

#[test]
fn a_failed_write_ends_the_log() {
    let disk = disk();
    let (wal, _) = open(&disk);
    disk.plant(Fault::on(Call::Write, Failure::InputOutput));
    assert!(wait(|done| wal.save_vote(b"vote".to_vec(), done)).is_err());
    assert_eq!(wal.failed().unwrap().step, FailedStep::Write);
    assert!(wait(|done| wal.save_vote(b"vote".to_vec(), done)).is_err());
    assert_eq!(open(&disk.kept()).1.vote, None);
}

#[test]
fn a_full_disk_ends_the_log_and_is_not_taken_for_a_failed_sync() {
    let disk = disk();
    let (wal, _) = open(&disk);
    disk.set_full(true);
    let mut index = 0;
    let error = loop {
        match wait(|done| wal.append(vec![record(index, [1; 200])], done)) {
            Ok(()) => index += 1,
            Err(error) => break error,
        }
    };
    assert!(index > 10, "the segment that was there is used up first");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(wal.failed().unwrap().kind, io::ErrorKind::StorageFull);
    disk.set_full(false);
    assert_eq!(open(&disk.kept()).0.next_index(), index);
}

#[test]
fn a_preparation_that_failed_is_tried_again_when_the_segment_is_needed() {
    let disk = disk();
    let (wal, _) = open(&disk);
    disk.set_full(true);
    // More than half: the next segment is requested, and there is no space for it.
    append_each(&wal, 0..12, |_| vec![1; 200]);
    disk.set_full(false);
    append_each(&wal, 12..40, |_| vec![1; 200]);
    assert!(wal.stats().segments > 1);
}

#[test]
fn a_callback_that_panics_ends_the_log_and_no_caller_waits_for_ever() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let order = Order::default();
    disk.hold_syncs();
    wal.append(vec![record(0, "")], order.done(0));
    disk.wait_for_held_sync();
    // The next two calls form one batch.
    wal.append(
        vec![record(1, "")],
        Box::new(|_| panic!("planted, the output is expected")),
    );
    let (done, answered) = answer();
    wal.append(vec![record(2, "")], done);
    disk.release_syncs();
    answered.recv_timeout(DEADLINE).unwrap().unwrap();
    eventually("it is noticed", || wal.failed().is_some());
    assert_eq!(wal.failed().unwrap().step, FailedStep::Panic);
    assert!(wait(|done| wal.append(vec![record(3, "")], done)).is_err());
    assert!(wal.close().is_err());
}

#[test]
fn an_idle_log_writes_one_witness_and_falls_silent() {
    let disk = disk();
    let quick = WalOptions {
        witness_after: Duration::from_millis(5),
        ..options(&disk)
    };
    let (wal, _) = Wal::open(quick).unwrap();
    disk.hold_syncs();
    let (done, answered) = answer();
    wal.append(vec![record(0, "a")], done);
    disk.wait_for_held_sync();
    // Before the log is idle, and too late for the entry's own batch.
    wal.save_committed(b"mark".to_vec());
    disk.release_syncs();
    answered.recv_timeout(DEADLINE).unwrap().unwrap();
    eventually("a witness", || wal.stats().witnesses == 1);
    assert_eq!(
        open(&disk.lost()).1.committed.as_deref(),
        Some(&b"mark"[..])
    );
    append(&wal, 1, "b");
    eventually("another", || wal.stats().witnesses == 2);
    // A close waits for the writer, and writes a witness only if the last batch is not one.
    wal.close().unwrap();
    assert_eq!(wal.stats().batches, 4, "two entries, two witnesses");
}

#[test]
fn a_log_that_was_killed_gets_its_witness_at_the_next_start() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, 0, "a");
    let image = disk.kept();
    let quick = WalOptions {
        witness_after: Duration::from_millis(5),
        ..options(&image)
    };
    let (again, _) = Wal::open(quick.clone()).unwrap();
    again.accept();
    eventually("a witness", || again.stats().witnesses == 1);
    again.close().unwrap();
    let (third, _) = Wal::open(quick).unwrap();
    third.accept();
    third.close().unwrap();
    assert_eq!(
        third.stats().batches,
        0,
        "the last batch is a witness already"
    );
}

#[test]
fn the_vote_survives_a_purge_of_everything_before_it() {
    let disk = disk();
    let (wal, _) = open(&disk);
    wait(|done| wal.save_vote(b"vote".to_vec(), done)).unwrap();
    append_each(&wal, 0..100, |index| vec![index as u8; 200]);
    wait(|done| wal.purge(99, b"meta".to_vec(), done)).unwrap();
    eventually("the old segments are gone", || {
        files(&disk)
            .iter()
            .filter(|name| name.ends_with(".seg"))
            .count()
            == 1
    });
    wal.close().unwrap();
    let (wal, recovered) = open(&disk.lost());
    let vote = recovered.vote.as_deref();
    assert_eq!(vote, Some(&b"vote"[..]), "the vote was lost with a purge");
    assert_eq!(recovered.purged, Some((99, b"meta".to_vec())));
    assert_eq!((recovered.first_index, recovered.last), (100, None));
    assert_eq!(wal.stats().segments, 1);
    append(&wal, 100, "goes on");
}

#[test]
fn a_purge_drops_no_segment_that_a_queued_truncation_still_needs() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append_each(&wal, 0..60, |index| vec![index as u8; 200]);
    // The purge is synced while the truncation, which empties the log, is not.
    disk.hold_syncs();
    let order = Order::default();
    wal.purge(9, Vec::new(), order.done(1));
    disk.wait_for_held_sync();
    wal.truncate_after(Some(9), order.done(2));
    disk.release_one_sync();
    order.wait_for(1);
    disk.wait_for_held_sync();
    let (_, recovered) = open(&disk.lost());
    assert_eq!((recovered.first_index, recovered.last.unwrap().0), (10, 59));
    disk.release_syncs();
    order.wait_for(2);
}

#[test]
fn a_purge_beyond_the_end_moves_the_log_there() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, 0, "a");
    wait(|done| wal.purge(100, b"m".to_vec(), done)).unwrap();
    assert_eq!(
        (wal.first_index(), wal.next_index(), wal.synced_index()),
        (101, 101, Some(100))
    );
    // Older and equal purges change nothing.
    wait(|done| wal.purge(50, b"old".to_vec(), done)).unwrap();
    wait(|done| wal.truncate_after(Some(20), done)).unwrap();
    append(&wal, 101, "b");
    let (wal, recovered) = open(&disk.kept());
    assert_eq!(recovered.purged, Some((100, b"m".to_vec())));
    assert_eq!(entries(&wal), [(101, b"b".to_vec())]);
}

#[test]
fn a_batch_larger_than_a_segment_gets_a_longer_one() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, 0, "small");
    append(&wal, 1, vec![7; 50_000]);
    append(&wal, 2, "small again");
    assert_eq!(wal.read(1..2, 0).unwrap(), [record(1, vec![7; 50_000])]);
    let (wal, recovered) = open(&disk.kept());
    assert_eq!(recovered.last, Some((2, b"small again".to_vec())));
    assert_eq!(wal.read(1..2, 0).unwrap()[0].bytes.len(), 50_000);
    // Zeros that are never copied take no memory.
    let bytes = vec![0; (1 << 30) + 1];
    let too_much = vec![Record { index: 3, bytes }];
    let answer = wait(|done| wal.append(too_much, done));
    assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_full_queue_makes_callers_wait() {
    let disk = disk();
    let bounded = WalOptions {
        max_queue_bytes: 1000,
        ..options(&disk)
    };
    let (wal, _) = Wal::open(bounded).unwrap();
    disk.hold_syncs();
    let order = Order::default();
    wal.append(vec![record(0, [0; 2000])], order.done(0));
    disk.wait_for_held_sync();
    let (second, from) = (wal.clone(), order.clone());
    let (begins, begun) = mpsc::channel();
    let caller = thread::spawn(move || {
        begins.send(()).unwrap();
        second.append(vec![record(1, "waits")], from.done(1));
    });
    begun.recv_timeout(DEADLINE).unwrap();
    // Only a call that does not wait would end within this time.
    thread::sleep(Duration::from_millis(100));
    assert!(!caller.is_finished());
    disk.release_syncs();
    caller.join().unwrap();
    order.wait_for(2);
    assert_eq!(wal.next_index(), 2);
}

#[test]
fn a_closed_log_refuses_calls_and_still_reads() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let order = Order::default();
    for index in 0..10 {
        wal.append(vec![record(index, "x")], order.done(index as u32));
    }
    wal.close().unwrap();
    assert_eq!(order.seen().len(), 10, "the queue is written first");
    assert_eq!(entries(&wal).len(), 10);
    let answer = wait(|done| wal.append(vec![record(10, "x")], done));
    assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    wal.close().unwrap();
}

#[test]
fn the_last_clone_closes_the_log_even_from_a_callback() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let inside = wal.clone();
    let (done, answered) = answer();
    wal.append(
        vec![record(0, "x")],
        Box::new(move |result| {
            drop(inside);
            done(result);
        }),
    );
    drop(wal);
    answered.recv_timeout(DEADLINE).unwrap().unwrap();
    assert_eq!(open(&disk.kept()).0.next_index(), 1);
}

#[test]
fn counters_report_the_operations() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let before = disk.count(Call::SyncData);
    append_each(&wal, 0..40, |_| vec![0; 200]);
    let stats = wal.stats();
    assert_eq!(
        (stats.batches, stats.records, stats.queued_bytes),
        (40, 40, 0)
    );
    assert_eq!(stats.fsyncs, disk.count(Call::SyncData) - before);
    assert_eq!(stats.sync_buckets.iter().sum::<u64>(), 40);
    assert_eq!(stats.disk_bytes, stats.segments * 4096);
    assert!(stats.segments >= 2 && stats.bytes > 40 * 200);
}
