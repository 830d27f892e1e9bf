//! Random choices of a run: the kind of the next phase, and the offset of a clock.

use std::time::{Duration, Instant};

use crate::clock::draw_ms;
use crate::seed::Random;

/// A clock with at most this offset agrees with a correct one: it is below the tolerated skew of
/// 500 ms by more than the uncertainty of a measurement.
pub const RIGHT_MS: i64 = 400;

/// The sizes of steps: a millisecond to ten days.
const LEAST_MS: f64 = 1.0;
const MOST_MS: f64 = 864e6;

/// The largest common offset of two clocks. They are the majority, so afterwards all nodes wait
/// until the right time has reached the IDs that were minted ahead of it.
pub const TOGETHER_MS: u64 = 3_000;

/// Two clocks with a larger difference do not agree, whatever the error of a measurement.
const APART_MS: u64 = 2_000;

/// The time for which a node may use its measurement of another clock: a second between two pings,
/// and the delays of a busy machine.
const STALE: Duration = Duration::from_secs(5);

/// The clock changes of one phase, which lasts some seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One clock is set repeatedly.
    Steps,
    /// One clock is set forward and back every 20 ms.
    Strobe,
    /// One clock is set once, by seconds to days, and nothing else happens, to measure which nodes
    /// detect it, and when.
    Held,
    /// One clock runs too fast or too slow.
    Drift,
    /// One clock is stopped.
    Frozen,
    /// Two clocks are wrong by different offsets: no majority agrees, and all nodes may refuse.
    TwoApart,
    /// Two clocks are wrong by the same offset, up to three seconds: they are the majority.
    TwoTogether,
}

/// The number of phases of each kind in a round. Each kind occurs at least once, however short a
/// run is.
const ROUND: [(Kind, usize); 7] = [
    (Kind::Steps, 8),
    (Kind::Strobe, 4),
    (Kind::Held, 2),
    (Kind::TwoApart, 2),
    (Kind::TwoTogether, 1),
    (Kind::Frozen, 1),
    (Kind::Drift, 1),
];

/// The kinds of the phases of one round, in order.
pub fn round(random: &mut Random, is_short: bool) -> Vec<Kind> {
    let times = |most: usize| {
        if is_short {
            most.div_ceil(3).min(2)
        } else {
            most
        }
    };
    let kinds = ROUND
        .into_iter()
        .flat_map(|(kind, most)| std::iter::repeat_n(kind, times(most)));
    let mut kinds: Vec<Kind> = kinds.collect();
    random.shuffle(&mut kinds);
    kinds
}

/// The common offset of two clocks: certainly wrong and, if they are ahead, soon overtaken by the
/// right time.
pub fn together(random: &mut Random) -> i64 {
    draw_ms(random, 700.0, TOGETHER_MS as f64)
}

/// The rate of a drifting clock, at most five percent too fast or too slow.
pub fn rate(random: &mut Random) -> f64 {
    1.0 + draw_ms(random, 500.0, 50_000.0) as f64 / 1e6
}

/// The recent wrong times of the clocks.
///
/// A measurement of another node's clock is up to a second old. Two clocks that showed the same
/// wrong time within that second would form a majority by accident, and no check could detect that.
#[derive(Debug, Default)]
pub struct Wrong(Vec<(Instant, usize, i64)>);

impl Wrong {
    /// Draws the offset of a node's clock: from a millisecond to ten days.
    pub fn any(&mut self, random: &mut Random, node: usize) -> i64 {
        self.apart(node, || draw_ms(random, LEAST_MS, MOST_MS))
    }

    /// Like [`Wrong::any`], but large enough to be certainly wrong.
    pub fn surely(&mut self, random: &mut Random, node: usize) -> i64 {
        self.apart(node, || draw_ms(random, 1_000.0, MOST_MS))
    }

    /// Returns whether all clocks have been right for a while.
    pub fn is_none(&self) -> bool {
        self.0.iter().all(|(at, ..)| at.elapsed() > STALE)
    }

    /// Records that a node's clock is set to this offset, or had it until this moment.
    pub fn had(&mut self, node: usize, ms: i64) {
        self.0.retain(|(at, ..)| at.elapsed() < STALE);
        if ms.abs() > RIGHT_MS {
            self.0.push((Instant::now(), node, ms));
        }
    }

    fn apart(&self, node: usize, mut draw: impl FnMut() -> i64) -> i64 {
        loop {
            let ms = draw();
            let is_apart = |(at, other, theirs): &(Instant, usize, i64)| {
                *other == node || at.elapsed() > STALE || theirs.abs_diff(ms) > APART_MS
            };
            if ms.abs() <= RIGHT_MS || self.0.iter().all(is_apart) {
                return ms;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_in_a_round_and_steps_have_every_size() {
        let mut random = Random::of_this_run("draws of clock steps");
        for is_short in [false, true] {
            let kinds = round(&mut random, is_short);
            assert!(ROUND.iter().all(|(kind, _)| kinds.contains(kind)));
        }
        let mut wrong = Wrong::default();
        let steps: Vec<i64> = (0..2_000).map(|_| wrong.any(&mut random, 0)).collect();
        for (from, to) in [(1, 10), (1_000, 60_000), (86_400_000, 864_000_000)] {
            for sign in [1, -1] {
                assert!(steps.iter().any(|ms| (from..=to).contains(&(ms * sign))));
            }
        }
    }

    #[test]
    fn no_two_clocks_are_wrong_alike() {
        let mut random = Random::of_this_run("draws of clock steps");
        let mut wrong = Wrong::default();
        wrong.had(1, 1_500);
        assert!(!wrong.is_none());
        for _ in 0..2_000 {
            let ms = wrong.surely(&mut random, 0);
            assert!(ms.abs_diff(1_500) > APART_MS, "{ms}");
        }
        let mut own = (0..2_000).map(|_| wrong.surely(&mut random, 1));
        assert!(own.any(|ms| ms.abs_diff(1_500) < APART_MS));
    }
}
