//! Random choices from the seed: the kind of the next phase, and the offset of a clock.

use std::time::{Duration, Instant};

use crate::seed::Random;

/// The largest error of a clock that still agrees with a correct one. It is below the tolerated
/// skew of 500 ms by more than the uncertainty of a measurement.
pub const RIGHT_MS: i64 = 400;

/// The range of the steps: one millisecond to ten days.
const LEAST_MS: f64 = 1.0;
const MOST_MS: f64 = 864e6;

/// The largest common error of two clocks. These clocks are the majority, and all nodes wait for
/// the IDs that they minted ahead of time.
pub const TOGETHER_MS: u64 = 3_000;

/// Two clocks with a larger distance do not agree, however they were measured.
const APART_MS: u64 = 2_000;

/// The longest time for which a node may use its last measurement of another clock: a second
/// between two pings, plus a margin for a busy machine.
const STALE: Duration = Duration::from_secs(5);

/// The changes of the clocks over some seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One clock is set repeatedly.
    Steps,
    /// One clock is set back and forth every 20 ms.
    Strobe,
    /// One clock is set once, by seconds to days, and nothing else happens. Measures which nodes
    /// detect it, and when.
    Held,
    /// One clock runs too fast or too slow.
    Drift,
    /// One clock stands still.
    Frozen,
    /// Two clocks are wrong in different ways: no majority agrees, and all nodes may refuse.
    TwoApart,
    /// Two clocks are wrong in the same way, by up to three seconds: they are the majority.
    TwoTogether,
}

/// The number of phases of each kind per round. Each kind occurs at least once in any round,
/// however short a run is.
const ROUND: [(Kind, usize); 7] = [
    (Kind::Steps, 8),
    (Kind::Strobe, 4),
    (Kind::Held, 2),
    (Kind::TwoApart, 2),
    (Kind::TwoTogether, 1),
    (Kind::Frozen, 1),
    (Kind::Drift, 1),
];

/// The kinds of one round, in the order of the phases.
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

/// A random number from `0.0` up to, but not including, `1.0`.
pub fn share(random: &mut Random) -> f64 {
    random.below(1 << 53) as f64 / (1u64 << 53) as f64
}

/// A random duration between the two.
pub fn between(random: &mut Random, least_ms: u64, most_ms: u64) -> Duration {
    Duration::from_millis(least_ms + random.below(most_ms - least_ms + 1))
}

/// A log-uniform random step between the two, with a random sign.
fn step_between(random: &mut Random, least: f64, most: f64) -> i64 {
    let size = (least.ln() + share(random) * (most / least).ln()).exp();
    let ms = size.round() as i64;
    if random.below(2) == 0 { ms } else { -ms }
}

/// The common error of two clocks: certainly wrong, and soon correct again by waiting if they are
/// ahead.
pub fn together(random: &mut Random) -> i64 {
    step_between(random, 700.0, TOGETHER_MS as f64)
}

/// The rate of a drifting clock, at most five percent too fast or too slow.
pub fn rate(random: &mut Random) -> f64 {
    1.0 + step_between(random, 500.0, 50_000.0) as f64 / 1e6
}

/// The wrong times that clocks had recently.
///
/// A node's measurements of the other clocks are up to a second old. Two clocks that had the same
/// wrong time within that period would form a false majority, which no check could detect.
#[derive(Debug, Default)]
pub struct Wrong(Vec<(Instant, usize, i64)>);

impl Wrong {
    /// The offset of a node's clock: from a millisecond to ten days.
    pub fn any(&mut self, random: &mut Random, node: usize) -> i64 {
        self.apart(node, || step_between(random, LEAST_MS, MOST_MS))
    }

    /// Like [`Wrong::any`], but large enough to be certainly wrong.
    pub fn surely(&mut self, random: &mut Random, node: usize) -> i64 {
        self.apart(node, || step_between(random, 1_000.0, MOST_MS))
    }

    /// Returns whether all clocks have been correct for at least `STALE`.
    pub fn is_none(&self) -> bool {
        self.0.iter().all(|(at, ..)| at.elapsed() > STALE)
    }

    /// Records that a node's clock is set to this offset, or had it until now.
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
