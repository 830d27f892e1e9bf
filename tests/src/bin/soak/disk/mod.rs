//! Small disks that clients fill at full speed, by every method in turn and then by all together.
//! No node may exit, requests that need space must be refused in time, and service must be back
//! soon after space is freed.
//!
//! One round uses the default limits, another one the largest limits, so that the disk is full
//! before they are reached. A ballast on each disk is removed to free space.

mod verdict;

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use seqd_tests::asker::{Answer, Asker, Unanswered};
use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::http;
use seqd_tests::loop_disk::{Ballast, FileSystem, cannot_mount};
use seqd_tests::{node_peaks, wait};
use serde_json::json;
use tokio::task::LocalSet;

use crate::arguments::Arguments;
use crate::filling::{FLOODED, Filling, MONTH_MS};
use verdict::{Answers, RECOVERY, Seen, reasons};

/// The filling methods. Each runs alone with this many connections.
const FILLINGS: [Filling; 6] = [
    Filling::Result { ttl_ms: 1_000 },
    Filling::Result { ttl_ms: MONTH_MS },
    Filling::KeyedRequest,
    Filling::Lock,
    Filling::Sequence,
    Filling::OneTimeTokens,
];
const CONNECTIONS: usize = 48;

/// The connections of each method when all fill together.
const TOGETHER: usize = 16;

/// The limits of the round in which the disk is full first: each at its largest value.
const RAISED: [(&str, &str); 7] = [
    ("keys", "4000000"),
    ("key_bytes", "1073741824"),
    ("tokens", "4000000"),
    ("locks", "1000000"),
    ("sequences", "10000000"),
    ("answer_ttl", "\"30d\""),
    ("tenant_share", "\"100%\""),
];

/// Longer than a node's own time limit of 3 s, so that a missing response is the node's fault and
/// not the client's.
const PATIENCE: Duration = Duration::from_secs(5);

/// The interval between two requests during the filling.
const EVERY: Duration = Duration::from_millis(500);

/// The pause of a client before it retries an unreachable node.
const PAUSE: Duration = Duration::from_millis(100);

/// The ballast takes one part in this many of each disk.
const BALLAST: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limits {
    Shipped,
    Raised,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow(&["--seconds", "--disk-mb", "--fs", "--with", "--limits"]);
    let length = Duration::from_secs(arguments.value("--seconds", 1_800));
    let bytes = arguments.value("--disk-mb", 1_024_u64) << 20;
    let name = arguments.text("--fs").unwrap_or("ext4");
    let kind = FileSystem::named(name).unwrap_or_else(|| panic!("--fs {name} is not understood"));
    if let Some(why) = cannot_mount(kind) {
        return Err(Violation::new("a disk of its own", why));
    }
    let rounds = match arguments.text("--limits") {
        None => vec![Limits::Shipped, Limits::Raised],
        Some("shipped") => vec![Limits::Shipped],
        Some("raised") => vec![Limits::Raised],
        Some(other) => panic!("--limits {other} is not understood; shipped, raised are"),
    };
    let binary = arguments.text("--with").map(Path::new);
    let each = length / rounds.len() as u32;
    let mut complaints = Vec::new();
    for limits in rounds {
        let (mib, seconds) = (bytes >> 20, each.as_secs());
        println!("limits {limits:?}: {mib} MiB of {kind} at each node, filled for {seconds} s");
        let seen = round(binary, limits, kind, bytes, each);
        report(&seen);
        let found = reasons(&seen).into_iter();
        complaints.extend(found.map(|reason| format!("limits {limits:?}: {reason}")));
    }
    if complaints.is_empty() {
        return Ok(());
    }
    Err(Violation::new("bounded disks", complaints.join("; ")))
}

fn round(
    binary: Option<&Path>,
    limits: Limits,
    kind: FileSystem,
    bytes: u64,
    length: Duration,
) -> Seen {
    let (cluster, ballast) = cluster(binary, limits, kind, bytes);
    let (((filling, probes), peaks), storage) = {
        let probe = || {
            std::thread::sleep(EVERY);
            probe(&cluster)
        };
        let filled = || wait::beside(probe, || fill(&cluster.addresses(), length));
        (
            node_peaks::during(&cluster, filled),
            storage_bytes(&cluster),
        )
    };
    storage.iter().for_each(|line| println!("  {line}"));
    drop(ballast);
    let begin = Instant::now();
    let back = wait::within(RECOVERY, || {
        let every = (0..cluster.size()).all(|node| value_at(&cluster, node) == "ok");
        every.then(|| begin.elapsed())
    });
    let mut seen = Seen {
        is_disk_the_end: limits == Limits::Raised,
        filling,
        peaks,
        back_after: back.filter(|after| *after <= RECOVERY),
        ..Seen::default()
    };
    for (value, id) in probes.into_iter().flatten() {
        *seen.values.entry(value).or_default() += 1;
        *seen.ids.entry(id).or_default() += 1;
    }
    seen
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
            // Another build may lack these keys, and refuses unknown keys.
            let is_there = binary.is_none() || !matches!(key, "tenant_share" | "sequences");
            if limits == Limits::Raised && is_there {
                node.set("limits", key, value);
            }
        }
    }
    let disks = (0..cluster.size()).map(|index| cluster.disk_mut(index).take(bytes / BALLAST));
    let ballast = disks.collect();
    let cluster = cluster.ready();
    for name in ["order", FLOODED] {
        cluster.create_sequence(0, name, &json!({"mode": "strict"}));
    }
    (cluster, ballast)
}

