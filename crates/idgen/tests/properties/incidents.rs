//! Scenarios in which other generators have repeated IDs or failed. They are included although the
//! properties cover them, because each documents a mistake that is easy to make.

use std::collections::BTreeSet;
use std::time::Duration;

use seqd_idgen::{
    ClockGuard, ClockPolicy, ClockVerdict, Generator, Layout, Mint, OnRollback, Refusal, Standing,
    StoredMark, Tick, WallMs, WorkerId,
};

const START_MS: u64 = 1_800_000_000_000;

/// Returns a generator of the default layout whose window begins at `START_MS` and lasts 30 s.
fn generator() -> Generator {
    let layout = Layout::preset("default").unwrap();
    let from = layout.tick_at(WallMs(START_MS)).unwrap();
    Generator::new(layout, WorkerId(3), from, Tick(from.0 + 30_000), 0).unwrap()
}

fn at(ms: i64) -> WallMs {
    WallMs(START_MS.saturating_add_signed(ms))
}

/// Mints at each reading and panics if an ID is repeated.
fn mint_all(generator: &Generator, readings: impl IntoIterator<Item = i64>) -> BTreeSet<u64> {
    let mut ids = BTreeSet::new();
    for reading in readings {
        if let Mint::Ready(run) = generator.mint(at(reading), 3) {
            for id in run.iter() {
                assert!(ids.insert(id.get()), "{id} was minted twice");
            }
        }
    }
    ids
}

#[test]
fn a_sequence_reset_before_the_rollback_check_would_repeat_ids() {
    // Back, a refused request, then forward into the same millisecond.
    let generator = generator();
    let ids = mint_all(&generator, [500, 400, 500, 100, 500, 499, 500]);
    assert_eq!(
        ids.len(),
        12,
        "only the requests in the last millisecond were served"
    );
}

#[test]
fn a_rollback_of_a_few_milliseconds_repeats_nothing() {
    for back in 1..=20 {
        let generator = generator();
        let readings = (0..100).chain(100 - back..200);
        let ids = mint_all(&generator, readings);
        assert_eq!(
            ids.len(),
            3 * 200 + 3,
            "each ms once, and one request again in the last"
        );
    }
}

#[test]
fn a_strobing_clock_repeats_nothing() {
    let generator = generator();
    mint_all(
        &generator,
        (0..2000).map(|step| step + if step % 2 == 0 { 200 } else { -200 }),
    );
}

#[test]
fn a_restart_inside_the_gap_of_reports_with_a_clock_set_back_waits_or_refuses() {
    // A mark that is written only every few seconds lets a small step back pass the check. Here the
    // mark is ahead of the used ticks, so the true last tick is below `ahead`.
    let mark = StoredMark::running(at(1000), at(1000), at(30_000));
    let used_since = at(1240);
    assert!(used_since < mark.ahead);
    for back_ms in [100, 240, 260, 1000, 3000] {
        let mut guard = ClockGuard::new(ClockPolicy::default(), Some(mark));
        let restarted = WallMs(used_since.0 - back_ms);
        match guard.observe(restarted, Duration::ZERO, None, Standing::Unknown) {
            ClockVerdict::Wait { ms } => assert_eq!(WallMs(restarted.0 + ms), mark.ahead),
            ClockVerdict::Behind { until, .. } => assert_eq!(until, mark.ahead),
            served => panic!("{served:?} {back_ms} ms back"),
        }
        assert_eq!(
            guard.observe(
                mark.ahead,
                Duration::from_millis(back_ms),
                None,
                Standing::Unknown
            ),
            ClockVerdict::Good
        );
    }
}

#[test]
fn a_new_holder_in_the_tick_that_the_old_one_used_starts_above_it() {
    let old = generator();
    let ids = mint_all(&old, [0, 7]);
    let last = old.close().unwrap();
    let layout = old.layout().clone();
    let from = Tick(last.0 + 1);
    let new = Generator::new(layout, WorkerId(3), from, Tick(from.0 + 30_000), 0).unwrap();
    assert_eq!(
        new.mint(at(7), 1),
        Mint::Wait { ms: 1 },
        "the same millisecond"
    );
    assert!(mint_all(&new, [7, 8, 9]).is_disjoint(&ids));
}

