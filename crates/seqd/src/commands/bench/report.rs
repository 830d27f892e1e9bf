//! The report of a measurement.

use seqd_client::api::exit;
use serde_json::{Value, json};

use super::{Measured, MeasuredTarget};
use crate::bench::{Findings, Latencies, RUNS, Ratios, Spread};
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

const COLUMNS: &str = "target requests errors rate_per_s values_per_s p50_ms p90_ms p99_ms \
p99_9_ms max_ms checked unchecked repeats order_violations";

/// The columns for people. The findings follow as sentences.
const SHOWN: &str = "target requests errors rate/s values/s p50_ms p90_ms p99_ms p99.9_ms max_ms";

/// The share of one core above which the load generator may be slower than the server.
const BUSY: f64 = 0.9;

pub(super) fn report(measured: &Measured) -> Result<Report, Failure> {
    let load = &measured.load;
    let document = json!({
        "kind": measured.kind,
        "loop": if load.rate.is_some() { "open" } else { "closed" },
        "clients": load.clients(),
        "rate_per_s": load.rate,
        "interrupted": measured.is_interrupted,
        "targets": measured.targets.iter().map(target).collect::<Vec<_>>(),
        "ratio": measured.ratios,
    });
    let mut report = Report::new(&document)?.with_columns(COLUMNS);
    let mut people = Report::default().with_columns(SHOWN);
    for target in &measured.targets {
        let figures = figures(target);
        report.row([figures.clone(), findings(target)].concat());
        people.row(figures);
    }
    let mut text = people.table();
    for target in &measured.targets {
        text.push_str(&words(target, measured.targets.len() > 1));
    }
    if let Some(ratios) = &measured.ratios {
        text.push_str(&ratio_words(ratios));
    }
    Ok(report.with_people(text))
}

/// Prints what the user should know about the figures.
pub(super) fn notes(measured: &Measured, session: &Session) {
    for target in &measured.targets {
        let busy = busy(target);
        if busy > BUSY {
            session.note(&format!(
                "the load generator used {:.0} % of a core: the server may be faster than these \
                 figures",
                busy * 100.0
            ));
        }
        if target.findings.as_ref().is_some_and(Findings::is_violated) {
            session.note(&format!(
                "{}: numbers repeated or were out of order (exit code {})",
                target.label,
                exit::UNHEALTHY
            ));
        }
    }
}

fn busy(target: &MeasuredTarget) -> f64 {
    let elapsed = target.figures.elapsed.as_secs_f64();
    let busy = target.figures.busy.as_secs_f64();
    if elapsed > 0.0 { busy / elapsed } else { 0.0 }
}

fn target(target: &MeasuredTarget) -> Value {
    let figures = &target.figures;
    json!({
        "target": target.label,
        "requests": figures.actions,
        "values": figures.numbers,
        "elapsed_ms": figures.elapsed.as_millis(),
        "rate_per_s": figures.per_second(figures.actions),
        "values_per_s": figures.per_second(figures.numbers),
        "latency_ms": figures.latencies(),
        "errors": figures.errors,
        "generator_cores": busy(target),
        "check": target.findings,
        "not_checked": target.unchecked,
        "check_bound_runs": target.findings.is_some().then_some(RUNS),
    })
}

/// The cells of the figures.
fn figures(target: &MeasuredTarget) -> Vec<String> {
    let figures = &target.figures;
    let Latencies {
        p50,
        p90,
        p99,
        p99_9,
        max,
    } = figures.latencies();
    let mut row = vec![
        target.label.clone(),
        figures.actions.to_string(),
        figures.error_count().to_string(),
        format!("{:.0}", figures.per_second(figures.actions)),
        format!("{:.0}", figures.per_second(figures.numbers)),
    ];
    row.extend([p50, p90, p99, p99_9, max].map(|ms| format!("{ms:.3}")));
    row
}

/// The cells of the findings, which are empty if there are none.
fn findings(target: &MeasuredTarget) -> Vec<String> {
    let of = |count: fn(&Findings) -> Option<u64>| {
        let count = target.findings.as_ref().and_then(count);
        count.map_or_else(String::new, |count| count.to_string())
    };
    vec![
        of(|findings| Some(findings.checked)),
        of(|findings| Some(findings.unchecked)),
        of(|findings| Some(findings.repeats)),
        of(|findings| findings.order_violations),
    ]
}

/// Errors and findings of a target, for people.
fn words(target: &MeasuredTarget, is_one_of_several: bool) -> String {
    let prefix = if is_one_of_several {
        format!("{}: ", target.label)
    } else {
        String::new()
    };
    let mut text = String::new();
    let errors = &target.figures.errors;
    if !errors.is_empty() {
        let counted: Vec<String> = errors
            .iter()
            .map(|(code, n)| format!("{n} {code}"))
            .collect();
        text.push_str(&format!("{prefix}errors: {}\n", counted.join(", ")));
    }
    let line = match (&target.findings, &target.unchecked) {
        (Some(findings), _) => finding_words(findings),
        (None, reason) => {
            let reason = reason.as_deref().unwrap_or_default();
            format!("not checked: {reason}")
        }
    };
    text.push_str(&format!("{prefix}{line}\n"));
    text
}

fn finding_words(findings: &Findings) -> String {
    let mut text = format!("checked {} numbers: ", findings.checked);
    text.push_str(&match findings.repeats {
        0 => "none repeated".to_owned(),
        count => format!(
            "{count} REPEATED (such as {})",
            findings.repeat_examples.join(", ")
        ),
    });
    match findings.order_violations {
        None => {}
        Some(0) => text.push_str(", the order held"),
        Some(count) => {
            let examples = findings.order_examples.join(", ");
            text.push_str(&format!(", {count} OUT OF ORDER (such as {examples})"));
        }
    }
    if findings.unchecked > 0 {
        text.push_str(&format!(
            "; {} more were not compared for repeats: the check stores at most {RUNS} runs",
            findings.unchecked
        ));
    }
    text
}

fn ratio_words(ratios: &Ratios) -> String {
    let spread = |name: &str, spread: &Spread| {
        let Spread { median, min, max } = spread;
        format!("{name} {median:.2} ({min:.2} to {max:.2})")
    };
    format!(
        "first / second, median (smallest to largest) of {} rounds: {}, {}, {}\n",
        ratios.rounds,
        spread("rate", &ratios.rate),
        spread("p50", &ratios.p50),
        spread("p99", &ratios.p99)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_stated_with_their_bound() {
        let mut findings = Findings {
            checked: 10,
            order_violations: Some(0),
            ..Findings::default()
        };
        assert_eq!(
            finding_words(&findings),
            "checked 10 numbers: none repeated, the order held"
        );
        findings.repeats = 2;
        findings.repeat_examples = vec!["7".to_owned()];
        findings.order_violations = None;
        findings.unchecked = 5;
        let text = finding_words(&findings);
        assert!(text.contains("2 REPEATED (such as 7)"), "{text}");
        assert!(text.contains("5 more were not compared"), "{text}");
    }
}
