//! The properties of a layout in numbers: the distribution of its IDs over remainders, and the
//! numbers that it shares with another layout.

use std::ops::RangeInclusive;

use super::Layout;
use crate::generator::{Generator, Mint};
use crate::layout::WorkerId;
use crate::policy::ClockPolicy;
use crate::time::{Tick, WallMs};

/// The number of IDs counted per remainder. The random deviation of a count is then about a tenth.
const IDS_PER_REMAINDER: u64 = 100;

/// The largest number of counted IDs. A node counts them within a request, and this many take a
/// quarter of a millisecond. It is twelve for each remainder of the largest modulus: in a layout
/// that distributes its IDs evenly, a remainder is missing by chance with a probability of 1 in 160
/// 000.
const MAX_COUNTED: u64 = 12 * Layout::MAX_MODULUS as u64;

/// The distribution of the IDs of one worker over `id mod modulus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainders {
    /// The number of counted IDs.
    pub ids: u64,
    /// The number of remainders that occurred.
    pub used: u32,
    /// The number of IDs with the most frequent remainder.
    pub most: u64,
    /// The number of IDs with the least frequent remainder.
    pub least: u64,
}

impl Layout {
    /// Counts the remainders of IDs that one worker mints one by one at random times, `rate` per
    /// second on average. It uses the generator itself, with computed readings instead of a clock.
    /// The same arguments give the same counts.
    ///
    /// It mints a hundred IDs per remainder, at most 12 288. `modulus` is 1 to
    /// [`Layout::MAX_MODULUS`]. Returns `None` if `modulus` is out of range, if the rate is 0, or
    /// if the time field ends before enough IDs are minted.
    pub fn remainders(&self, rate: u64, modulus: u32) -> Option<Remainders> {
        if rate == 0 || !(1..=Self::MAX_MODULUS).contains(&modulus) {
            return None;
        }
        let worker = WorkerId(0);
        let fence = Tick(self.max_tick().0 + 1);
        let generator = Generator::new(self.clone(), worker, Tick(0), fence, 1).ok()?;
        let generator = generator.with_policy(ClockPolicy {
            max_backward_wait_ms: u64::MAX,
            ..ClockPolicy::default()
        });
        let ids = (IDS_PER_REMAINDER * u64::from(modulus)).min(MAX_COUNTED);
        let mut counts = vec![0_u64; modulus as usize];
        let mut random = Random(rate);
        let mut now_us = self.spec().epoch_ms.checked_mul(1000)?;
        for _ in 0..ids {
            now_us += random.below((2_000_000 / rate).max(1));
            let id = loop {
                match generator.mint(WallMs(now_us / 1000), 1) {
                    Mint::Ready(run) => break run.first()?,
                    Mint::Wait { ms } => now_us += ms * 1000,
                    Mint::Refused(_) => return None,
                }
            };
            counts[(id.get() % u64::from(modulus)) as usize] += 1;
        }
        Some(Remainders {
            ids,
            used: counts.iter().filter(|count| **count > 0).count() as u32,
            most: counts.iter().copied().max()?,
            least: counts.iter().copied().min()?,
        })
    }

    /// The largest modulus of [`Layout::remainders`].
    pub const MAX_MODULUS: u32 = 1024;

    /// Returns the range of the numbers that both layouts can emit from a given time on, if there
    /// are any.
    ///
    /// The layouts have different epochs or shifts, so the same number denotes different times. A
    /// table with IDs of both layouts can contain such a number twice.
    pub fn shared_numbers(&self, other: &Self, from: WallMs) -> Option<RangeInclusive<u64>> {
        let (own, others) = (self.numbers_from(from)?, other.numbers_from(from)?);
        let first = *own.start().max(others.start());
        let last = *own.end().min(others.end());
        (first <= last).then_some(first..=last)
    }

    /// Returns the numbers that the layout can emit from a given time on, or `None` if its time
    /// field is full by then.
    fn numbers_from(&self, from: WallMs) -> Option<RangeInclusive<u64>> {
        let begins = WallMs(from.0.max(self.spec().epoch_ms));
        let first = self.tick_at(begins).ok()?;
        Some(self.tick_numbers(first).0..=self.largest())
    }

    /// Returns the smallest and the largest number of a tick, over all workers and sequences. The
    /// tick must belong to the layout.
    pub fn tick_numbers(&self, tick: Tick) -> (u64, u64) {
        let shift = self.bits() - u32::from(self.spec().time_bits);
        let first = tick.0 << shift;
        (first, first | ((1 << shift) - 1))
    }

    /// Returns the largest ID of this layout.
    pub fn largest(&self) -> u64 {
        (1 << self.bits()) - 1
    }
}

/// A deterministic sequence of pseudorandom numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u64
    }
}
