//! The alerts, the dashboard and the runbook name each other and metrics that exist.

use std::collections::BTreeSet;

use crate::sources::{assert_none, one};

/// The names of the alerts are part of the contract: operators' tools and pages refer to them.
const ALERTS: [&str; 16] = [
    "SeqdDown",
    "NoLeader",
    "CannotLoseANode",
    "LeaderFlapping",
    "SlowFsync",
    "SlowCommit",
    "ReplicationLag",
    "ClockWrong",
    "WindowNearEnd",
    "SequenceNearEnd",
    "WorkersNearEnd",
    "LayoutNearEnd",
    "CertificateExpiring",
    "FewFileDescriptors",
    "DiskStalled",
    "DiskNearFull",
];

const RULES: &str = "deploy/prometheus/seqd.rules.yml";

fn text(path: &str) -> String {
    one(path).map(|file| file.text).expect(path)
}

/// The values of a key of the rules, in order.
fn values(rules: &str, key: &str) -> Vec<String> {
    let lines = rules
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let found = lines.filter_map(|line| line.split_once(key));
    found.map(|(_, value)| value.trim().to_owned()).collect()
}

/// The anchors of a document's headings.
fn anchors(path: &str) -> BTreeSet<String> {
    let text = text(path);
    let heads = text.lines().filter(|line| line.starts_with('#'));
    let heads = heads.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    heads.map(|head| head.replace(' ', "-")).collect()
}

#[test]
fn every_alert_has_a_severity_a_summary_and_a_paragraph_of_the_runbook() {
    let rules = text(RULES);
    assert_eq!(values(&rules, "- alert: "), ALERTS);
    assert_eq!(values(&rules, "severity: ").len(), ALERTS.len());
    assert_eq!(values(&rules, "summary: ").len(), ALERTS.len());
    let mut complaints = Vec::new();
    let urls = values(&rules, "runbook_url: ");
    assert_eq!(urls.len(), ALERTS.len());
    for url in urls {
        let (path, anchor) = url.split_once('#').expect("an anchor");
        if !anchors(path).contains(anchor) {
            complaints.push(format!("{path} has no heading {anchor}"));
        }
    }
    assert_none(&complaints);
}

#[test]
fn alerts_and_dashboard_name_metrics_of_the_list() {
    let list = text("docs/METRICS.md");
    let listed: BTreeSet<&str> = list
        .split('`')
        .filter(|it| it.starts_with("seqd_"))
        .collect();
    let mut complaints = Vec::new();
    for path in [RULES, "deploy/grafana/seqd.json"] {
        let text = text(path);
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        for word in words.filter(|word| word.starts_with("seqd_")) {
            let name = word.strip_suffix("_bucket").unwrap_or(word);
            if !listed.contains(name) {
                complaints.push(format!("{path}: docs/METRICS.md has no {name}"));
            }
        }
    }
    assert_none(&complaints);
}
