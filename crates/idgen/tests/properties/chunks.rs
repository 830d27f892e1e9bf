//! Chunks: several users of one generator, each with its own chunk, under a clock that moves in
//! both directions.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;
use seqd_idgen::{
    Chunked, ClockPolicy, Generator, Layout, LayoutSpec, MintOne, OnRollback, Refusal, SnowflakeId,
    Tick, WallMs, WorkerId,
};

use crate::{cases, layout, small_layout};

const CHUNK: NonZeroU32 = NonZeroU32::new(5).unwrap();

/// A request of one of three users, this many milliseconds after or before the previous one.
fn step() -> impl Strategy<Value = (usize, i64)> {
    let by_ms = prop_oneof![6 => Just(0i64), 3 => 0i64..4, 1 => -60i64..60];
    (0usize..3, by_ms)
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn no_script_gives_an_id_twice_or_against_the_order(
        steps in proptest::collection::vec(step(), 1..400),
        goes_on in any::<bool>(),
        tick_ms in prop_oneof![Just(1u32), Just(10)],
    ) {
        let layout = layout(small_layout(tick_ms, 12, 4));
        let start = layout.wall_at(Tick(50)).0;
        let on_rollback = if goes_on { OnRollback::Continue } else { OnRollback::Refuse };
        let policy = ClockPolicy { on_rollback, ..ClockPolicy::default() };
        let generator = Generator::new(layout.clone(), WorkerId(1), Tick(50), Tick(4000), 0)
            .unwrap()
            .with_policy(policy);
        let mut hands = [(); 3].map(|()| (Chunked::new(&generator, CHUNK), None::<SnowflakeId>));
        let (mut now, mut ids) = (start, BTreeSet::new());
        for (hand, by_ms) in steps {
            now = now.saturating_add_signed(by_ms).max(start);
            let (chunked, last) = &mut hands[hand];
            let MintOne::Ready(id) = chunked.mint(WallMs(now)) else { continue };
            prop_assert!(ids.insert(id), "{} twice", id);
            prop_assert!(*last < Some(id), "{} after {:?}", id, last);
            *last = Some(id);
            let tick = layout.unpack(id).unwrap().tick;
            if on_rollback == OnRollback::Refuse {
                prop_assert_eq!(tick, layout.tick_at(WallMs(now)).unwrap());
            }
            prop_assert!(Some(tick) <= generator.last_tick());
        }
    }
}

#[test]
fn the_rest_of_a_chunk_is_dropped_at_the_next_tick_and_kept_while_the_clock_is_behind() {
    let layout = layout(small_layout(1, 12, 4));
    let generator = Generator::new(layout.clone(), WorkerId(1), Tick(5), Tick(99), 0).unwrap();
    let mut chunked = Chunked::new(&generator, CHUNK);
    let at = |tick| layout.wall_at(Tick(tick));
    let id =
        |tick, sequence| MintOne::Ready(layout.pack(Tick(tick), WorkerId(1), sequence).unwrap());
    assert_eq!(chunked.mint(at(7)), id(7, 0));
    assert_eq!(chunked.mint(at(6)), MintOne::Wait { ms: 1 });
    assert_eq!(chunked.mint(at(7)), id(7, 1));
    assert_eq!(chunked.mint(at(8)), id(8, 0));
}

#[test]
fn unused_ids_of_a_chunk_are_at_or_below_the_tick_that_a_close_returns() {
    let layout = layout(small_layout(1, 12, 4));
    let generator = Generator::new(layout.clone(), WorkerId(1), Tick(5), Tick(99), 0).unwrap();
    let mut chunked = Chunked::new(&generator, CHUNK);
    let now = layout.wall_at(Tick(9));
    assert!(matches!(chunked.mint(now), MintOne::Ready(_)));
    assert_eq!(generator.close(), Some(Tick(9)));
    for _ in 1..5 {
        assert!(matches!(chunked.mint(now), MintOne::Ready(_)));
    }
    assert_eq!(chunked.mint(now), MintOne::Refused(Refusal::Closed));
}

#[test]
fn threads_with_chunks_never_share_an_id() {
    const START_MS: u64 = 1_800_000_000_000;
    let default = Layout::preset("default").unwrap();
    let layout = Layout::new(LayoutSpec {
        worker_bits: 4,
        sequence_bits: 18,
        ..default.spec().clone()
    })
    .unwrap();
    let from = layout.tick_at(WallMs(START_MS)).unwrap();
    let fence = Tick(from.0 + 30_000);
    let generator = Generator::new(layout, WorkerId(9), from, fence, 0).unwrap();
    let readings = AtomicU64::new(0);
    let work = || {
        let mut chunked = Chunked::new(&generator, NonZeroU32::new(100).unwrap());
        let mut ids = Vec::new();
        while ids.len() < 50_000 {
            let reading = readings.fetch_add(1, Ordering::Relaxed);
            if let MintOne::Ready(id) = chunked.mint(WallMs(START_MS + reading / 1000)) {
                ids.push(id.get());
            }
        }
        ids
    };
    let all = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let ids = threads.into_iter().map(|thread| thread.join().unwrap());
        ids.collect::<Vec<_>>()
    });
    for ids in &all {
        assert!(ids.is_sorted_by(|a, b| a < b), "each thread's IDs increase");
    }
    let distinct: BTreeSet<_> = all.iter().flatten().collect();
    assert_eq!(distinct.len(), 200_000);
}
