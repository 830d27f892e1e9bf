//! The files below `deploy/`, judged by the programs that read them, and the list of metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use seqd_tests::binary::workspace;
use seqd_tests::cluster::Cluster;
use seqd_tests::resp::{Resp, with_redis};
use seqd_tests::{http, skips};
use serde_json::json;

/// The time after which systemd would end a silent node, in the story.
const WATCHDOG: Duration = Duration::from_millis(600);

/// The longest wait for a message to systemd.
const PATIENCE: Duration = Duration::from_secs(20);

/// Gauges that have no series in this story, so that a scrape may not describe them: name, label,
/// help. A drift is known only after a minute, the nodes have no certificates, and leases would
/// have to grow for hours.
const WITHOUT_SERIES: [(&str, &str, &str); 3] = [
    (
        "seqd_clock_drift_ratio",
        "peer",
        "Drift of a peer's clock relative to this node's, in seconds a second; absent in the first \
         minute",
    ),
    (
        "seqd_tls_certificate_expiry_timestamp_seconds",
        "use",
        "When the certificate in force expires; absent without TLS",
    ),
    (
        "seqd_workers_exhaustion_timestamp_seconds",
        "layout",
        "When clients can lease no worker, if leases keep growing at the rate of the last day; \
         absent while they do not grow",
    ),
];

fn messages(socket: &UnixDatagram, wanted: &str, count: usize) {
    let until = Instant::now() + PATIENCE;
    let mut found = 0;
    let mut bytes = [0; 4096];
    while found < count {
        assert!(Instant::now() < until, "{found} of {count} {wanted}");
        let Ok(length) = socket.recv(&mut bytes) else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        found += usize::from(text.lines().any(|line| line == wanted));
    }
}

#[test]
fn systemd_receives_that_the_node_serves_lives_and_stops() {
    let mut cluster = Cluster::planned(1);
    let path = cluster.folder().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let micros = WATCHDOG.as_micros().to_string();
    let node = cluster.node_mut(0);
    node.set_environment("NOTIFY_SOCKET", path.to_str().expect("UTF-8"));
    node.set_environment("WATCHDOG_USEC", &micros);
    let mut cluster = cluster.ready();
    messages(&socket, "READY=1", 1);
    messages(&socket, "WATCHDOG=1", 3);
    assert_eq!(cluster.node_mut(0).stop().code(), Some(0));
    messages(&socket, "STOPPING=1", 1);
}

/// Runs a program in the folder `deploy`. Returns whether it succeeded, and its output.
fn run(words: &[&str]) -> (bool, String) {
    let folder = workspace().join("deploy");
    let mut command = Command::new(words[0]);
    let ran = command.args(&words[1..]).current_dir(folder).output();
    let ran = ran.expect("it is installed");
    let text = [ran.stdout, ran.stderr].concat();
    (ran.status.success(), String::from_utf8_lossy(&text).into())
}

fn lacks(story: &str, program: &str, package: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    skips::ends(story, (!is_there).then(|| skips::missing(program, package)))
}

#[test]
fn every_alert_fires_and_does_not_fire() {
    if lacks("deployment", "promtool", "prometheus") {
        return;
    }
    for words in [
        ["promtool", "check", "config", "prometheus/prometheus.yml"],
        ["promtool", "test", "rules", "prometheus/seqd.test.yml"],
    ] {
        let (is_ok, text) = run(&words);
        assert!(is_ok, "{text}");
    }
}

#[test]
fn systemd_accepts_the_units() {
    if lacks("deployment", "systemd-analyze", "systemd") {
        return;
    }
    let units = ["seqd.service", "seqd-backup.service", "seqd-backup.timer"];
    let (_, text) = run(&[&["systemd-analyze", "verify"], &units[..]].concat());
    let complaints: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("seqd") && !line.contains("is not executable"))
        .collect();
    assert!(complaints.is_empty(), "{text}");
}

