//! What is drawn from the seed: which kind of phase comes next, and how far a clock is set.

use std::time::{Duration, Instant};

use crate::clock::draw_ms;
use crate::seed::Random;

/// A clock that is off by no more agrees with one that is right: below the tolerated skew of 500 ms by
/// more than a measurement is uncertain.
pub const RIGHT_MS: i64 = 400;

/// The steps: a millisecond to ten days.
const LEAST_MS: f64 = 1.0;
const MOST_MS: f64 = 864e6;

/// The most that two clocks are wrong together: they are the majority, and IDs that they made ahead of
/// time are waited for by all.
pub const TOGETHER_MS: u64 = 3_000;

/// Two clocks that are further apart do not agree, however they were measured.
const APART_MS: u64 = 2_000;

/// How long a node may go by what it measured of another clock: a second between two pings, and what
/// a busy machine adds.
const STALE: Duration = Duration::from_secs(5);

/// What happens to the clocks for some seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One clock is set again and again.
    Steps,
    /// One clock is set forth and back every 20 ms.
    Strobe,
    /// One clock is set once, by seconds to days, and nothing else happens: who notices it, and when.
    Held,
    /// One clock runs too fast or too slow.
    Drift,
    /// One clock stands still.
    Frozen,
    /// Two clocks are wrong, each in another way: no majority agrees, and all may refuse.
    TwoApart,
    /// Two clocks are wrong together, by up to three seconds: they are the majority.
    TwoTogether,
}

/// How often each comes in a round. Each comes once in any round, however short a run is.
const ROUND: [(Kind, usize); 7] = [
    (Kind::Steps, 8),
    (Kind::Strobe, 4),
    (Kind::Held, 2),
    (Kind::TwoApart, 2),
    (Kind::TwoTogether, 1),
    (Kind::Frozen, 1),
    (Kind::Drift, 1),
];

/// The kinds of one round, in the order in which they come.
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

/// How far two clocks are set together: surely wrong, and right again soon by themselves where they are
/// ahead.
pub fn together(random: &mut Random) -> i64 {
    draw_ms(random, 700.0, TOGETHER_MS as f64)
}

/// A rate of a clock that drifts, at most five of a hundred too fast or too slow.
pub fn rate(random: &mut Random) -> f64 {
    1.0 + draw_ms(random, 500.0, 50_000.0) as f64 / 1e6
}

/// The wrong times that clocks had lately.
///
/// A node knows the clocks of the others as they were up to a second ago. Two clocks that
/// showed the same wrong time within that would be a majority by mistake, and no check could tell.
#[derive(Debug, Default)]
pub struct Wrong(Vec<(Instant, usize, i64)>);

impl Wrong {
    /// How far a node's clock is set: from a millisecond to ten days.
    pub fn any(&mut self, random: &mut Random, node: usize) -> i64 {
        self.apart(node, || draw_ms(random, LEAST_MS, MOST_MS))
    }

    /// As [`Wrong::any`], so far that it is surely wrong.
    pub fn surely(&mut self, random: &mut Random, node: usize) -> i64 {
        self.apart(node, || draw_ms(random, 1_000.0, MOST_MS))
    }

    /// Whether all clocks are known to have been right for a while.
    pub fn is_none(&self) -> bool {
        self.0.iter().all(|(at, ..)| at.elapsed() > STALE)
    }

    /// Records that a node's clock is set to such a time, or was until now.
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
