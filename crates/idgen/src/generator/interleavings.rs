//! Tests every interleaving of two threads on one generator with loom: mint with mint, close and
//! extend.

use std::collections::BTreeSet;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::cursor::{Cursor, Rules};
use super::{Mint, Refusal};
use crate::layout::{FieldOrder, FirstSequence, Layout, LayoutSpec, WorkerId};
use crate::policy::ClockPolicy;
use crate::time::{Tick, WallMs};

/// Four IDs per tick of one millisecond and epoch 0, so that the tick equals the reading.
fn cursor(from: u64, fence: u64) -> Arc<Cursor<AtomicU64>> {
    cursor_of(FirstSequence::Zero, from, fence)
}

fn cursor_of(first_sequence: FirstSequence, from: u64, fence: u64) -> Arc<Cursor<AtomicU64>> {
    let layout = Layout::new(LayoutSpec {
        name: "small".to_owned(),
        epoch_ms: 0,
        tick_ms: 1,
        time_bits: 8,
        datacenter_bits: 0,
        worker_bits: 1,
        sequence_bits: 2,
        order: FieldOrder::TickWorkerSequence,
        first_sequence,
    })
    .unwrap();
    let rules = Rules::new(&layout, WorkerId(1), Tick(from), 0, ClockPolicy::default());
    Arc::new(Cursor::new(rules, Tick(fence)))
}

/// Returns the slots as (tick, sequence) in the order in which this thread received them.
fn mint(cursor: &Cursor<AtomicU64>, readings: &[(u64, u32)]) -> Vec<(u64, u32)> {
    let mut slots = Vec::new();
    for (now, count) in readings {
        if let Mint::Ready(run) = cursor.mint(WallMs(*now), *count) {
            let sequences = run.first_sequence..run.first_sequence + run.count;
            slots.extend(sequences.map(|sequence| (run.tick.0, sequence)));
        }
    }
    slots
}

fn assert_distinct_and_ordered(a: &[(u64, u32)], b: &[(u64, u32)]) {
    for slots in [a, b] {
        assert!(slots.is_sorted_by(|x, y| x < y), "out of order: {slots:?}");
    }
    let all: BTreeSet<_> = a.iter().chain(b).collect();
    assert_eq!(all.len(), a.len() + b.len(), "a slot twice: {a:?} {b:?}");
}

#[test]
fn two_threads_that_mint_never_get_the_same_slot() {
    // Batches of several sizes, across the end of a tick, with one clock ahead of the other.
    let scripts: [[&[(u64, u32)]; 2]; 4] = [
        [&[(5, 1), (5, 1)], &[(5, 1), (5, 1)]],
        [&[(5, 3), (6, 1)], &[(5, 2), (6, 4)]],
        [&[(7, 1), (6, 1)], &[(6, 1), (7, 1)]],
        [&[(5, 4), (5, 1)], &[(6, 4), (5, 2)]],
    ];
    for first_sequence in [FirstSequence::Zero, FirstSequence::Spread] {
        for [left, right] in scripts {
            loom::model(move || {
                let cursor = cursor_of(first_sequence, 5, 100);
                let other = Arc::clone(&cursor);
                let thread = thread::spawn(move || mint(&other, right));
                let ours = mint(&cursor, left);
                assert_distinct_and_ordered(&ours, &thread.join().unwrap());
            });
        }
    }
}

#[test]
fn close_returns_the_last_tick_that_any_thread_got() {
    loom::model(|| {
        let cursor = cursor(5, 100);
        let other = Arc::clone(&cursor);
        let thread = thread::spawn(move || mint(&other, &[(6, 2), (9, 1)]));
        let last = cursor.close();
        let later = cursor.mint(WallMs(20), 1);
        let closed = Mint::Refused(Refusal::Closed);
        assert_eq!(later, closed, "minted after it was closed");
        let theirs = thread.join().unwrap();
        assert_eq!(theirs.last().map(|slot| Tick(slot.0)), last);
        assert_eq!(cursor.close(), last, "a second close says the same");
    });
}

#[test]
fn close_by_two_threads_agrees() {
    loom::model(|| {
        let cursor = cursor(5, 100);
        let other = Arc::clone(&cursor);
        let thread = thread::spawn(move || {
            let slots = mint(&other, &[(7, 1)]);
            (slots, other.close())
        });
        let last = cursor.close();
        let (theirs, their_last) = thread.join().unwrap();
        assert_eq!(last, their_last);
        assert_eq!(theirs.last().map(|slot| Tick(slot.0)), last);
    });
}

#[test]
fn a_mint_that_races_an_extend_stays_below_one_of_the_two_fences() {
    loom::model(|| {
        let cursor = cursor(5, 6);
        let other = Arc::clone(&cursor);
        let thread = thread::spawn(move || {
            other.extend(Tick(8));
            other.extend(Tick(7));
        });
        let early = cursor.mint(WallMs(7), 1);
        let beyond = cursor.mint(WallMs(8), 1);
        thread.join().unwrap();
        assert!(matches!(
            early,
            Mint::Ready(_) | Mint::Refused(Refusal::FenceReached { .. })
        ));
        assert!(
            matches!(beyond, Mint::Refused(Refusal::FenceReached { .. })),
            "{beyond:?}"
        );
        assert_eq!(
            cursor.fence(),
            Tick(8),
            "a delayed lower fence changes nothing"
        );
        assert!(matches!(cursor.mint(WallMs(7), 1), Mint::Ready(_)));
    });
}

#[test]
fn an_extend_does_not_open_a_closed_generator() {
    loom::model(|| {
        let cursor = cursor(5, 6);
        let other = Arc::clone(&cursor);
        let thread = thread::spawn(move || other.extend(Tick(100)));
        let last = cursor.close();
        thread.join().unwrap();
        assert_eq!(last, None);
        assert_eq!(cursor.mint(WallMs(50), 1), Mint::Refused(Refusal::Closed));
        assert_eq!(cursor.last_tick(), None);
    });
}
