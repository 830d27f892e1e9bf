//! The report of a run. Figures are printed as they are measured; the report collects the reason of
//! each failure and returns the verdict.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display};
use std::time::Duration;

use crate::checkers::Violation;

/// A counter per name.
pub type Counts = BTreeMap<String, u64>;

/// Increments the counter of a name.
pub fn count(counts: &mut Counts, what: impl Into<String>) {
    *counts.entry(what.into()).or_default() += 1;
}

/// The reasons for a failure that a run has found so far.
#[derive(Debug, Default)]
pub struct Report {
    reasons: Vec<Violation>,
}

impl Report {
    pub fn fails(&mut self, invariant: &'static str, detail: impl Into<String>) {
        self.reasons.push(Violation::new(invariant, detail));
    }

    pub fn require(&mut self, holds: bool, invariant: &'static str, detail: impl Into<String>) {
        if !holds {
            self.fails(invariant, detail);
        }
    }

    pub fn at_most<T: PartialOrd + Debug>(&mut self, invariant: &'static str, value: T, most: T) {
        let detail = format!("{value:.2?}, at most {most:?}");
        self.require(value <= most, invariant, detail);
    }

    /// Fails with the first of the complaints, if there are any.
    pub fn none(&mut self, invariant: &'static str, complaints: &[String]) {
        if let Some(first) = complaints.first() {
            self.fails(invariant, format!("{} times, as {first}", complaints.len()));
        }
    }

    /// Prints the response codes. Requires at least one success, and only expected codes.
    pub fn answers(&mut self, what: &str, answers: &Counts, expected: &[&str]) {
        let line = format!("{what}: {answers:?}");
        println!("  {line}");
        let is_expected = answers.keys().all(|code| expected.contains(&code.as_str()));
        self.require(
            is_expected && answers.contains_key("ok"),
            "expected answers",
            line,
        );
    }

    /// Returns the result of a checker; a violation becomes a reason.
    pub fn checked<T>(&mut self, result: Result<T, Violation>) -> Option<T> {
        result.map_err(|found| self.reasons.push(found)).ok()
    }

    /// Returns `Ok` without a reason, else the first reason, whose detail lists the others.
    pub fn verdict(self) -> Result<(), Violation> {
        let mut reasons = self.reasons.into_iter();
        let Some(mut first) = reasons.next() else {
            return Ok(());
        };
        for other in reasons {
            first.detail += &format!("; {other}");
        }
        Err(first)
    }
}

/// Times in order of size.
#[derive(Debug, Clone, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort_unstable();
        Self(times)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that `share` (0 to 1) of them do not exceed; zero if there are none.
    pub fn quantile(&self, share: f64) -> Duration {
        quantile(&self.0, share)
    }

    pub fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    pub fn most(&self) -> Duration {
        self.quantile(1.0)
    }
}

impl Display for Times {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, slow, most] = [0.5, 0.99, 1.0].map(|share| self.quantile(share));
        let count = self.count();
        write!(
            out,
            "{count:>6}: p50 {median:>8.1?}  p99 {slow:>8.1?}  most {most:>8.1?}"
        )
    }
}

/// The value that `share` (0 to 1) of these sorted values do not exceed; 0 if there are none.
pub fn quantile<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let last = sorted.len().saturating_sub(1);
    let index = (share * last as f64).round() as usize;
    sorted.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(judge: impl FnOnce(&mut Report)) -> Result<(), Violation> {
        let mut report = Report::default();
        judge(&mut report);
        report.verdict()
    }

    #[test]
    fn a_run_at_every_bound_passes() {
        let verdict = judged(|report| {
            report.require(true, "a", "");
            report.at_most("b", 7, 7);
            report.none("c", &[]);
            assert_eq!(report.checked(Ok(3)), Some(3));
        });
        assert_eq!(verdict, Ok(()));
    }

    #[test]
    fn each_planted_fault_is_a_reason_and_all_are_named() {
        let planted: [fn(&mut Report); 4] = [
            |report| report.require(false, "bound", "planted"),
            |report| report.at_most("bound", 8, 7),
            |report| report.none("bound", &["planted".to_owned()]),
            |report| {
                assert!(
                    report
                        .checked(Err::<(), _>(Violation::new("bound", "")))
                        .is_none()
                )
            },
        ];
        for plant in planted {
            assert_eq!(judged(plant).unwrap_err().invariant, "bound");
        }
        let all = judged(|report| planted.iter().for_each(|plant| plant(report)));
        assert_eq!(
            all.unwrap_err()
                .to_string()
                .matches("bound violated")
                .count(),
            4
        );
    }

    #[test]
    fn answers_are_of_the_expected_codes_and_one_is_a_success() {
        let fails = |codes: &[&str]| {
            let mut answers = Counts::new();
            codes.iter().for_each(|code| count(&mut answers, *code));
            judged(|report| report.answers("IDs", &answers, &["ok", "overloaded"])).is_err()
        };
        let judged = [
            &["ok"][..],
            &["ok", "overloaded"],
            &["overloaded"],
            &["ok", "no-quorum"],
            &[],
        ];
        assert_eq!(judged.map(fails), [false, false, true, true, true]);
    }

    #[test]
    fn quantiles_are_of_all_times() {
        let times = Times::of((0..=100).rev().map(Duration::from_millis));
        let quantiles = [0.0, 0.5, 0.99, 1.0].map(|share| times.quantile(share).as_millis());
        assert_eq!((times.count(), quantiles), (101, [0, 50, 99, 100]));
        assert_eq!(Times::default().most(), Duration::ZERO);
    }
}
