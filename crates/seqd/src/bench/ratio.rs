//! The ratio of two targets that are measured in alternating rounds, so that a machine that slows
//! down slows both.

use serde::Serialize;

use super::figures::Figures;

/// The median of the ratios of all rounds, with the smallest and the largest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` without a value.
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            (values[middle - 1] + values[middle]) / 2.0
        };
        Some(Self { median, min, max })
    }
}

/// Ratios of the first target to the second, one of each kind for each pair of rounds.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    rate: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
}

/// The ratios of the first target to the second.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Ratios {
    /// The pairs of rounds in which both targets responded.
    pub(crate) rounds: usize,
    pub(crate) rate: Spread,
    pub(crate) p50: Spread,
    pub(crate) p99: Spread,
}

impl Pairs {
    /// Adds a pair of rounds. A round without a response has no ratio.
    pub(crate) fn push(&mut self, first: &Figures, second: &Figures) {
        if first.actions == 0 || second.actions == 0 {
            return;
        }
        let rate = |figures: &Figures| figures.per_second(figures.actions);
        let (one, other) = (first.latencies(), second.latencies());
        self.rate.push(rate(first) / rate(second));
        self.p50.push(one.p50 / other.p50);
        self.p99.push(one.p99 / other.p99);
    }

    pub(crate) fn finish(self) -> Option<Ratios> {
        Some(Ratios {
            rounds: self.rate.len(),
            rate: Spread::of(self.rate)?,
            p50: Spread::of(self.p50)?,
            p99: Spread::of(self.p99)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn figures(actions: u64, ms: u64) -> Figures {
        let mut figures = Figures::default();
        for _ in 0..actions {
            figures.succeeded(Duration::from_millis(ms), 1);
        }
        figures.elapsed = Duration::from_secs(1);
        figures
    }

    #[test]
    fn the_ratio_has_a_median_and_a_spread() {
        let mut pairs = Pairs::default();
        pairs.push(&figures(100, 2), &figures(100, 1));
        pairs.push(&figures(300, 2), &figures(100, 4));
        pairs.push(&figures(200, 3), &figures(100, 3));
        // Without a response there is nothing to compare.
        pairs.push(&figures(100, 2), &figures(0, 1));
        let ratios = pairs.finish().unwrap();
        assert_eq!(ratios.rounds, 3);
        let rate = Spread {
            median: 2.0,
            min: 1.0,
            max: 3.0,
        };
        assert_eq!(ratios.rate, rate);
        assert!((ratios.p50.median - 1.0).abs() < 0.01, "{ratios:?}");
        assert!((ratios.p99.max - 2.0).abs() < 0.01, "{ratios:?}");
    }

    #[test]
    fn an_even_number_of_rounds_has_the_mean_of_the_middle() {
        let spread = Spread::of(vec![4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (2.5, 1.0, 4.0));
        assert!(Spread::of(Vec::new()).is_none() && Pairs::default().finish().is_none());
    }
}
