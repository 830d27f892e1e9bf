//! Draws of one thread, of several threads, and of every interleaving of two.

use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use super::*;

fn values(first: i64, count: u64) -> Values {
    Values {
        first,
        increment: 1,
        count,
    }
}

fn all(draw: &Draw) -> impl Iterator<Item = i64> {
    let values = draw.values;
    (0..values.count).map(move |offset| values.at(offset))
}

#[test]
fn a_lane_draws_each_value_once_and_reports_the_offset_of_the_refill_once() {
    let lane: Lane<AtomicU64> = Lane::new();
    assert_eq!(lane.draw(1), None);
    assert_eq!(lane.install(values(10, 5), 2, 0), 0);
    let draws: Vec<Draw> = std::iter::from_fn(|| lane.draw(2)).collect();
    let drawn: Vec<i64> = draws.iter().flat_map(all).collect();
    assert_eq!(drawn, [10, 11, 12, 13, 14]);
    let due: Vec<bool> = draws.iter().map(|draw| draw.is_due).collect();
    assert_eq!(due, [false, true, false]);
    assert_eq!((lane.drawn(5), lane.install(Values::NONE, 0, 5)), (5, 5));
    assert_eq!(lane.draw(1), None);
}

#[test]
fn draws_from_an_empty_segment_do_not_move_its_end() {
    let lane: Lane<AtomicU64> = Lane::new();
    lane.install(values(1, 2), 0, 0);
    assert_eq!(
        [lane.draw_one(), lane.draw_one()],
        [Some((1, true)), Some((2, false))]
    );
    for _ in 0..10 {
        assert_eq!(lane.draw_one(), None);
        lane.settle(2);
        assert_eq!(lane.word.load(Relaxed), 1 << OFFSET_BITS | 2);
    }
    lane.install(values(3, 2), 0, 2);
    lane.settle(2);
    assert_eq!(lane.draw_one(), Some((3, true)));
}

#[test]
fn the_ends_of_the_range_of_values_are_exact() {
    let whole = Values {
        first: i64::MIN,
        increment: i64::MAX,
        count: 3,
    };
    assert_eq!(
        (whole.at(1), whole.at(2), whole.last()),
        (-1, i64::MAX - 1, i64::MAX - 1)
    );
    let down = Values {
        first: 5,
        increment: -5,
        count: 3,
    };
    assert_eq!(
        down.part(1, 9),
        Values {
            first: 0,
            count: 2,
            ..down
        }
    );
}

proptest! {
    #[test]
    fn draws_are_the_values_of_the_segments_in_order(
        segments in prop::collection::vec(1_u64..50, 1..20),
        draws in prop::collection::vec(1_u32..20, 1..200),
    ) {
        let lane: Lane<AtomicU64> = Lane::new();
        let (mut segments, mut expected, mut end) = (segments.into_iter(), 1_i64, 1_i64);
        let mut installed = 0;
        for count in draws {
            let Some(draw) = lane.draw(count) else {
                prop_assert_eq!(expected, end);
                let Some(size) = segments.next() else { break };
                prop_assert_eq!(lane.install(values(end, size), 0, installed), installed);
                installed = size;
                end += size.cast_signed();
                continue;
            };
            for value in all(&draw) {
                prop_assert_eq!(value, expected);
                expected += 1;
            }
        }
    }
}

#[test]
fn threads_share_small_segments_without_a_repeat() {
    let lane: Lane<AtomicU64> = Lane::new();
    let drawn = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for count in [1, 3, 1] {
            let lane = &lane;
            threads.push(scope.spawn(move || {
                let mut drawn = Vec::new();
                while drawn.last().is_none_or(|last| *last < 200_000) {
                    if count == 1
                        && let Some((value, _)) = lane.draw_one()
                    {
                        drawn.push(value);
                    }
                    match lane.draw(count) {
                        Some(draw) => drawn.extend(all(&draw)),
                        None => std::thread::yield_now(),
                    }
                }
                drawn
            }));
        }
        let (mut next, mut former) = (1, 0);
        while !threads
            .iter()
            .all(std::thread::ScopedJoinHandle::is_finished)
        {
            lane.settle(former);
            if lane.drawn(former) < former {
                std::thread::yield_now();
                continue;
            }
            lane.install(values(next, 7), 0, former);
            (next, former) = (next + 7, 7);
        }
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    assert!(
        drawn
            .iter()
            .all(|values| values.is_sorted_by(|one, next| one < next))
    );
    let mut all: Vec<i64> = drawn.into_iter().flatten().collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}

/// Two draws while a segment is used up and its successors are installed.
#[test]
fn no_interleaving_of_draws_and_installs_repeats_a_value() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let lane: loom::sync::Arc<Lane<loom::sync::atomic::AtomicU64>> =
            loom::sync::Arc::new(Lane::new());
        lane.install(values(1, 2), 0, 0);
        let other = loom::sync::Arc::clone(&lane);
        let thread = loom::thread::spawn(move || {
            let mut drawn: Vec<i64> = other.draw(1).iter().flat_map(all).collect();
            drawn.extend(other.draw_one().map(|(value, _)| value));
            drawn
        });
        let mut drawn: Vec<i64> = Vec::new();
        let mut former = 2;
        // Enough segments to reuse the slot of the first one.
        for first in [11, 21, 31, 41, 51] {
            drawn.extend(lane.draw(1).iter().flat_map(all));
            let taken = lane.install(values(first, 1), 0, former);
            assert!(taken <= former);
            former = 1;
        }
        let others = thread.join().unwrap();
        for values in [&drawn, &others] {
            assert!(values.is_sorted_by(|one, next| one < next), "{values:?}");
        }
        assert!(
            others.iter().all(|value| !drawn.contains(value)),
            "{drawn:?} {others:?}"
        );
        for value in drawn.iter().chain(&others) {
            assert!(
                [1, 2, 11, 21, 31, 41, 51].contains(value),
                "{value} was never granted"
            );
        }
    });
}

/// A draw while the end of a used-up segment is restored.
#[test]
fn no_interleaving_of_draws_and_a_settled_end_repeats_a_value() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let lane: loom::sync::Arc<Lane<loom::sync::atomic::AtomicU64>> =
            loom::sync::Arc::new(Lane::new());
        lane.install(values(1, 1), 0, 0);
        let other = loom::sync::Arc::clone(&lane);
        let thread = loom::thread::spawn(move || [other.draw_one(), other.draw_one()]);
        let own = lane.draw_one();
        lane.settle(1);
        let others = thread.join().unwrap();
        let drawn: Vec<i64> = [own, others[0], others[1]]
            .iter()
            .flatten()
            .map(|one| one.0)
            .collect();
        assert_eq!(drawn, [1]);
    });
}
