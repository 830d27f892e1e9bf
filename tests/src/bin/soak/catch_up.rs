//! Catch-up over a slow cable under load: a follower that was down while much was written returns,
//! or a new learner is added. Measures the time until it is level with the leader, and the memory
//! of both nodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::link_runs::MOST_MEMORY;
use seqd_tests::load::{Pace, Target, each, run as load};
use seqd_tests::{links, memory, wait};
use serde_json::json;

use crate::arguments::Arguments;

/// The longest description of a sequence, in bytes, which makes up most of the written data.
const DESCRIPTION: usize = 1024;

/// The number of sequences per MiB of state. Further writes create them again, which adds an entry
/// to the log and changes nothing.
const SEQUENCES_A_MIB: u64 = 1_000;

/// The number of entries, in addition to those between two snapshots, after which no leader has the
/// first entry in its log any more. A node without it is sent a snapshot.
const SURELY_PURGED: u64 = 13_000;

/// The connections that write, and those of the load.
const WRITERS: usize = 64;
const CLIENTS: usize = 8;

/// The length of a slice of the load. The next slice follows at once.
const SLICE: Duration = Duration::from_secs(2);

/// The number of entries within which a node counts as level: a second of the load.
const LEVEL: u64 = 500;

/// The largest lag of a ready node in entries: some seconds of the load.
const READY_WITHIN: u64 = 5_000;

/// The time limit for the catch-up, in seconds.
const PATIENCE_S: u64 = 900;

/// The node that has to catch up.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behind {
    /// A follower that was down while everything was written.
    Returning,
    /// A node that was added afterwards.
    Learner,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    node: Behind,
    /// The size of the state, and the total size of the writes.
    state_mib: u64,
    mib: u64,
    mbit: u64,
    /// The number of strict values requested per second.
    rate: u64,
    /// The number of entries between two snapshots.
    snapshot_every: u64,
    patience: Duration,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow(&[
        "--mib",
        "--state-mib",
        "--mbit",
        "--rate",
        "--every",
        "--node",
        "--patience",
    ]);
    if let Some(why) = links::unavailable() {
        return Err(Violation::new("links", why));
    }
    let nodes = match arguments.value("--node", "both".to_owned()).as_str() {
        "both" => vec![Behind::Returning, Behind::Learner],
        "returning" => vec![Behind::Returning],
        "learner" => vec![Behind::Learner],
        other => {
            let why = format!("`--node {other}`: returning, learner or both");
            return Err(Violation::new("arguments", why));
        }
    };
    let rates = match arguments.value("--mbit", 0) {
        0 => vec![100, 12],
        one => vec![one],
    };
    for mbit in rates {
        for node in &nodes {
            behind(Case {
                node: *node,
                state_mib: arguments.value("--state-mib", 30),
                mib: arguments.value("--mib", 200),
                mbit,
                rate: arguments.value("--rate", 500),
                snapshot_every: arguments.value("--every", 20_000),
                patience: Duration::from_secs(arguments.value("--patience", PATIENCE_S)),
            })?;
        }
    }
    Ok(())
}

/// Three nodes with much written and purged, which one of them, or a fourth one, lacks. Returns the
/// cluster, the leader and the node that lags behind.
fn prepared(case: Case) -> (Cluster, usize, usize) {
    let every = case.snapshot_every.to_string();
    let cluster = Cluster::on_links(3, 1).with("raft", "snapshot_every", &every);
    let mut cluster = cluster.ready();
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let leader = cluster.leader();
    let behind = match case.node {
        Behind::Returning => (leader + 1) % 3,
        Behind::Learner => cluster.add_stranger("n4"),
    };
    if case.node == Behind::Returning {
        cluster.node_mut(behind).kill();
    }
    write(&cluster.address(leader), case);
    let applied = || cluster.node(leader).cluster_view()?["applied"].as_u64();
    let target = strict_values(&cluster.address(leader));
    while applied().unwrap_or(0) < case.snapshot_every + SURELY_PURGED {
        load(&target, WRITERS, Pace::Closed, SLICE);
    }
    (cluster, leader, behind)
}

