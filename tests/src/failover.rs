//! Loses a leader in one of several ways, and measures the time until the next strict value is
//! acknowledged and until the pending requests are answered.

use std::time::Duration;

use serde_json::json;

use crate::checkers::{Violation, linearizable, unique};
use crate::cluster::{Cluster, READY};
use crate::faults::Paused;
use crate::history::{At, History, Timeline, Values};
use crate::links::{Condition, Pairs};
use crate::workload::{Load, Route, Workload};

/// The way in which a leader is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// `kill -9`: the kernel closes its connections and ports.
    Killed,
    /// SIGSTOP: the kernel still accepts data for it.
    Stopped,
    /// The links between the leader and the other nodes carry nothing. Its clients still reach it.
    Cut,
    /// The leader's host is gone: nothing responds any more, not even with a reset.
    Silent,
}

pub const LOSSES: [(&str, Loss); 4] = [
    ("killed", Loss::Killed),
    ("stopped", Loss::Stopped),
    ("cut", Loss::Cut),
    ("silent", Loss::Silent),
];

/// The measurements of one loss.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// The time from the loss to the first acknowledgement of a request that was sent after it.
    pub next: Duration,
    /// The time from the loss to the last response to a request that was pending at a node that was
    /// not lost. `None` if no request was pending.
    pub told: Option<Duration>,
    /// The number of terms that began. One is enough.
    pub terms: u64,
}

/// The number of values before a loss, after which the load is steady.
const WARM: usize = 20;

/// Loses the leader of a cluster on links, waits until a new leader serves, and brings the old one
/// back. `clients` request strict values of `order` from the other nodes, one after another.
pub fn lose_leader(cluster: &mut Cluster, loss: Loss, clients: usize) -> Result<Seen, Violation> {
    cluster.wait_ready();
    let leader = cluster.leader();
    let others: Vec<usize> = (0..cluster.size()).filter(|node| *node != leader).collect();
    let before = term(cluster, &others);
    let timeline = Timeline::begin();
    let load = Load {
        urls: others
            .iter()
            .map(|node| cluster.node(*node).url())
            .collect(),
        clients,
        route: Route::Fixed,
        count: 1,
        pause: Duration::ZERO,
    };
    let workload = Workload::next(load, timeline, "order");
    workload.wait_for(WARM, READY);
    let lost = timeline.at();
    let in_force = bring_about(cluster, loss, leader);
    // Each client gets its next value, so all pending requests have been answered by then.
    workload.wait_for(2 * clients + WARM, READY);
    let terms = term(cluster, &others).saturating_sub(before);
    let history = workload.finish();
    drop(in_force);
    if !cluster.node_mut(leader).is_running() {
        cluster.node_mut(leader).start();
    }
    unique::numbers(&history)?;
    linearizable::strict(&history)?;
    seen(&history, lost, terms)
}

/// A cluster on links for losses of its leader.
pub fn cluster(nodes: usize) -> Cluster {
    let cluster = Cluster::on_links(nodes, 0).ready();
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    cluster
}

/// A guard that ends a loss when it is dropped.
enum InForce {
    Process { _paused: Option<Paused> },
    Links { _fault: crate::links::Fault },
}

fn bring_about(cluster: &mut Cluster, loss: Loss, leader: usize) -> InForce {
    let nodes = cluster.size();
    let cut = |cluster: &Cluster, pairs| InForce::Links {
        _fault: cluster.links().impose(pairs, Condition::Cut),
    };
    match loss {
        Loss::Killed => {
            cluster.node_mut(leader).kill();
            InForce::Process { _paused: None }
        }
        Loss::Stopped => InForce::Process {
            _paused: Some(Paused::new(cluster.node(leader))),
        },
        Loss::Cut => cut(cluster, Pairs::around(&[leader], nodes)),
        Loss::Silent => {
            let silence = cut(cluster, Pairs::cables(&[leader]));
            cluster.node_mut(leader).kill();
            silence
        }
    }
}

fn seen(history: &History<Values>, lost: At, terms: u64) -> Result<Seen, Violation> {
    let acknowledged = history.iter().filter(|op| op.answer().is_some());
    let after = acknowledged.filter(|op| op.call >= lost);
    let Some(next) = after.map(|op| op.back.since(lost)).min() else {
        return Err(Violation::new(
            "failover",
            "no value was acknowledged again",
        ));
    };
    let under_way = history
        .iter()
        .filter(|op| op.call < lost && op.back >= lost);
    let told = under_way.map(|op| op.back.since(lost)).max();
    Ok(Seen { next, told, terms })
}

fn term(cluster: &Cluster, nodes: &[usize]) -> u64 {
    let term = |node: &usize| cluster.node(*node).cluster_view()?["term"].as_u64();
    nodes.iter().filter_map(term).max().unwrap_or_default()
}
