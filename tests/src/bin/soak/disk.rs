//! Small disks that clients fill at full speed, in each way alone and then in all together. No node
//! may end, requests that take space are refused in time, and service returns soon after space is
//! freed.
//!
//! One round has the default limits, another has them at their maximum, so that the disk is full
//! before a limit is reached. Each disk contains a ballast, whose removal frees space.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use seqd_tests::asker::Asker;
use seqd_tests::checkers::{Violation, require};
use seqd_tests::cluster::Cluster;
use seqd_tests::http::{Failure, Reply, Request};
use seqd_tests::loop_disk::{Ballast, FileSystem, cannot_mount};
use seqd_tests::report::{Counts, Report, count};
use seqd_tests::runtime::block_on;
use seqd_tests::{http, node_peaks, wait};
use serde_json::json;

use crate::arguments::Arguments;
use crate::filling::{FLOODED, Filling, MONTH_MS};

/// The ways to fill, each with the connections that it has alone.
const FILLINGS: [Filling; 6] = [
    Filling::Result { ttl_ms: 1_000 },
    Filling::Result { ttl_ms: MONTH_MS },
    Filling::KeyedRequest,
    Filling::Lock,
    Filling::Sequence,
    Filling::OneTimeTokens,
];
const CONNECTIONS: usize = 48;

/// The connections of each way when all fill together.
const TOGETHER: usize = 16;

/// The limits of the round in which the disk is full first: each at its maximum.
const RAISED: [(&str, &str); 7] = [
    ("keys", "4000000"),
    ("key_bytes", "1073741824"),
    ("tokens", "4000000"),
    ("locks", "1000000"),
    ("sequences", "10000000"),
    ("answer_ttl", "\"30d\""),
    ("tenant_share", "\"100%\""),
];

/// Longer than a node's own time limit of 3 s, so that a hang of the node is visible.
const PATIENCE: Duration = Duration::from_secs(5);

/// The interval of the requests during the filling.
const EVERY: Duration = Duration::from_millis(500);

/// The pause of a client until it retries a failed node.
const PAUSE: Duration = Duration::from_millis(100);

/// The share of each disk that the ballast takes.
const BALLAST: u64 = 8;

/// The time limit for every node to serve again after space is freed.
const RECOVERY: Duration = Duration::from_secs(10);

