//! The random numbers of a simulation. The same seed yields the same numbers on every machine and
//! in every version.

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

    /// Returns a number below `bound`, or 0 if `bound` is 0. The bias of the remainder is too small
    /// to affect a simulation.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll().checked_rem(bound).unwrap_or(0)
    }

    /// Returns `true` with a probability of `in_16` sixteenths.
    pub fn chance(&mut self, in_16: u64) -> bool {
        self.below(16) < in_16
    }

    /// Draws the probability of survival for the following objects, in sixteenths: none, all, or
    /// something between. With a fair coin per object, a disk that lost everything, or only one
    /// sector, would hardly ever occur.
    pub(super) fn survival(&mut self) -> u64 {
        [0, 1, 4, 8, 12, 15, 16][self.below(7) as usize]
    }
}