/// A metric as a scrape describes it.
#[derive(Default)]
struct Metric {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// The metrics of a scrape, by name.
fn described(scrape: &str, all: &mut BTreeMap<String, Metric>) {
    for line in scrape.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            all.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            all.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((name, labels)) = line.split_once('{') {
            let base = ["_bucket", "_sum", "_count"].iter();
            let mut base = base.filter_map(|end| name.strip_suffix(end));
            let name = base.find(|it| all.contains_key(*it)).unwrap_or(name);
            let labels = labels.split('}').next().unwrap_or_default();
            let names = labels.split("\",").filter_map(|it| it.split('=').next());
            let metric = all.get_mut(name).expect("described before its series");
            let names = names.filter(|it| *it != "le").map(str::to_owned);
            metric.labels.extend(names);
        }
    }
}

fn assert_countable(scrapes: &[String], all: &BTreeMap<String, Metric>) {
    for name in all.keys() {
        let is_series = |line: &str| !line.starts_with('#') && line.starts_with(name.as_str());
        let has_series = scrapes.iter().flat_map(|it| it.lines()).any(is_series);
        assert!(has_series, "{name} has no series");
    }
}

fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next() {
        Some("seconds") if name.contains("timestamp") || name.contains("start_time") => {
            "Unix seconds"
        }
        Some("seconds") => "seconds",
        Some("bytes") => "bytes",
        Some("ratio") => "ratio",
        _ => "",
    }
}

/// The alerts whose expressions name a metric.
fn alerts(name: &str, rules: &str) -> Vec<String> {
    let is_word = |text: &str| {
        let ends = |c: char| !(c.is_alphanumeric() || c == '_');
        text.split(ends)
            .any(|word| word == name || word.strip_suffix("_bucket") == Some(name))
    };
    let groups = rules.split("- alert: ").skip(1);
    groups
        .filter(|group| is_word(group.split("labels:").next().unwrap_or_default()))
        .filter_map(|group| group.lines().next())
        .map(|alert| format!("[{alert}](RUNBOOK.md#{})", alert.to_lowercase()))
        .collect()
}

fn page(all: &BTreeMap<String, Metric>) -> String {
    let rules = std::fs::read_to_string(workspace().join("deploy/prometheus/seqd.rules.yml"));
    let rules = rules.expect("the rules");
    let mut out = String::from(include_str!("metrics_head.md"));
    for (name, metric) in all {
        let labels: Vec<_> = metric
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let mut about = vec![metric.kind.clone()];
        about.extend(Some(unit(name).to_owned()).filter(|unit| !unit.is_empty()));
        if !labels.is_empty() {
            about.push(format!("by {}", labels.join(", ")));
        }
        let help = metric.help.trim_end_matches('.');
        let _ = write!(out, "\n- `{name}` ({})\n  {help}.", about.join(", "));
        let alerts = alerts(name, &rules);
        if !alerts.is_empty() {
            let _ = write!(out, "\n  Alert: {}.", alerts.join(", "));
        }
    }
    out.push('\n');
    out
}

#[test]
fn the_page_of_metrics_is_that_of_a_scrape() {
    let (cluster, redis) = with_redis(Cluster::planned(3));
    let cluster = cluster.ready();
    cluster.create_sequence(0, "order", &json!({"mode": "segment", "max": "1000000"}));
    for (index, port) in redis.iter().enumerate() {
        cluster.get(index, "/v1/id").ok();
        cluster.post(index, "/v1/sequences/order/next").ok();
        Resp::connect(port).call("PING");
    }
    let scrape = |index| http::get(&cluster.url(index, "/metrics")).reply().ok().body;
    let scrapes: Vec<String> = (0..3).map(scrape).collect();
    let mut all = BTreeMap::new();
    for scrape in &scrapes {
        described(scrape, &mut all);
    }
    assert_countable(&scrapes, &all);
    for (name, label, help) in WITHOUT_SERIES {
        let metric = Metric {
            kind: "gauge".to_owned(),
            help: help.to_owned(),
            labels: [label.to_owned()].into(),
        };
        let described = all.insert(name.to_owned(), metric).is_some();
        assert!(!described || name == "seqd_clock_drift_ratio", "{name}");
    }
    let path = workspace().join("docs/METRICS.md");
    let page = page(&all);
    if std::env::var_os("SEQD_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, page).expect("the page");
        return;
    }
    let found = std::fs::read_to_string(&path).expect("docs/METRICS.md");
    assert!(
        found == page,
        "docs/METRICS.md is not what a scrape describes: SEQD_WRITE_GOLDEN=1 cargo test -p \
         seqd-tests --test stories -- page_of_metrics writes it"
    );
}
