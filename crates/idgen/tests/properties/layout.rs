//! Layouts: packing and unpacking, exact refusals, and the numbers of the presets.

use proptest::prelude::*;
use seqd_idgen::{
    FieldOrder, FirstSequence, Layout, LayoutError, LayoutSpec, PackError, Parts, SnowflakeId,
    Tick, TickError, WallMs, WorkerId,
};

use crate::{cases, layout, small_layout};

fn any_spec() -> impl Strategy<Value = LayoutSpec> {
    let order = prop_oneof![
        Just(FieldOrder::TickWorkerSequence),
        Just(FieldOrder::TickSequenceWorker)
    ];
    let tick = prop_oneof![Just(1u32), Just(10), Just(1000)];
    (
        1u8..42,
        0u8..8,
        1u8..12,
        1u8..14,
        order,
        tick,
        0u64..2_000_000_000_000,
    )
        .prop_filter("63 bits", |(time, dc, worker, seq, ..)| {
            time + dc + worker + seq <= 63
        })
        .prop_map(
            |(time_bits, datacenter_bits, worker_bits, sequence_bits, order, tick_ms, epoch_ms)| {
                LayoutSpec {
                    name: "any".to_owned(),
                    epoch_ms,
                    tick_ms,
                    time_bits,
                    datacenter_bits,
                    worker_bits,
                    sequence_bits,
                    order,
                    first_sequence: FirstSequence::Zero,
                }
            },
        )
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn unpack_undoes_pack(spec in any_spec(), raw in any::<[u64; 3]>()) {
        let layout = layout(spec);
        let tick = Tick(raw[0] % (layout.max_tick().0 + 1));
        let worker = WorkerId((raw[1] % u64::from(layout.workers())) as u32);
        let sequence = (raw[2] % u64::from(layout.sequences())) as u32;
        let id = layout.pack(tick, worker, sequence).unwrap();
        prop_assert!(id.get() < 1 << 63, "the sign bit is zero");
        prop_assert_eq!(layout.unpack(id).unwrap(), Parts { tick, worker, sequence });
    }

    #[test]
    fn pack_undoes_unpack_or_the_number_is_refused(spec in any_spec(), number: u64) {
        let layout = layout(spec);
        let number = SnowflakeId::from_u64(number >> (number % 64));
        match layout.unpack(number) {
            Ok(Parts { tick, worker, sequence }) => {
                prop_assert_eq!(layout.pack(tick, worker, sequence), Ok(number));
            }
            Err(error) => {
                prop_assert_eq!(error.bits, layout.bits());
                prop_assert!(number.get() >> layout.bits() != 0);
            }
        }
    }

    #[test]
    fn a_tick_holds_the_times_from_its_start_to_the_next_ones(spec in any_spec(), ms: u64) {
        let layout = layout(spec);
        let at = WallMs(ms % (layout.exhausted_at().0 + 1000));
        match layout.tick_at(at) {
            Ok(tick) => {
                prop_assert!(layout.wall_at(tick) <= at);
                prop_assert!(at < layout.wall_at(Tick(tick.0 + 1)));
                prop_assert_eq!(layout.fence_at(at), Tick(tick.0 + 1));
            }
            Err(TickError::BeforeEpoch) => prop_assert!(at.0 < layout.spec().epoch_ms),
            Err(TickError::TimeFull) => prop_assert!(at >= layout.exhausted_at()),
        }
    }

    #[test]
    fn later_ticks_make_greater_ids(spec in any_spec(), raw in any::<[u64; 2]>()) {
        let layout = layout(spec);
        let workers = layout.workers();
        let (a, b) = (raw[0] % (layout.max_tick().0 + 1), raw[1] % (layout.max_tick().0 + 1));
        let (low, high) = (a.min(b), a.max(b));
        prop_assume!(low < high);
        let last_of_low =
            layout.pack(Tick(low), WorkerId(workers - 1), layout.sequences() - 1).unwrap();
        prop_assert!(last_of_low < layout.pack(Tick(high), WorkerId(0), 0).unwrap());
    }
}

#[test]
fn presets_have_the_numbers_of_their_origins() {
    let names: Vec<_> = Layout::presets()
        .iter()
        .map(|l| l.name().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "default",
            "twitter",
            "leaf",
            "sonyflake",
            "js53",
            "uid-generator"
        ]
    );
    for preset in Layout::presets() {
        assert_eq!(Layout::preset(preset.name()), Some(preset));
    }
    assert_eq!(Layout::preset("Default"), None);
    let figures = |name: &str| {
        let layout = Layout::preset(name).unwrap();
        (
            layout.bits(),
            layout.workers(),
            layout.sequences(),
            layout.exhausted_at().0 / 1000,
        )
    };
    // The last number as a date: 2095-09-07, 2080-07-10, 2080-07-10, 2199-03-19, 2095-09-07,
    // 2024-11-20.
    assert_eq!(figures("default"), (63, 1024, 4096, 3_966_248_855));
    assert_eq!(figures("twitter"), (63, 1024, 4096, 3_487_858_230));
    assert_eq!(figures("leaf"), (63, 1024, 4096, 3_487_858_230));
    assert_eq!(figures("sonyflake"), (63, 65_536, 256, 7_233_247_738));
    assert_eq!(figures("js53"), (53, 32, 128, 3_966_248_855));
    assert_eq!(
        figures("uid-generator"),
        (63, 4_194_304, 8192, 1_732_137_856)
    );
}

