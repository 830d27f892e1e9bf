//! The properties of a layout: its remainders, the numbers that it shares with others, and the
//! published rules of the systems after which the presets are named.

use seqd_idgen::{FirstSequence, Layout, LayoutSpec, SnowflakeId, Tick, WallMs, WorkerId};

/// 2026-11-21T00:00:00Z.
const NOW: WallMs = WallMs(1_795_219_200_000);

fn of(name: &str) -> Layout {
    Layout::preset(name).unwrap()
}

fn spread(name: &str) -> Layout {
    Layout::new(LayoutSpec {
        first_sequence: FirstSequence::Spread,
        ..of(name).spec().clone()
    })
    .unwrap()
}

#[test]
fn remainders_show_the_shards_that_stay_empty() {
    let fixed = of("default").remainders(20, 16).unwrap();
    assert!(fixed.used <= 2 && fixed.least == 0, "{fixed:?}");
    for (rate, modulus) in [(20, 16), (20, 1000), (2000, 64), (1_000_000, 10)] {
        let counted = spread("default").remainders(rate, modulus).unwrap();
        // A request counts them: more would occupy a thread of the node for milliseconds.
        let ids = (100 * u64::from(modulus)).min(12_288);
        assert_eq!((counted.used, counted.ids), (modulus, ids));
        // Six standard deviations of the count of one remainder.
        let mean = ids as f64 / f64::from(modulus);
        let (least, most) = (mean - 6.0 * mean.sqrt(), mean + 6.0 * mean.sqrt());
        assert!(
            counted.least as f64 >= least && counted.most as f64 <= most,
            "{rate}: {counted:?}"
        );
        assert_eq!(
            spread("default").remainders(rate, modulus),
            Some(counted),
            "again"
        );
    }
    for (rate, modulus) in [(0, 16), (20, 0), (20, Layout::MAX_MODULUS + 1)] {
        assert_eq!(of("default").remainders(rate, modulus), None);
    }
    // Its 64 ticks of a second end before enough IDs are minted.
    let short = Layout::new(LayoutSpec {
        tick_ms: 1000,
        time_bits: 6,
        ..of("default").spec().clone()
    });
    assert_eq!(short.unwrap().remainders(1, 100), None);
}

#[test]
fn layouts_share_the_numbers_that_both_can_emit_from_now_on() {
    let (default, twitter, js53) = (of("default"), of("twitter"), of("js53"));
    let shared = default.shared_numbers(&twitter, NOW).unwrap();
    // The numbers of Twitter are ahead because of its older epoch; default reaches them later.
    let first = twitter.tick_at(NOW).unwrap().0 << 22;
    assert_eq!((*shared.start(), *shared.end()), (first, i64::MAX as u64));
    assert_eq!(twitter.shared_numbers(&default, NOW), Some(shared));
    // The present numbers of default are above all numbers of js53.
    assert_eq!(default.shared_numbers(&js53, NOW), None);
    assert!(default.shared_numbers(&js53, WallMs(0)).is_some());
    // A full layout emits nothing.
    let full = of("uid-generator");
    assert_eq!(full.shared_numbers(&default, NOW), None);
    assert!(full.shared_numbers(&default, WallMs(0)).is_some());
}

#[test]
fn the_numbers_of_a_tick_are_those_of_its_first_and_last_worker_and_sequence() {
    for layout in Layout::presets() {
        let tick = Tick(layout.max_tick().0 / 3);
        let id = |worker, sequence| layout.pack(tick, WorkerId(worker), sequence).unwrap().get();
        let last = id(layout.workers() - 1, layout.sequences() - 1);
        assert_eq!(
            layout.tick_numbers(tick),
            (id(0, 0), last),
            "{}",
            layout.name()
        );
        assert_eq!(layout.tick_numbers(layout.max_tick()).1, layout.largest());
    }
}

/// Each rule as published by its system: the shifts of the time since its epoch, of the machine and
/// of the sequence.
#[test]
fn presets_follow_the_published_rules_of_their_systems() {
    let at_ms = 1_700_000_000_000_u64;
    let check = |name: &str, tick: u64, worker: u32, sequence: u32, number: u64| {
        let layout = of(name);
        let id = layout.pack(Tick(tick), WorkerId(worker), sequence).unwrap();
        assert_eq!(id, SnowflakeId::from_u64(number), "{name}");
        assert_eq!(layout.tick_at(WallMs(at_ms)), Ok(Tick(tick)), "{name}");
    };
    // Twitter (snowflake, 2010): timestamp - twepoch, shifted by 22; datacenter by 17; worker by
    // 12.
    let twitter = at_ms - 1_288_834_974_657;
    let number = twitter << 22 | 11 << 17 | 26 << 12 | 4095;
    check("twitter", twitter, 11 << 5 | 26, 4095, number);
    // Leaf-snowflake: the same epoch and shifts, with ten bits of worker.
    check("leaf", twitter, 1023, 99, twitter << 22 | 1023 << 12 | 99);
    // uid-generator: seconds since its epoch, shifted by 22 + 13 bits of worker and sequence.
    let seconds = at_ms / 1000 - 1_463_702_400;
    let number = seconds << 35 | 4_194_303 << 13 | 8191;
    check("uid-generator", seconds, 4_194_303, 8191, number);
    // The presets of seqd itself: default and js53.
    let at_ms = 1_795_219_200_000_u64;
    let own = at_ms - 1_767_225_600_000;
    let default = of("default").pack(Tick(own), WorkerId(1023), 1).unwrap();
    assert_eq!(default.get(), own << 22 | 1023 << 12 | 1);
    let js53 = of("js53").pack(Tick(own), WorkerId(31), 1).unwrap();
    assert_eq!(js53.get(), own << 12 | 31 << 7 | 1);
    // Sonyflake: units of 10 ms since its start time, shifted by 8 + 16; sequence by 16; machine.
    let units = (at_ms - 1_735_689_600_000) / 10;
    let sonyflake = of("sonyflake")
        .pack(Tick(units), WorkerId(0xc0a8), 255)
        .unwrap();
    assert_eq!(sonyflake.get(), units << 24 | 255 << 16 | 0xc0a8);
}
