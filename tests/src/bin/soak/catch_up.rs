//! A follower that was down during many writes returns on a slow cable, or a new learner is added
//! there, under load. Measures the time until it has caught up with the leader, and the memory of
//! both meanwhile.

use std::time::{Duration, Instant};

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::link_runs::MOST_MEMORY;
use seqd_tests::load::{Figures, Target, each};
use seqd_tests::report::Report;
use seqd_tests::{links, node_peaks, wait};
use serde_json::json;

use crate::arguments::Arguments;

/// The longest description of a sequence, in bytes; most of the written data are descriptions.
const DESCRIPTION: usize = 1024;

/// Sequences per MiB of state. Further writes create these sequences again, which adds log entries
/// but changes nothing.
const SEQUENCES_A_MIB: u64 = 1_000;

/// After this many entries, in addition to those between two snapshots, no leader has the first
/// entry in its log any more: a node that lacks it receives a snapshot.
const SURELY_PURGED: u64 = 13_000;

/// The time limit of these entries, which take minutes on a slow disk.
const PURGED_WITHIN: Duration = Duration::from_secs(900);

/// The connections of the writes, and those of the load.
const WRITERS: usize = 64;
const CLIENTS: usize = 8;

/// A slice of the load; the next one follows at once.
const SLICE: Duration = Duration::from_secs(2);

/// A node that lags by this many entries has caught up: a second of the load.
const LEVEL: u64 = 500;

/// A ready node lags by less than this: some seconds of the load.
const READY_WITHIN: u64 = 5_000;

/// The time limit in seconds.
const PATIENCE_S: u64 = 900;

/// The node that has to catch up.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behind {
    /// A follower that was down while everything was written.
    Returning,
    /// A node that was added after that.
    Learner,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    node: Behind,
    /// The size of the state, and of all writes.
    state_mib: u64,
    mib: u64,
    mbit: u64,
    /// Requests for strict values per second.
    rate: u64,
    /// Entries between two snapshots.
    snapshot_every: u64,
    patience: Duration,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--mib --state-mib --mbit --rate --every --node --patience");
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

/// Starts three nodes, after many writes and a purge that one of them, or a fourth, lacks. Returns
/// the leader and the node that has to catch up.
fn prepared(case: Case) -> (Cluster, usize, usize) {
    let every = case.snapshot_every.to_string();
    let cluster = Cluster::on_links(3, 1).with("raft", "snapshot_every", &every);
    let mut cluster = cluster.ready();
    cluster = cluster.with_order();
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
    let target = Target::order(vec![cluster.address(leader)]);
    wait::until("a log without its begin", PURGED_WITHIN, || {
        let is_purged = applied()? >= case.snapshot_every + SURELY_PURGED;
        if !is_purged {
            target.closed(WRITERS, SLICE);
        }
        is_purged.then_some(())
    });
    (cluster, leader, behind)
}

/// Measures one node on a slow cable, after many writes without it.
fn behind(case: Case) -> Result<(), Violation> {
    let (mut cluster, leader, behind) = prepared(case);
    let _slow = cluster.links().slow(&[behind], case.mbit as f64 * 1e6);
    let target = Target::order(vec![cluster.address(leader)]);
    let slice = || target.open(CLIENTS, case.rate as f64, SLICE);
    let begin = Instant::now();
    cluster.node_mut(behind).start();
    if case.node == Behind::Learner {
        cluster.add_member(behind, leader);
    }
    let (mut early, mut deepest) = (0, 0);
    let wait_level = || {
        wait::within(case.patience, || {
            let lag = lag(&cluster, leader, behind)?;
            deepest = lag.max(deepest);
            if lag > LEVEL && cluster.node(behind).is_ready() {
                early = lag.max(early);
            }
            (lag <= LEVEL).then(|| begin.elapsed())
        })
    };
    let watched = || node_peaks::during(&cluster, wait_level);
    let ((level, peaks), slices) = wait::beside(slice, watched);
    let load = Figures::of_all(slices);
    println!("{case:?}: {deepest} entries behind, level after {level:.1?}; the load: {load}");
    let mut report = Report::default();
    node_peaks::judge(&peaks, MOST_MEMORY, &mut report);
    let detail = format!("not within {:?} at {} Mbit/s", case.patience, case.mbit);
    report.require(level.is_some(), "a follower catches up", detail);
    report.at_most("ready is level", early, READY_WITHIN);
    report.verdict()?;
    let nodes: Vec<usize> = (0..cluster.size()).collect();
    cluster.wait_same_state(&nodes);
    Ok(())
}

/// Writes the case's MiB of descriptions through the leader.
fn write(leader: &str, case: Case) {
    let writes = (case.mib << 20) / DESCRIPTION as u64;
    let sequences = case.state_mib * SEQUENCES_A_MIB;
    each(&[leader.to_owned()], WRITERS, 0..writes, |number| {
        let name = number % sequences;
        let path = format!("/v1/sequences/made{name}");
        let words = format!("{name:.<DESCRIPTION$}");
        let body = json!({"mode": "strict", "description": words});
        ("PUT", path, body.to_string())
    });
}

/// The number of entries by which a node lags, if both nodes answer.
fn lag(cluster: &Cluster, leader: usize, behind: usize) -> Option<u64> {
    let applied = |node: usize| cluster.node(node).cluster_view()?["applied"].as_u64();
    let own = applied(behind)?;
    Some(applied(leader)?.saturating_sub(own))
}
