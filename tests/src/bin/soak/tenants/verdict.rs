//! The verdict of a run with two tenants, a pure function of the observations.

use std::fmt;
use std::time::Duration;

use seqd_tests::node_peaks::Peaks;

/// The largest ratio of the p99 under attack to the undisturbed p99.
const TIMES: u32 = 5;

/// The lowest value that counts for an undisturbed p99. Below it, a single sync of a shared disk or
/// a single turn of the scheduler decides.
const FLOOR: Duration = Duration::from_millis(5);

/// The largest disk use of a node in bytes (`docs/DAY-TWO.md`, disk space), if its snapshots had at
/// most this many bytes: up to three of the live state, one of them unfinished.
fn most_disk(snapshots: u64) -> u64 {
    22 * (snapshots / 3) + (1 << 30)
}

/// The largest memory of a node, in bytes.
const MOST_MEMORY: u64 = 400_000_000;

const MB: u64 = 1_000_000;

/// The latencies of one kind of operation in one phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Latency {
    pub(super) operations: usize,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}

impl fmt::Display for Latency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operations,
            p50,
            p99,
        } = self;
        write!(
            out,
            "{operations:>6} operations, p50 {p50:>8.1?}, p99 {p99:>8.1?}"
        )
    }
}

/// A kind of operation, undisturbed and under attack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compared {
    pub(super) kind: &'static str,
    pub(super) quiet: Latency,
    pub(super) attacked: Latency,
}

impl Compared {
    /// The largest acceptable p99 under attack.
    fn allowed(&self) -> Duration {
        self.quiet.p99.max(FLOOR) * TIMES
    }
}

/// The observations of a run.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) latencies: Vec<Compared>,
    /// Operations of the honest tenant that failed, in both phases.
    pub(super) failures: Vec<String>,
    /// Violations that a checker or the honest tenant found: a repeated value, a lost hold.
    pub(super) violations: Vec<String>,
    /// Requests of the operator that no endpoint served.
    pub(super) operator: Vec<String>,
    pub(super) peaks: Vec<Peaks>,
    /// The complaints with which the attackers' processes ended.
    pub(super) attackers: Vec<String>,
}

/// Returns the reasons for which the run has failed. Empty if it has passed.
pub(super) fn reasons(seen: &Seen) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut several = |what: &str, found: &[String]| {
        if let Some(first) = found.first() {
            reasons.push(format!("{} {what}, the first: {first}", found.len()));
        }
    };
    several("violations", &seen.violations);
    several("failed operations of the honest tenant", &seen.failures);
    several("unserved requests of the operator", &seen.operator);
    for one in &seen.latencies {
        if one.quiet.operations == 0 || one.attacked.operations == 0 {
            reasons.push(format!(
                "{}: no operation was measured in a phase",
                one.kind
            ));
        } else if one.attacked.p99 > one.allowed() {
            let (p99, allowed) = (one.attacked.p99, one.allowed());
            reasons.push(format!(
                "{}: p99 {p99:.1?} under attack, {allowed:.1?} allowed",
                one.kind
            ));
        }
    }
    for peak in &seen.peaks {
        let node = &peak.node;
        if let Some(after) = peak.ended_after {
            reasons.push(format!("{node} ended after {after:.0?}"));
        }
        for (what, used, most) in [
            ("memory", peak.memory, MOST_MEMORY),
            ("disk", peak.disk.all, most_disk(peak.disk.snap)),
        ] {
            if used > most {
                let (used, most) = (used / MB, most / MB);
                reasons.push(format!(
                    "{node} used {used} MB of {what}, {most} MB allowed"
                ));
            }
        }
    }
    reasons.extend(seen.attackers.clone());
    reasons
}

#[cfg(test)]
mod tests {
    use seqd_tests::disk_use::DiskUse;

    use super::*;

    const SNAPSHOTS: u64 = 300 << 20;

    fn latency(p99_ms: u64) -> Latency {
        Latency {
            operations: 1500,
            p50: Duration::from_millis(1),
            p99: Duration::from_millis(p99_ms),
        }
    }

    fn good() -> Seen {
        let peak = Peaks {
            node: "n2".to_owned(),
            memory: MOST_MEMORY,
            disk: DiskUse {
                all: most_disk(SNAPSHOTS),
                snap: SNAPSHOTS,
                ..DiskUse::default()
            },
            ended_after: None,
        };
        let compared = |quiet, attacked| Compared {
            kind: "strict next",
            quiet: latency(quiet),
            attacked: latency(attacked),
        };
        Seen {
            latencies: vec![compared(10, 50), compared(1, 25)],
            peaks: vec![peak],
            ..Seen::default()
        }
    }

    #[track_caller]
    fn found(plant: impl FnOnce(&mut Seen), words: &str) {
        let mut seen = good();
        plant(&mut seen);
        let reasons = reasons(&seen);
        assert!(
            matches!(&reasons[..], [one] if one.contains(words)),
            "{reasons:?}"
        );
    }

    #[test]
    fn a_run_at_every_bound_passes() {
        assert_eq!(reasons(&good()), Vec::<String>::new());
    }

    #[test]
    fn each_planted_fault_is_the_only_reason() {
        let planted = || vec!["planted".to_owned()];
        found(
            |seen| seen.violations = planted(),
            "violations, the first: planted",
        );
        found(|seen| seen.failures = planted(), "failed operations");
        found(|seen| seen.operator = planted(), "of the operator");
        found(|seen| seen.attackers = planted(), "planted");
        found(
            |seen| seen.latencies[0].attacked = latency(51),
            "p99 51.0ms under attack, 50.0ms",
        );
        found(
            |seen| seen.latencies[1].attacked = latency(26),
            "p99 26.0ms under attack, 25.0ms",
        );
        found(
            |seen| seen.latencies[0].quiet.operations = 0,
            "no operation was measured",
        );
        let after = Duration::from_secs(7);
        found(
            |seen| seen.peaks[0].ended_after = Some(after),
            "n2 ended after 7s",
        );
        found(
            |seen| seen.peaks[0].memory = MOST_MEMORY + MB,
            "401 MB of memory",
        );
        found(|seen| seen.peaks[0].disk.all += MB, "MB of disk");
    }
}