#[test]
fn a_holder_that_wakes_up_after_its_window_mints_nothing() {
    let generator = generator();
    let fence = generator.fence();
    assert!(matches!(generator.mint(at(29_999), 1), Mint::Ready(_)));
    for pause in [30_000, 31_000, 3_600_000] {
        let answer = generator.mint(at(pause), 1);
        assert_eq!(answer, Mint::Refused(Refusal::FenceReached { fence }));
    }
}

#[test]
fn the_end_of_the_time_field_refuses_and_does_not_wrap_or_go_negative() {
    for layout in Layout::presets() {
        let (max, end) = (layout.max_tick(), layout.exhausted_at());
        let fence = layout.fence_at(WallMs(u64::MAX));
        let last_ms = WallMs(end.0 - 1);
        let generator = Generator::new(layout, WorkerId(0), max, fence, 0).unwrap();
        let mut last = None;
        loop {
            match generator.mint(last_ms, 1000) {
                Mint::Ready(run) => last = run.last(),
                Mint::Refused(Refusal::TimeFull) => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(last.unwrap().get() < 1 << 63);
        for after in [
            end,
            WallMs(end.0 + 1),
            WallMs(end.0 + 1000),
            WallMs(u64::MAX),
        ] {
            assert_eq!(generator.mint(after, 1), Mint::Refused(Refusal::TimeFull));
        }
        assert_eq!(generator.close(), Some(max));
    }
}

#[test]
fn tick_zero_is_a_tick_like_any_other() {
    // If 0 meant "nothing yet", the first ID at the epoch would be repeated after a restart.
    let layout = Layout::preset("default").unwrap();
    let epoch = WallMs(layout.spec().epoch_ms);
    let first = Generator::new(layout.clone(), WorkerId(0), Tick(0), Tick(5), 0).unwrap();
    assert_eq!(first.last_tick(), None);
    assert!(matches!(first.mint(epoch, 1), Mint::Ready(_)));
    assert_eq!(first.last_tick(), Some(Tick(0)));
    assert_eq!(first.close(), Some(Tick(0)));
    let unused = Generator::new(layout, WorkerId(0), Tick(0), Tick(5), 0).unwrap();
    assert_eq!(unused.close(), None, "nothing minted is not tick 0 minted");
}

#[test]
fn a_clock_before_the_epoch_refuses_and_after_minting_is_called_behind() {
    let generator = generator();
    assert_eq!(
        generator.mint(WallMs(0), 1),
        Mint::Refused(Refusal::BeforeEpoch)
    );
    assert!(matches!(generator.mint(at(0), 1), Mint::Ready(_)));
    assert_eq!(
        generator.mint(WallMs(0), 1),
        Mint::Refused(Refusal::ClockBehind {
            by_ms: START_MS,
            until: at(0)
        })
    );
}

#[test]
fn a_clock_20_ms_back_waits_and_10_s_back_refuses_until_it_has_caught_up() {
    let generator = generator();
    assert!(matches!(generator.mint(at(20_000), 1), Mint::Ready(_)));
    assert_eq!(generator.mint(at(19_980), 1), Mint::Wait { ms: 20 });
    assert_eq!(generator.mint(at(19_950), 1), Mint::Wait { ms: 50 });
    for (now, by_ms) in [(19_949, 51), (10_000, 10_000)] {
        assert_eq!(
            generator.mint(at(now), 1),
            Mint::Refused(Refusal::ClockBehind {
                by_ms,
                until: at(20_000)
            })
        );
    }
    assert!(matches!(generator.mint(at(20_000), 1), Mint::Ready(_)));
}

#[test]
fn logical_time_continues_from_the_last_tick_inside_the_window() {
    let policy = ClockPolicy {
        on_rollback: OnRollback::Continue,
        ..ClockPolicy::default()
    };
    let generator = generator().with_policy(policy);
    assert!(matches!(generator.mint(at(29_990), 1), Mint::Ready(_)));
    let mut minted = 0;
    let refused = loop {
        match generator.mint(WallMs(0), 4096) {
            Mint::Ready(run) => minted += run.count,
            other => break other,
        }
    };
    assert_eq!(minted, 10 * 4096 - 1, "all that was left of ten ticks");
    let fence = generator.fence();
    assert_eq!(refused, Mint::Refused(Refusal::FenceReached { fence }));
}