/// Fills for this long: one stage for each method, and one for all of them, which takes half of the
/// time.
fn fill(addresses: &[String], length: Duration) -> Answers {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let answers = Rc::new(RefCell::new(Answers::new()));
    runtime
        .expect("a runtime")
        .block_on(LocalSet::new().run_until(async {
            let alone = FILLINGS.map(|one| vec![(one, CONNECTIONS)]);
            let together = FILLINGS.map(|one| (one, TOGETHER)).to_vec();
            for (stage, fillings) in alone.into_iter().chain([together]).enumerate() {
                let length = match fillings.len() {
                    1 => length / 2 / FILLINGS.len() as u32,
                    _ => length / 2,
                };
                let end = Instant::now() + length;
                let before = answers.borrow().clone();
                let mut tasks = Vec::new();
                for (filling, connections) in &fillings {
                    for number in 0..*connections {
                        let address = &addresses[number % addresses.len()];
                        let asker = Asker::new(std::slice::from_ref(address));
                        let name = format!("hostile.{stage}.{}.{number}", tasks.len());
                        let answers = Rc::clone(&answers);
                        let client = client(*filling, asker, name, end, answers);
                        tasks.push(tokio::task::spawn_local(client));
                    }
                }
                for task in tasks {
                    task.await.expect("a client");
                }
                let now = answers.borrow();
                let more =
                    |code: &String| now[code] - before.get(code).copied().unwrap_or_default();
                let more: Answers = now.keys().map(|code| (code.clone(), more(code))).collect();
                println!("  {length:.0?} of {fillings:?}: {more:?}");
            }
        }));
    answers.take()
}

async fn client(
    filling: Filling,
    mut asker: Asker,
    name: String,
    end: Instant,
    answers: Rc<RefCell<Answers>>,
) {
    for number in 0.. {
        let sent = Instant::now();
        if sent >= end {
            return;
        }
        let name = format!("{name}.{number}");
        let asked = filling.send(&mut asker, &name, PATIENCE).await;
        let is_gone = asked.is_err();
        let word = word_of(&asked, sent.elapsed());
        *answers.borrow_mut().entry(word).or_default() += 1;
        if is_gone {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn word_of(asked: &Result<Answer, Unanswered>, after: Duration) -> String {
    match asked {
        Ok(answer) if matches!(answer.status, 200 | 201) => "ok".to_owned(),
        Ok(answer) => answer.code(),
        Err(_) if after >= PATIENCE => "no answer".to_owned(),
        Err(Unanswered::Unsent) => "connection refused".to_owned(),
        Err(Unanswered::Unknown) => "connection closed".to_owned(),
    }
}

/// The responses of each node to a request for a strict value and for an ID.
fn probe(cluster: &Cluster) -> Vec<(String, String)> {
    let nodes = 0..cluster.size();
    let asked = nodes.map(|node| {
        let id = http::get(&cluster.url(node, "/v1/id"));
        (value_at(cluster, node), word(id))
    });
    asked.collect()
}

fn value_at(cluster: &Cluster, node: usize) -> String {
    word(http::post(&cluster.url(node, "/v1/sequences/order/next")))
}

fn word(request: http::Request) -> String {
    match request.patience(PATIENCE).send() {
        Ok(reply) if reply.status == 200 => "ok".to_owned(),
        Ok(reply) => reply.code(),
        Err(http::Failure::Refused(_)) => "connection refused".to_owned(),
        Err(http::Failure::Unknown(_)) => "no answer".to_owned(),
    }
}

/// The lines of each node's metrics with its bytes on disk.
fn storage_bytes(cluster: &Cluster) -> Vec<String> {
    let lines = (0..cluster.size()).map(|node| {
        let asked = http::get(&cluster.url(node, "/metrics")).patience(PATIENCE);
        let body = asked.send().map(|reply| reply.body).unwrap_or_default();
        let lines = body
            .lines()
            .filter(|line| line.starts_with("seqd_storage_bytes"));
        let lines: Vec<&str> = lines.collect();
        format!("n{}: {}", node + 1, lines.join(", "))
    });
    lines.collect()
}

fn report(seen: &Seen) {
    println!("  strict values beside: {:?}", seen.values);
    println!("  IDs beside: {:?}", seen.ids);
    for peak in &seen.peaks {
        println!("  {peak}");
    }
    match seen.back_after {
        Some(after) => println!("  every node gives strict values {after:.1?} after room was made"),
        None => println!("  no service at every node {RECOVERY:?} after room was made"),
    }
}