/// Runs one case: a node behind a slow cable, after much was written without it.
fn behind(case: Case) -> Result<(), Violation> {
    let (mut cluster, leader, behind) = prepared(case);
    let _slow = cluster.links().slow(&[behind], case.mbit as f64 * 1e6);
    let target = strict_values(&cluster.address(leader));
    let slice = || load(&target, CLIENTS, Pace::Open(case.rate as f64), SLICE);
    let begin = Instant::now();
    cluster.node_mut(behind).start();
    if case.node == Behind::Learner {
        cluster.add_member(behind, leader);
    }
    let (early, deepest) = (AtomicU64::new(0), AtomicU64::new(0));
    let (level, (most, slices)) = {
        let cluster = &cluster;
        let wait_level = || {
            wait::within(case.patience, || {
                let lag = lag(cluster, leader, behind)?;
                deepest.fetch_max(lag, Ordering::Relaxed);
                if lag > LEVEL && cluster.node(behind).is_ready() {
                    early.fetch_max(lag, Ordering::Relaxed);
                }
                (lag <= LEVEL).then_some(())
            })
        };
        let watched = || wait::beside(|| most_memory(cluster), wait_level);
        let ((level, most), slices) = wait::beside(slice, watched);
        (level, (most, slices))
    };
    let took = begin.elapsed();
    let answers: u64 = slices.iter().map(|slice| slice.answers).sum();
    let loaded: Duration = slices.iter().map(|slice| slice.elapsed).sum();
    let most = most.into_iter().max().unwrap_or_default();
    println!(
        "{case:?}: {} entries behind, level after {took:.1?} under {:.0} values/s; {} MiB in a \
         node at most",
        deepest.into_inner(),
        answers as f64 / loaded.as_secs_f64(),
        most >> 20
    );
    if level.is_none() {
        let detail = format!(
            "not level after {:?} at {} Mbit/s",
            case.patience, case.mbit
        );
        return Err(Violation::new("a follower catches up", detail));
    }
    if most > MOST_MEMORY {
        let detail = format!("{} MiB", most >> 20);
        return Err(Violation::new("bounded memory", detail));
    }
    let early = early.into_inner();
    if early > READY_WITHIN {
        let detail = format!("it was ready {early} entries behind");
        return Err(Violation::new("ready is level", detail));
    }
    let nodes: Vec<usize> = (0..cluster.size()).collect();
    cluster.wait_same_state(&nodes);
    Ok(())
}

/// Writes this many MiB of descriptions through the leader.
fn write(leader: &str, case: Case) {
    let writes = (case.mib << 20) / DESCRIPTION as u64;
    let sequences = case.state_mib * SEQUENCES_A_MIB;
    let next = AtomicU64::new(0);
    let written = each(&[leader.to_owned()], WRITERS, || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let name = number % sequences;
        let path = format!("/v1/sequences/made{name}");
        let words = format!("{name:.<DESCRIPTION$}");
        let body = json!({"mode": "strict", "description": words});
        (number < writes).then(|| ("PUT", path, body.to_string()))
    });
    assert_eq!(written, writes, "of all writes");
}

fn strict_values(leader: &str) -> Target {
    Target {
        addresses: vec![leader.to_owned()],
        method: "POST",
        path: "/v1/sequences/order/next".to_owned(),
        cacert: None,
    }
}

/// The lag of the node in entries, if both nodes respond.
fn lag(cluster: &Cluster, leader: usize, behind: usize) -> Option<u64> {
    let applied = |node: usize| cluster.node(node).cluster_view()?["applied"].as_u64();
    let own = applied(behind)?;
    Some(applied(leader)?.saturating_sub(own))
}

fn most_memory(cluster: &Cluster) -> u64 {
    std::thread::sleep(Duration::from_millis(100));
    let nodes = 0..cluster.size();
    let bytes = nodes.map(|node| memory::resident(cluster.node(node).pid()));
    bytes.max().unwrap_or_default()
}
