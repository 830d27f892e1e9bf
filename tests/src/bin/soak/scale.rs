//! A large state: the cost of a snapshot under load, the cost of a new learner, and the time to
//! open the state.

use std::ops::Range;
use std::time::{Duration, Instant};

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::http;
use seqd_tests::load::{self, Figures, Target};
use seqd_tests::report::Report;
use seqd_tests::{memory, wait};
use serde_json::{Value, json};

/// Connections that create the records, and that load the cluster afterwards.
const CLIENTS: usize = 64;

/// The length of each load in its turn: long enough for a snapshot of two million records.
const LOAD: Duration = Duration::from_secs(20);
const TURNS: usize = 3;

/// The permitted effect of a snapshot on the 99th percentile of a strict next.
const P99_MORE: Duration = Duration::from_millis(5);

/// The permitted effect of a snapshot, or of sending one, on the memory of a node.
const MEMORY_MORE: u64 = 64 << 20;

/// The time limit from a start until the node is ready.
const OPENS_WITHIN: Duration = Duration::from_secs(5);

pub(crate) fn run(records: u64) -> Result<(), Violation> {
    let mut report = Report::default();
    let mut cluster = with_room(Cluster::planned(3)).ready();
    create(&cluster, 0..records, mixed);
    cluster = cluster.with_order();
    snapshots_under_load(&cluster, &mut report);
    a_learner_joins(&mut cluster, &mut report);
    a_start(&mut cluster, &mut report);
    report.verdict()
}

/// Raises the limits of sequences, all of which may be of one client.
pub(crate) fn with_room(cluster: Cluster) -> Cluster {
    let cluster = cluster.with("limits", "sequences", "10000000");
    cluster.with("limits", "tenant_share", "\"100%\"")
}

/// Creates the sequences of these numbers, each with a name and a definition.
pub(crate) fn create(
    cluster: &Cluster,
    numbers: Range<u64>,
    sequence: impl Fn(u64) -> (String, Value),
) {
    let (begin, count) = (Instant::now(), numbers.end - numbers.start);
    load::each(&cluster.addresses(), CLIENTS * 4, numbers, |number| {
        let (name, definition) = sequence(number);
        let path = format!("/v1/sequences/{name}");
        ("PUT", path, definition.to_string())
    });
    let took = begin.elapsed();
    let rate = count as f64 / took.as_secs_f64();
    println!("{count} sequences created in {took:.1?} ({rate:.0}/s)");
}

/// A name and a description of mixed length.
fn mixed(number: u64) -> (String, Value) {
    // An odd multiplier spreads lengths and order deterministically.
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let padding = "n".repeat((mixed % 41) as usize);
    let description = "d".repeat((mixed >> 8) as usize % 160);
    let name = format!("s{:x}.{padding}{number}", mixed >> 40);
    (name, json!({"mode": "segment", "description": description}))
}

/// The two loads take turns, so that other load of the machine affects both.
fn snapshots_under_load(cluster: &Cluster, report: &mut Report) {
    let target = Target::order(cluster.addresses());
    let leader = cluster.leader();
    let pid = cluster.node(leader).pid();
    let url = cluster.url(leader, "/v1/cluster/snapshot");
    let measured = || memory::most_during(pid, || target.closed(CLIENTS, LOAD));
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut more_memory = 0;
    for _ in 0..TURNS {
        without.push(measured());
        // The memory of the load itself is already included.
        let before = memory::resident(pid);
        let turn = beside_downloads(&url, measured);
        more_memory = more_memory.max(turn.1.saturating_sub(before));
        with.push(turn);
    }
    let all = |what: &str, turns: Vec<(Figures, u64)>| {
        let (figures, memory): (Vec<_>, Vec<_>) = turns.into_iter().unzip();
        let (figures, most) = (Figures::of_all(figures), memory.into_iter().max());
        println!(
            "strict next, {CLIENTS} clients, {what}: {figures}  p99.9 {:.1?}  leader's memory at most {} MiB",
            figures.quantile(0.999),
            most.unwrap_or(0) >> 20
        );
        figures.quantile(0.99)
    };
    let without = all("without a snapshot", without);
    let more = all("while snapshots are taken", with).saturating_sub(without);
    report.at_most("what a snapshot adds to the p99", more, P99_MORE);
    memory_more("a snapshot", more_memory, report);
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

fn memory_more(what: &str, more: u64, report: &mut Report) {
    println!("{what}: {} MiB more at the leader", more >> 20);
    report.at_most("the memory of a snapshot", more, MEMORY_MORE);
}

fn a_learner_joins(cluster: &mut Cluster, report: &mut Report) {
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
    memory_more("a learner", during.saturating_sub(before), report);
    cluster.wait_same_state(&[leader, stranger]);
}

fn a_start(cluster: &mut Cluster, report: &mut Report) {
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
        report.at_most("the time of a start", took, OPENS_WITHIN);
    }
}