#[test]
fn ids_of_other_systems_decode() {
    // The ID of a tweet. X shows its time as 2022-06-28T16:07:40.105Z.
    let twitter = Layout::preset("twitter").unwrap();
    let parts = twitter
        .unpack(SnowflakeId::from_u64(1_541_815_603_606_036_480))
        .unwrap();
    assert_eq!(twitter.wall_at(parts.tick), WallMs(1_656_432_460_105));
    assert_eq!((parts.worker, parts.sequence), (WorkerId(378), 0));
    assert_eq!(twitter.datacenter_of(parts.worker), Some(11));
    assert_eq!(twitter.worker_in_datacenter(parts.worker), 26);
    // Sonyflake puts the machine into the low 16 bits.
    let sonyflake = Layout::preset("sonyflake").unwrap();
    let id = sonyflake.pack(Tick(1), WorkerId(0xabcd), 7).unwrap();
    assert_eq!(id.get(), (1 << 24) | (7 << 16) | 0xabcd);
}

#[test]
fn a_value_that_does_not_fit_is_refused_and_never_masked() {
    let layout = Layout::preset("js53").unwrap();
    let max = layout.max_tick();
    let beyond = Tick(max.0 + 1);
    assert_eq!(
        layout.pack(beyond, WorkerId(0), 0),
        Err(PackError::Tick { tick: beyond, max })
    );
    assert_eq!(
        layout.pack(max, WorkerId(32), 0),
        Err(PackError::Worker {
            worker: WorkerId(32),
            workers: 32
        })
    );
    assert_eq!(
        layout.pack(max, WorkerId(31), 128),
        Err(PackError::Sequence {
            sequence: 128,
            sequences: 128
        })
    );
    let last = layout.pack(max, WorkerId(31), 127).unwrap();
    assert_eq!(last.get(), (1 << 53) - 1);
    assert!(layout.unpack(SnowflakeId::from_u64(1 << 53)).is_err());
    assert!(layout.unpack(SnowflakeId::from_u64(1 << 63)).is_err());
}

#[test]
fn a_bad_definition_is_refused_with_its_reason() {
    let good = small_layout(1, 41, 12);
    let refused = |change: &dyn Fn(&mut LayoutSpec)| {
        let mut spec = good.clone();
        change(&mut spec);
        Layout::new(spec).unwrap_err()
    };
    for name in ["", "-a", "a b", &"a".repeat(129)] {
        let error = refused(&|s| s.name = name.to_owned());
        assert!(matches!(error, LayoutError::Name(_)), "{name}");
    }
    assert_eq!(refused(&|s| s.tick_ms = 100), LayoutError::TickLength(100));
    assert_eq!(refused(&|s| s.worker_bits = 11), LayoutError::TotalBits(64));
    for field in [
        refused(&|s| s.time_bits = 0),
        refused(&|s| s.worker_bits = 0),
        refused(&|s| s.sequence_bits = 0),
        refused(&|s| s.sequence_bits = 32),
        refused(&|s| (s.datacenter_bits, s.worker_bits) = (255, 255)),
    ] {
        assert!(matches!(field, LayoutError::FieldBits { .. }), "{field:?}");
    }
    assert_eq!(
        refused(&|s| s.epoch_ms = i64::MAX as u64),
        LayoutError::EndsTooLate
    );
    for bound in [0, 4097] {
        assert_eq!(
            refused(&|s| s.first_sequence = FirstSequence::RandomBelow(bound)),
            LayoutError::FirstSequence { bound, most: 4096 }
        );
    }
}

#[test]
fn any_layout_may_spread_its_sequences() {
    for sequence_bits in [1, 12, 20] {
        let spec = LayoutSpec {
            first_sequence: FirstSequence::Spread,
            ..small_layout(1, 40, sequence_bits)
        };
        assert!(Layout::new(spec).is_ok());
    }
}

#[test]
fn a_datacenter_owns_the_workers_with_its_upper_bits() {
    let twitter = Layout::preset("twitter").unwrap();
    assert_eq!(
        twitter.workers_of_datacenter(0),
        Some((WorkerId(0), WorkerId(31)))
    );
    assert_eq!(
        twitter.workers_of_datacenter(31),
        Some((WorkerId(992), WorkerId(1023)))
    );
    assert_eq!(twitter.workers_of_datacenter(32), None);
    let default = Layout::preset("default").unwrap();
    assert_eq!(default.datacenter_of(WorkerId(1023)), None);
    assert_eq!(default.worker_in_datacenter(WorkerId(1023)), 1023);
    assert_eq!(default.workers_of_datacenter(0), None);
}
