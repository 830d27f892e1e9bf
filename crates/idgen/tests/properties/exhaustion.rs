//! The end of the time field: the last year, day, second and tick yield IDs as usual, and after the
//! end minting is refused. It never yields a negative or a repeated ID.

use seqd_idgen::{
    ClockPolicy, FirstSequence, Generator, Layout, LayoutSpec, Mint, OnRollback, Refusal, Tick,
    TickError, WallMs, WorkerId,
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Returns every preset with each way to begin a tick.
fn layouts() -> Vec<Layout> {
    let firsts = [
        FirstSequence::Zero,
        FirstSequence::RandomBelow(2),
        FirstSequence::Spread,
    ];
    let presets = Layout::presets().into_iter();
    presets
        .flat_map(|preset| {
            firsts.map(|first_sequence| {
                let spec = preset.spec().clone();
                Layout::new(LayoutSpec {
                    first_sequence,
                    ..spec
                })
                .unwrap()
            })
        })
        .collect()
}

/// Returns a generator of the last worker whose window was requested at `now` and lasts a minute.
fn generator(layout: &Layout, now: WallMs) -> Generator {
    let from = layout.tick_at(now).unwrap();
    let fence = layout.fence_at(WallMs(now.0 + 60_000));
    let worker = WorkerId(layout.workers() - 1);
    Generator::new(layout.clone(), worker, from, fence, 1).unwrap()
}

#[test]
fn the_last_year_day_second_and_tick_give_ids_of_their_time() {
    for layout in layouts() {
        let end = layout.exhausted_at().0;
        let tick_ms = u64::from(layout.spec().tick_ms);
        for before_ms in [365 * DAY_MS, DAY_MS, 1000, tick_ms, 1] {
            let now = WallMs(end - before_ms);
            let generator = generator(&layout, now);
            let Mint::Ready(run) = generator.mint(now, layout.sequences()) else {
                panic!("{before_ms} ms before the end of {}", layout.name());
            };
            for id in [run.first().unwrap(), run.last().unwrap()] {
                assert!(i64::try_from(id.get()).is_ok(), "{id} is negative");
                assert_eq!(
                    layout.unpack(id).unwrap().tick,
                    layout.tick_at(now).unwrap()
                );
            }
        }
    }
}

#[test]
fn from_the_end_on_the_layout_is_full_and_stays_so() {
    for layout in layouts() {
        let end = layout.exhausted_at();
        let last = WallMs(end.0 - 1);
        let generator = generator(&layout, last);
        assert_eq!(generator.fence(), Tick(layout.max_tick().0 + 1));
        assert!(matches!(generator.mint(last, 1), Mint::Ready(_)));
        for later_ms in [0, 1, 1000, DAY_MS, 365 * DAY_MS, u64::MAX - end.0] {
            let now = WallMs(end.0 + later_ms);
            assert_eq!(generator.mint(now, 1), Mint::Refused(Refusal::TimeFull));
            assert_eq!(layout.tick_at(now), Err(TickError::TimeFull));
            assert_eq!(layout.fence_at(now), Tick(layout.max_tick().0 + 1));
        }
        // A later fence does not reopen it.
        generator.extend(Tick(u64::MAX));
        assert_eq!(generator.mint(end, 1), Mint::Refused(Refusal::TimeFull));
        assert_eq!(generator.close(), Some(layout.max_tick()));
    }
}

#[test]
fn a_last_tick_that_is_used_up_is_the_end_also_in_logical_time() {
    for layout in layouts() {
        let last = WallMs(layout.exhausted_at().0 - 1);
        for on_rollback in [OnRollback::Refuse, OnRollback::Continue] {
            let generator = generator(&layout, last).with_policy(ClockPolicy {
                on_rollback,
                ..ClockPolicy::default()
            });
            let mut highest = None;
            loop {
                match generator.mint(last, 1000) {
                    Mint::Ready(run) => {
                        assert!(highest < run.first(), "an ID again");
                        highest = run.last();
                    }
                    answer => {
                        assert_eq!(answer, Mint::Refused(Refusal::TimeFull));
                        break;
                    }
                }
            }
            let before = WallMs(last.0.saturating_sub(5000));
            assert!(!matches!(generator.mint(before, 1), Mint::Ready(_)));
        }
    }
}
