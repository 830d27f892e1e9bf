//! A large state: the cost of a snapshot under load, the cost of a new learner, and the time of a
//! start.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::http;
use seqd_tests::load::{self, Figures, Pace, Target};
use seqd_tests::memory;
use seqd_tests::wait;
use serde_json::json;

/// The number of connections that create the records, and that load the cluster afterwards.
const CLIENTS: usize = 64;

/// The length of each of the two alternating loads, enough for a snapshot of two million records,
/// and the number of turns.
const LOAD: Duration = Duration::from_secs(20);
const TURNS: usize = 3;

/// The largest increase that a snapshot may cause in the 99th percentile of a strict next.
const P99_MORE: Duration = Duration::from_millis(5);

/// The largest increase of a node's memory that a snapshot, or sending one, may cause, in bytes.
const MEMORY_MORE: u64 = 64 << 20;

/// The longest time from a start until the node is ready.
const OPENS_WITHIN: Duration = Duration::from_secs(5);

pub(crate) fn run(records: u64) -> Result<(), Violation> {
    let mut cluster = Cluster::started(3);
    let mut misses = Vec::new();
    create(&cluster, records);
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    snapshots_under_load(&cluster, &mut misses);
    a_learner_joins(&mut cluster, &mut misses);
    a_start(&mut cluster, &mut misses);
    if misses.is_empty() {
        return Ok(());
    }
    Err(Violation::new("scale", misses.join("; ")))
}

/// Creates sequences with names and descriptions of various lengths.
fn create(cluster: &Cluster, records: u64) {
    let next = AtomicU64::new(0);
    let requests = move || {
        let i = next.fetch_add(1, Ordering::Relaxed);
        (i < records).then(|| {
            // An odd multiplier spreads lengths and order deterministically.
            let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let name = format!("s{:x}.{}", mixed >> 40, "n".repeat((mixed % 41) as usize));
            let description = "d".repeat((mixed >> 8) as usize % 160);
            let body = json!({"mode": "segment", "description": description}).to_string();
            ("PUT", format!("/v1/sequences/{name}{i}"), body)
        })
    };
    let begin = Instant::now();
    let answered = load::each(&cluster.addresses(), CLIENTS * 4, requests);
    assert_eq!(answered, records, "records that were created");
    let took = begin.elapsed();
    println!(
        "{records} sequences created in {took:.1?} ({:.0}/s)",
        records as f64 / took.as_secs_f64()
    );
}

/// The two loads alternate, so that other slowdowns of the machine affect both.
fn snapshots_under_load(cluster: &Cluster, misses: &mut Vec<String>) {
    let target = Target {
        addresses: cluster.addresses(),
        method: "POST",
        path: "/v1/sequences/order/next".into(),
        cacert: None,
    };
    let leader = cluster.leader();
    let pid = cluster.node(leader).pid();
    let url = cluster.url(leader, "/v1/cluster/snapshot");
    let measured = || memory::most_during(pid, || load::run(&target, CLIENTS, Pace::Closed, LOAD));
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut more_memory = 0;
    for _ in 0..TURNS {
        without.push(measured());
        // The memory that the load itself needs is in use by then.
        let before = memory::resident(pid);
        let turn = beside_downloads(&url, measured);
        more_memory = more_memory.max(turn.1.saturating_sub(before));
        with.push(turn);
    }
    let all = |turns: Vec<(Figures, u64)>| {
        let most = turns.iter().map(|(_, memory)| *memory).max();
        let figures = turns.into_iter().map(|(figures, _)| figures);
        (Figures::of_all(figures), most.unwrap_or(0))
    };
    let (without, before) = all(without);
    let (with, during) = all(with);
    show("without a snapshot", &without, before);
    show("while snapshots are taken", &with, during);
    let more = with.quantile(0.99).saturating_sub(without.quantile(0.99));
    if more > P99_MORE {
        misses.push(format!("a snapshot adds {more:?} to the p99"));
    }
    memory_more("a snapshot", more_memory, misses);
}

/// Runs `work` while snapshots are taken and downloaded, one after another.
fn beside_downloads<T>(url: &str, work: impl FnOnce() -> T) -> T {
    let download = || {
        let begin = Instant::now();
        let bytes = http::get(url).patience(Duration::from_secs(120)).length();
        (begin.elapsed(), bytes)
    };
    let (result, downloads) = wait::beside(download, work);
    for (took, bytes) in downloads {
        println!("snapshot of {bytes} bytes taken and sent in {took:.1?}");
    }
    result
}

fn show(what: &str, figures: &Figures, memory: u64) {
    println!(
        "strict next, {CLIENTS} clients, {what}: {:.0}/s  p50 {:.1?}  p99 {:.1?}  p99.9 {:.1?}  \
         leader's memory at most {} MiB",
        figures.rate(),
        figures.quantile(0.5),
        figures.quantile(0.99),
        figures.quantile(0.999),
        memory >> 20
    );
}

fn memory_more(what: &str, more: u64, misses: &mut Vec<String>) {
    println!("{what}: {} MiB more at the leader", more >> 20);
    if more > MEMORY_MORE {
        misses.push(format!("{what} takes {} MiB more", more >> 20));
    }
}

fn a_learner_joins(cluster: &mut Cluster, misses: &mut Vec<String>) {
    let stranger = cluster.add_stranger("n4");
    cluster.node_mut(stranger).start();
    let leader = cluster.leader();
    let pid = cluster.node(leader).pid();
    let before = memory::resident(pid);
    let (took, during) = memory::most_during(pid, || {
        cluster.add_member(stranger, leader);
        cluster.wait_ready_of(&[stranger], Duration::from_secs(180))
    });
    println!("a learner is ready after {took:.1?}");
    memory_more("a learner", during.saturating_sub(before), misses);
    cluster.wait_same_state(&[leader, stranger]);
}

fn a_start(cluster: &mut Cluster, misses: &mut Vec<String>) {
    let follower = cluster.follower();
    for (how, clean) in [("a clean stop", true), ("kill -9", false)] {
        let node = cluster.node_mut(follower);
        if clean {
            node.stop();
        } else {
            node.kill();
        }
        let begin = Instant::now();
        node.start();
        cluster.wait_ready_of(&[follower], Duration::from_secs(120));
        let took = begin.elapsed();
        println!("ready after {how}: {took:.2?}");
        if took > OPENS_WITHIN {
            misses.push(format!("a start after {how} takes {took:?}"));
        }
    }
}
