//! Minutes of full write load, during which disk use and memory must level off.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::disk_use::bytes_below;
use seqd_tests::load::Target;
use seqd_tests::report::Report;
use seqd_tests::seed::Random;
use seqd_tests::wait::SetsAtEnd;
use seqd_tests::{http, memory};
use serde_json::json;

/// The number of names that are created, moved and deleted repeatedly.
const NAMES: u64 = 2000;

/// The number of clients that do this.
const CHURNERS: usize = 4;

/// The connections that request strict values, and the connections that request segments of one
/// value.
const STRICT: usize = 64;
const GRANTS: usize = 8;

const EVERY: Duration = Duration::from_secs(2);

/// The interval of the printed lines.
const MINUTE: Duration = Duration::from_secs(60);

const MIB: u64 = 1 << 20;

/// The permitted fluctuation by kind: a share, and bytes in addition.
///
/// The log grows and shrinks in whole segments of 16 MiB, down to the older of two snapshots, so a
/// sample may include up to two additional segments. There are three snapshots while one is being
/// taken. sled collects its own garbage at any time. The folder is the sum of these and of files
/// without a metric. Memory fluctuates with the blocks of a snapshot and with the memory that the
/// allocator keeps.
const MARGINS: [(&str, f64, u64); 5] = [
    ("wal", 0.1, 32 * MIB),
    ("snapshot", 0.6, MIB),
    ("checkpoint", 0.2, 16 * MIB),
    ("folder", 0.1, 48 * MIB),
    ("memory", 0.1, 16 * MIB),
];

/// Bytes by kind, of one node at one time.
type Sample = BTreeMap<&'static str, u64>;

pub(crate) fn run(minutes: u64) -> Result<(), Violation> {
    let cluster = Cluster::started(3).with_order();
    cluster.create_sequence(0, "range", &json!({}));
    let length = MINUTE * u32::try_from(minutes).expect("some minutes");
    let (over, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    let (urls, addresses) = (cluster.urls(), cluster.addresses());
    let segments = Target::post(addresses.clone(), "/v1/sequences/range/segments?size=1");
    let mut report = Report::default();
    std::thread::scope(|scope| {
        let end = SetsAtEnd(&over);
        for number in 0..CHURNERS {
            let (urls, over, moved) = (&urls, &over, &moved);
            scope.spawn(move || churn(urls, number, over, moved));
        }
        let strict = scope.spawn(|| Target::order(addresses).closed(STRICT, length));
        let grants = scope.spawn(|| segments.closed(GRANTS, length));
        let samples = watch(&cluster, length);
        drop(end);
        println!("strict values: {}", strict.join().expect("figures"));
        println!("segments: {}", grants.join().expect("figures"));
        for (node, samples) in samples.iter().enumerate() {
            judge(node, samples, &mut report);
        }
    });
    println!("{} creations, moves and deletions", moved.into_inner());
    cluster.wait_same_state(&[0, 1, 2]);
    report.verdict()
}

/// Creates, moves and deletes sequences until `over` is set. Refusals are expected.
fn churn(urls: &[String], number: usize, over: &AtomicBool, moved: &AtomicU64) {
    let mut random = Random::seeded(number as u64);
    let words = "what a sequence is for, in words ".repeat(8);
    while !over.load(Ordering::Relaxed) {
        let url = &urls[random.below(urls.len() as u64) as usize];
        let sequence = format!("{url}/v1/sequences/made{}", random.below(NAMES));
        let sent = match random.below(4) {
            0 => http::request("DELETE", &sequence).send(),
            1 => http::post(&format!("{sequence}/next?count=3")).send(),
            _ => http::request("PUT", &sequence)
                .json(&json!({"mode": "strict", "description": words}))
                .send(),
        };
        if sent.is_ok_and(|reply| reply.status < 300) {
            moved.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Samples every node until `length` has passed. Prints the maximum of each kind once a minute.
fn watch(cluster: &Cluster, length: Duration) -> Vec<Vec<Sample>> {
    let begin = Instant::now();
    let mut samples = vec![Vec::new(); 3];
    let mut printed = 0;
    while begin.elapsed() < length {
        std::thread::sleep(EVERY.min(length.saturating_sub(begin.elapsed())));
        for (node, samples) in samples.iter_mut().enumerate() {
            samples.push(sample(cluster, node));
        }
        let minutes = begin.elapsed().as_secs() / MINUTE.as_secs();
        if minutes > printed {
            printed = minutes;
            let last = |kind: &str| {
                let of_node = |all: &Vec<Sample>| all.last().map_or(0, |one| one[kind]) / MIB;
                samples.iter().map(of_node).collect::<Vec<_>>()
            };
            let kinds = MARGINS.map(|(kind, ..)| format!("{kind} {:?}", last(kind)));
            println!("minute {minutes}: MiB by node: {}", kinds.join(", "));
        }
    }
    samples
}

fn sample(cluster: &Cluster, node: usize) -> Sample {
    let metrics = cluster.get(node, "/metrics").ok().body;
    let mut sample = Sample::new();
    for (kind, ..) in MARGINS {
        let head = format!("seqd_storage_bytes{{kind=\"{kind}\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&head));
        if let Some(value) = value {
            sample.insert(kind, value.parse::<f64>().expect("bytes") as u64);
        }
    }
    sample.insert("folder", bytes_below(&cluster.node(node).data()));
    sample.insert("memory", memory::resident(cluster.node(node).pid()));
    assert_eq!(
        sample.len(),
        MARGINS.len(),
        "a kind is not measured: {metrics}"
    );
    sample
}

/// Compares the last third of a node's samples with the middle one.
fn judge(node: usize, samples: &[Sample], report: &mut Report) {
    let third = samples.len() / 3;
    for (kind, share, on_top) in MARGINS {
        let most = |part: &[Sample]| part.iter().map(|sample| sample[kind]).max().unwrap_or(0);
        let middle = most(&samples[third..2 * third]);
        let last = most(&samples[2 * third..]);
        let allowed = (middle as f64 * (1.0 + share)) as u64 + on_top;
        let [middle_mib, last_mib, allowed_mib] = [middle, last, allowed].map(|bytes| bytes / MIB);
        let line = format!(
            "n{}: {kind}: most in the middle third {middle_mib} MiB, in the last {last_mib} MiB, \
             allowed {allowed_mib} MiB",
            node + 1
        );
        println!("  {line}");
        report.require(last <= allowed, "disk use and memory level off", line);
    }
}
