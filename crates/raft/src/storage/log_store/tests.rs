//! Reads across the front of the cache, tails that a snapshot covers, and a disk that hangs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use seqd_disk::{OsDisk, Tap, Tapped};
use seqd_wal::WalOptions;

use super::*;
use crate::storage::entry_cache::ENTRIES;
use crate::types;

fn store(dir: &std::path::Path) -> LogStore {
    let (wal, recovered) = Wal::open(WalOptions::new(dir)).unwrap();
    LogStore::new(wal, &recovered, Arc::default()).unwrap()
}

async fn append(log: &mut LogStore, range: std::ops::Range<u64>) -> io::Result<()> {
    let entries = range.map(|index| Entry::new_blank(types::log_id(1, index)));
    log.append(entries.collect::<Vec<_>>(), IOFlushed::noop())
        .await
}

#[tokio::test]
async fn a_read_across_the_front_of_the_cache_has_no_gap() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = store(dir.path());
    let all = ENTRIES as u64 + 5_000;
    append(&mut log, 0..all).await.unwrap();
    let front = log.shared.memory.lock().recent.first().unwrap();
    assert!(front > 0, "the cache has moved on");
    for start in [0, front - 700, front - 1, front] {
        let read = log.try_get_log_entries(start..all).await.unwrap();
        let indexes: Vec<u64> = read.iter().map(Entry::index).collect();
        assert_eq!(indexes, (start..all).collect::<Vec<u64>>());
    }
}

#[tokio::test]
async fn a_snapshot_may_cover_a_tail_of_a_later_term() {
    let dir = tempfile::tempdir().unwrap();
    let (wal, recovered) = Wal::open(WalOptions::new(dir.path())).unwrap();
    let no_floor = Arc::new(AtomicU64::new(u64::MAX));
    let mut log = LogStore::new(wal, &recovered, no_floor).unwrap();
    let tail = (0..=10).map(|index| Entry::new_blank(types::log_id(5, index)));
    log.append(tail.collect::<Vec<_>>(), IOFlushed::noop())
        .await
        .unwrap();
    let vote = types::vote(6, 1, true);
    log.save_vote(&vote).await.unwrap();
    log.purge(types::log_id(4, 50)).await.unwrap();
    assert_eq!(log.last(), Some(types::log_id(4, 50)));
    let synced = log.synced().last_under(&vote);
    assert_eq!(synced, Some(LogIdRecord { term: 4, index: 50 }));
    let next = [Entry::new_blank(types::log_id(6, 51))];
    log.append(next, IOFlushed::noop()).await.unwrap();
    assert_eq!(log.last(), Some(types::log_id(6, 51)));
}

/// Blocks every sync and read while it is held.
#[derive(Default)]
struct Held {
    is_held: Mutex<bool>,
    bell: Condvar,
}

impl Held {
    fn hold(&self, is_held: bool) {
        *self.is_held.lock().unwrap() = is_held;
        self.bell.notify_all();
    }

    fn wait(&self) {
        let held = self.is_held.lock().unwrap();
        drop(self.bell.wait_while(held, |held| *held).unwrap());
    }
}

impl Tap for Held {
    fn sync(&self, _: &Path, below: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        self.wait();
        below()
    }

    fn read(&self, _: &Path, below: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        self.wait();
        below()
    }
}

/// Runs another task on this single thread for a while.
async fn others_go_on() {
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_hung_disk_delays_only_requests_that_wait_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let tap = Arc::new(Held::default());
    let options = WalOptions {
        max_queue_bytes: 4 << 10,
        disk: Arc::new(Tapped {
            disk: Arc::new(OsDisk),
            tap: Arc::clone(&tap),
        }),
        ..WalOptions::new(dir.path())
    };
    let (wal, recovered) = Wal::open(options).unwrap();
    let mut log = LogStore::new(wal.clone(), &recovered, Arc::default()).unwrap();
    append(&mut log, 0..10).await.unwrap();
    log.save_vote(&types::vote(1, 1, true)).await.unwrap();
    tap.hold(true);
    // A failing test must not wait for its own disk forever.
    let (test, watched) = (Arc::new(AtomicBool::new(true)), Arc::clone(&tap));
    let runs = Arc::clone(&test);
    let guard = std::thread::spawn(move || {
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while runs.load(Ordering::Acquire) && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        watched.hold(false);
        runs.load(Ordering::Acquire)
    });
    let mut appending = Box::pin(async {
        for batch in 0..50 {
            append(&mut log, 10 + batch * 10..20 + batch * 10)
                .await
                .unwrap();
        }
    });
    // The writer takes one batch out of the queue, which then fills again.
    let full = async {
        others_go_on().await;
        while wal.has_room() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = &mut appending => panic!("the queue has no end"),
        () = full => {}
    }
    // Entries that are no longer in memory are read from the hanging disk.
    let mut cold = LogStore::new(wal.clone(), &recovered, Arc::default()).unwrap();
    {
        let mut reading = Box::pin(cold.limited_get_log_entries(0, 5));
        tokio::select! {
            _ = &mut reading => panic!("the disk hangs"),
            () = others_go_on() => {}
        }
        tap.hold(false);
        assert_eq!(reading.await.unwrap().len(), 5);
    }
    appending.await;
    test.store(false, Ordering::Release);
    assert!(!guard.join().unwrap(), "it took until the watch ended it");
    assert_eq!(log.last().map(|id| id.index()), Some(509));
}

