//! The random numbers of a simulation: the same seed, the same numbers, on every machine and in
//! every version.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Debug, Clone)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Begins the sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if that is 0. The bias of the remainder is far below what any
    /// simulation could notice.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll().checked_rem(bound).unwrap_or(0)
    }

    /// Whether a chance of `in_16` sixteenths came true.
    pub fn chance(&mut self, in_16: u64) -> bool {
        self.below(16) < in_16
    }

    /// How likely things survive from here on, in sixteenths: all, none, or something between.
    /// One fair coin for each would hardly ever show a disk that lost all, or one sector alone.
    pub(super) fn survival(&mut self) -> u64 {
        [0, 1, 4, 8, 12, 15, 16][self.below(7) as usize]
    }
}
