//! The distribution of IDs over shards by remainder: 100,000 IDs at a low and at a medium rate,
//! tested with Pearson's chi-square test, and the cost of spreading for a worker at its limit.

use seqd_idgen::{
    FirstSequence, Generator, Layout, LayoutSpec, Mint, SnowflakeId, Tick, WallMs, WorkerId,
};

const START_MS: u64 = 1_800_000_000_000;

const IDS: usize = 100_000;

/// Numbers of shards, each with the chi-square value that one in a thousand fair draws exceeds.
const SHARDS: [(u64, f64); 5] = [
    (2, 10.83),
    (10, 27.88),
    (16, 37.70),
    (64, 103.44),
    (1000, 1142.85),
];

/// SplitMix64.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn layout(first_sequence: FirstSequence) -> Layout {
    let default = Layout::preset("default").unwrap();
    Layout::new(LayoutSpec {
        name: "shards".to_owned(),
        first_sequence,
        ..default.spec().clone()
    })
    .unwrap()
}

fn generator(layout: &Layout, seed: u64) -> Generator {
    let from = layout.tick_at(WallMs(START_MS)).unwrap();
    Generator::new(layout.clone(), WorkerId(3), from, layout.max_tick(), seed).unwrap()
}

/// Returns IDs requested one by one, `rate` per second on average, at times drawn with `seed`.
fn ids_at(rate: u64, first_sequence: FirstSequence, seed: u64) -> Vec<SnowflakeId> {
    let layout = layout(first_sequence);
    let generator = generator(&layout, seed);
    let mut draws = Draws(seed);
    let mut now_us = START_MS * 1000;
    let mut ids = Vec::with_capacity(IDS);
    while ids.len() < IDS {
        now_us += draws.below(2_000_000 / rate);
        match generator.mint(WallMs(now_us / 1000), 1) {
            Mint::Ready(run) => ids.extend(run.iter()),
            Mint::Wait { ms } => now_us = (now_us / 1000 + ms) * 1000,
            refused => panic!("{refused:?}"),
        }
    }
    ids
}

/// Returns Pearson's sum of squares over the remainders of `shards`.
fn chi_square(ids: &[SnowflakeId], shards: u64) -> f64 {
    let mut counts = vec![0_u32; shards as usize];
    for id in ids {
        counts[(id.get() % shards) as usize] += 1;
    }
    let expected = ids.len() as f64 / shards as f64;
    let squares = counts.iter().map(|count| {
        let off = f64::from(*count) - expected;
        off * off / expected
    });
    squares.sum()
}

/// Returns the chi-square of each number of shards, and whether it is below the critical value.
fn judge(rate: u64, first_sequence: FirstSequence, seed: u64) -> Vec<(u64, f64, bool)> {
    let ids = ids_at(rate, first_sequence, seed);
    let judged = SHARDS.map(|(shards, critical)| {
        let sum = chi_square(&ids, shards);
        (shards, sum, sum < critical)
    });
    println!("{first_sequence:?}, {rate}/s, seed {seed}: {judged:?}");
    judged.into()
}

#[test]
fn spread_sequences_are_even_over_any_number_of_shards_and_those_from_zero_are_not() {
    for rate in [20, 2000] {
        for seed in [1, 2, 3] {
            let spread = judge(rate, FirstSequence::Spread, seed);
            let even = spread.iter().all(|(.., is_even)| *is_even);
            assert!(even, "{rate}/s, seed {seed}: {spread:?}");
            let zero = judge(rate, FirstSequence::Zero, seed);
            let uneven = zero.iter().all(|(.., is_even)| !is_even);
            assert!(uneven, "{rate}/s, seed {seed}: {zero:?}");
        }
    }
}

#[test]
fn a_worker_at_its_limit_loses_no_id_to_spreading() {
    let layout = layout(FirstSequence::Spread);
    let generator = generator(&layout, 7);
    let start = layout.tick_at(WallMs(START_MS)).unwrap();
    for tick in start.0..start.0 + 1000 {
        let now = layout.wall_at(Tick(tick));
        let mut taken = 0;
        while let Mint::Ready(run) = generator.mint(now, 1000) {
            taken += run.count;
        }
        // The load was unknown before the first tick.
        assert!(tick == start.0 || taken == 4096, "{taken} in {tick}");
    }
}

#[test]
fn a_batch_that_opens_a_tick_fits_whole_and_the_tick_after_a_pause_is_drawn_again() {
    let layout = layout(FirstSequence::Spread);
    let generator = generator(&layout, 11);
    let start = layout.tick_at(WallMs(START_MS)).unwrap();
    let mut firsts = Vec::new();
    for (tick, count) in (start.0..).step_by(2).zip((1..=4096).rev()) {
        match generator.mint(layout.wall_at(Tick(tick)), count) {
            Mint::Ready(run) => {
                assert_eq!(run.count, count);
                firsts.push(run.first_sequence);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(firsts[0], 0, "a full tick has one place");
    let late = &firsts[2048..];
    assert!(late.iter().any(|first| *first > 2048), "{late:?}");
}
