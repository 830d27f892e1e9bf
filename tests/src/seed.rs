//! The seed of a random test. Each run prints it, and `SEQD_TEST_SEED` replays it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// A small deterministic generator (SplitMix64: Steele, Lea, Flood 2014). Not for secrets.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator of this run. Prints the seed with the line that replays it.
    pub fn of_this_run(test: &str) -> Self {
        let seed = std::env::var("SEQD_TEST_SEED")
            .ok()
            .map(|text| text.parse().expect("SEQD_TEST_SEED is a decimal u64"))
            .unwrap_or_else(|| RandomState::new().build_hasher().finish());
        println!("{test}: replay with SEQD_TEST_SEED={seed}");
        Self(seed)
    }

    /// A generator with a given seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be zero. The bias is far below what a test can
    /// detect.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// A number from `0.0` up to `1.0`.
    pub fn share(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1u64 << 53) as f64
    }

    /// A time between the two, in milliseconds.
    pub fn between(&mut self, (least, most): (u64, u64)) -> Duration {
        Duration::from_millis(least + self.below(most - least + 1))
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = self.below(end as u64 + 1) as usize;
            items.swap(end, other);
        }
    }
}