/// A log whose disk can be made to hang.
fn tapped(dir: &Path) -> (LogStore, Arc<Held>) {
    let tap = Arc::new(Held::default());
    let disk = Arc::new(Tapped {
        disk: Arc::new(OsDisk),
        tap: Arc::clone(&tap),
    });
    let options = WalOptions {
        disk,
        ..WalOptions::new(dir)
    };
    let (wal, recovered) = Wal::open(options).unwrap();
    let log = LogStore::new(wal, &recovered, Arc::default()).unwrap();
    (log, tap)
}

#[tokio::test]
async fn a_vote_is_given_only_once_it_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, tap) = tapped(dir.path());
    let vote = types::vote(1, 1, false);
    let promised = log.promised();
    let mut registered = 0;
    tap.hold(true);
    let is_early = {
        let mut saving = Box::pin(log.save_vote(&vote));
        tokio::select! {
            biased;
            saved = &mut saving => Some(saved),
            () = others_go_on() => {
                registered = promised.term();
                tap.hold(false);
                saving.await.unwrap();
                None
            }
        }
    };
    tap.hold(false);
    assert!(is_early.is_none(), "a vote was given before it was synced");
    assert_eq!(registered, 1, "a vote is stored before it is registered");
    assert_eq!(log.vote(), Some(vote));
}

#[tokio::test]
async fn entries_count_as_synced_only_once_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, tap) = tapped(dir.path());
    let vote = types::vote(1, 1, true);
    log.save_vote(&vote).await.unwrap();
    tap.hold(true);
    append(&mut log, 0..3).await.unwrap();
    others_go_on().await;
    let early = log.synced().last_under(&vote);
    tap.hold(false);
    assert_eq!(
        early, None,
        "entries were acknowledged before they were synced"
    );
    // Writes queued after the entries are synced with them, or later.
    log.save_vote(&vote).await.unwrap();
    let synced = log.synced().last_under(&vote);
    assert_eq!(synced, Some(LogIdRecord { term: 1, index: 2 }));
}

#[tokio::test]
async fn a_purge_stops_at_the_older_kept_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let (wal, recovered) = Wal::open(WalOptions::new(dir.path())).unwrap();
    let floor = Arc::new(AtomicU64::new(0));
    let mut log = LogStore::new(wal, &recovered, Arc::clone(&floor)).unwrap();
    append(&mut log, 0..20).await.unwrap();
    for (older, upto, purged) in [(0, 5, None), (7, 15, Some(7)), (12, 9, Some(9))] {
        floor.store(older, Ordering::Release);
        log.purge(types::log_id(1, upto)).await.unwrap();
        let state = log.get_log_state().await.unwrap();
        let found = state.last_purged_log_id.map(|id| id.index());
        assert!(
            found.is_none_or(|found| found <= older),
            "purged up to {found:?}, past the older kept snapshot at {older}"
        );
        assert_eq!(found, purged);
    }
}

#[tokio::test]
async fn an_entry_that_does_not_follow_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = store(dir.path());
    append(&mut log, 0..3).await.unwrap();
    assert!(append(&mut log, 4..5).await.is_err());
    assert_eq!(log.last().map(|id| id.index()), Some(2));
}

#[tokio::test]
async fn the_voters_in_force_are_those_of_the_last_membership_of_the_term() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = store(dir.path());
    let promised = log.promised();
    append(&mut log, 0..2).await.unwrap();
    let voters = BTreeSet::from([1, 2, 3]);
    let nodes = voters.iter().map(|id| (*id, types::Member::default()));
    let membership =
        types::Membership::new(vec![voters.clone()], nodes.collect::<BTreeMap<_, _>>());
    let change = Entry::new_membership(types::log_id(1, 2), membership.unwrap());
    log.append([change], IOFlushed::noop()).await.unwrap();
    append(&mut log, 3..5).await.unwrap();
    let in_force = Some(vec![voters.clone()]);
    assert_eq!(promised.voters_of(1, Some(1)), in_force);
    assert_eq!(promised.voters_of(1, None), in_force);
    assert_eq!(promised.voters_of(1, Some(2)), None, "applied");
    // A snapshot of another leader may replace the entry, so that this node never applies it.
    let earlier = promised.voters_of(2, Some(1));
    assert_eq!(earlier, None, "voters of an earlier term are in force");
    for (position, found) in [(None, true), (Some(1), true), (Some(2), false)] {
        let position = position.map(|index| types::log_id(1, index));
        let in_log = log.voters_after(position).await.unwrap();
        assert_eq!(
            in_log,
            found.then(|| voters.clone()),
            "a start after {position:?}"
        );
    }
}