/// The expected responses to requests that take space. A claim may end, and a key that lives for a
/// second may expire, before its completion arrives.
const EXPECTED: [&str; 4] = ["ok", "overloaded", "lease-lost", "not-found"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limits {
    Shipped,
    Raised,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--seconds --disk-mb --fs --with --limits");
    let length = Duration::from_secs(arguments.value("--seconds", 1_800));
    let bytes = arguments.value("--disk-mb", 1_024_u64) << 20;
    let name = arguments.text("--fs").unwrap_or("ext4");
    let kind = FileSystem::named(name).unwrap_or_else(|| panic!("--fs {name} is not understood"));
    let missing = cannot_mount(kind);
    require(
        missing.is_none(),
        "a disk of its own",
        missing.unwrap_or_default(),
    )?;
    let rounds = match arguments.text("--limits") {
        None => vec![Limits::Shipped, Limits::Raised],
        Some("shipped") => vec![Limits::Shipped],
        Some("raised") => vec![Limits::Raised],
        Some(other) => panic!("--limits {other} is not understood; shipped, raised are"),
    };
    let binary = arguments.text("--with").map(Path::new);
    let each = length / rounds.len() as u32;
    let mut report = Report::default();
    for limits in rounds {
        let (mib, seconds) = (bytes >> 20, each.as_secs());
        println!("limits {limits:?}: {mib} MiB of {kind} at each node, filled for {seconds} s");
        let (cluster, ballast) = cluster(binary, limits, kind, bytes);
        round(&cluster, ballast, limits, each, &mut report);
    }
    report.verdict()
}

fn round(
    cluster: &Cluster,
    ballast: Vec<Ballast>,
    limits: Limits,
    length: Duration,
    report: &mut Report,
) {
    let nodes = || 0..cluster.size();
    let probe = || {
        std::thread::sleep(EVERY);
        let id = |node| word_at(http::get(&cluster.url(node, "/v1/id")));
        let words = nodes().map(|node| (value_at(cluster, node), id(node)));
        words.collect::<Vec<_>>()
    };
    let filled = || wait::beside(probe, || fill(&cluster.addresses(), length));
    let ((filling, probes), peaks) = node_peaks::during(cluster, filled);
    for node in nodes() {
        println!("  n{}: {}", node + 1, storage_bytes(cluster, node));
    }
    drop(ballast);
    let begin = Instant::now();
    let back = wait::within(RECOVERY, || {
        let every = nodes().all(|node| value_at(cluster, node) == "ok");
        every.then(|| begin.elapsed())
    });
    let (mut values, mut ids) = (Counts::new(), Counts::new());
    for (value, id) in probes.into_iter().flatten() {
        count(&mut values, value);
        count(&mut ids, id);
    }
    node_peaks::judge(&peaks, u64::MAX, report);
    report.answers("requests that fill", &filling, &EXPECTED);
    report.answers("strict values", &values, &EXPECTED[..2]);
    report.answers("IDs", &ids, &EXPECTED[..1]);
    let has_ended = limits == Limits::Shipped || filling.contains_key("overloaded");
    report.require(has_ended, "a disk that ends", "no request was overloaded");
    let line = format!("strict values at every node after room was made: {back:.1?}");
    println!("  {line}");
    report.require(back.is_some(), "strict values again within 10 s", line);
}

fn cluster(
    binary: Option<&Path>,
    limits: Limits,
    kind: FileSystem,
    bytes: u64,
) -> (Cluster, Vec<Ballast>) {
    let mut cluster = Cluster::planned(3).on_disks(kind, bytes);
    for index in 0..cluster.size() {
        let node = cluster.node_mut(index);
        node.set_binary(binary);
        for (key, value) in RAISED {
            // Another build may lack these keys, and refuses unknown ones.
            let is_there = binary.is_none() || !matches!(key, "tenant_share" | "sequences");
            if limits == Limits::Raised && is_there {
                node.set("limits", key, value);
            }
        }
    }
    let disks = (0..cluster.size()).map(|index| cluster.disk_mut(index).take(bytes / BALLAST));
    let ballast = disks.collect();
    let cluster = cluster.ready().with_order();
    cluster.create_sequence(0, FLOODED, &json!({"mode": "strict"}));
    (cluster, ballast)
}

/// Fills for `length`: half of the time in one stage for each way, half with all of them together.
fn fill(addresses: &[String], length: Duration) -> Counts {
    let answers = Rc::new(RefCell::new(Counts::new()));
    let alone = FILLINGS.map(|one| vec![(one, CONNECTIONS, length / 2 / FILLINGS.len() as u32)]);
    let together = FILLINGS.map(|one| (one, TOGETHER, length / 2)).to_vec();
    for (stage, fillings) in alone.into_iter().chain([together]).enumerate() {
        let before = answers.borrow().clone();
        block_on(async {
            let mut tasks = Vec::new();
            for (filling, connections, length) in &fillings {
                for number in 0..*connections {
                    let address = &addresses[number % addresses.len()];
                    let asker = Asker::new(std::slice::from_ref(address));
                    let name = format!("hostile.{stage}.{}.{number}", tasks.len());
                    let (end, answers) = (Instant::now() + *length, Rc::clone(&answers));
                    let client = client(*filling, asker, name, end, answers);
                    tasks.push(tokio::task::spawn_local(client));
                }
            }
            for task in tasks {
                task.await.expect("a client");
            }
        });
        let mut more = answers.borrow().clone();
        for (code, count) in &mut more {
            *count -= before.get(code).copied().unwrap_or_default();
        }
        println!("  {fillings:?}: {more:?}");
    }
    answers.take()
}

async fn client(
    filling: Filling,
    mut asker: Asker,
    name: String,
    end: Instant,
    answers: Rc<RefCell<Counts>>,
) {
    for number in 0.. {
        let sent = Instant::now();
        if sent >= end {
            return;
        }
        let asked = filling
            .send(&mut asker, &format!("{name}.{number}"), PATIENCE)
            .await;
        let is_gone = asked.is_err();
        count(&mut answers.borrow_mut(), word(&asked, sent.elapsed()));
        if is_gone {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// `ok` for a success, the code of a refusal, or the reason why there is no response.
fn word(asked: &Result<Reply, Failure>, after: Duration) -> String {
    match asked {
        Ok(answer) if matches!(answer.status, 200 | 201) => "ok".to_owned(),
        Ok(answer) => answer.code(),
        Err(_) if after >= PATIENCE => "no answer".to_owned(),
        Err(Failure::Refused(_)) => "connection refused".to_owned(),
        Err(Failure::Unknown(_)) => "connection closed".to_owned(),
    }
}

fn word_at(request: Request) -> String {
    let sent = Instant::now();
    let asked = request.patience(PATIENCE).send();
    word(&asked, sent.elapsed())
}

fn value_at(cluster: &Cluster, node: usize) -> String {
    word_at(http::post(&cluster.url(node, "/v1/sequences/order/next")))
}

/// The lines of a node's metrics that give its bytes on disk.
fn storage_bytes(cluster: &Cluster, node: usize) -> String {
    let asked = http::get(&cluster.url(node, "/metrics")).patience(PATIENCE);
    let body = asked.send().map(|reply| reply.body).unwrap_or_default();
    let is_storage = |line: &&str| line.starts_with("seqd_storage_bytes");
    body.lines()
        .filter(is_storage)
        .collect::<Vec<_>>()
        .join(", ")
}
