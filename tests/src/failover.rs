//! A leader is lost in one of several ways: how long until the next strict value is acknowledged,
//! and until the requests that were under way are answered.

use std::time::Duration;

use crate::checkers::{Violation, linearizable, unique};
use crate::cluster::{Cluster, READY};
use crate::history::{At, History, Timeline, Values};
use crate::strikes::Strike;
use crate::workload::{Route, Workload};

/// How a leader is lost.
pub const LOSSES: [(&str, Strike); 4] = [
    ("killed", Strike::Killed),
    ("stopped", Strike::Stopped),
    ("cut", Strike::Cut),
    ("silent", Strike::Silent),
];

/// What was seen of one loss.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// From the loss to the first acknowledgement of a request that was sent after it.
    pub next: Duration,
    /// From the loss to the last answer to a request that was under way at a node that was not
    /// lost; nothing if none was.
    pub told: Option<Duration>,
    /// Terms that began; one is what it takes.
    pub terms: u64,
}

/// The time before a loss in which its load gets going.
const WARM: usize = 20;

/// Loses the leader of a cluster on links, lets a new one serve, and brings the old one back.
/// `clients` ask the nodes beside it for strict values of `order`, one after another.
pub fn lose_leader(cluster: &mut Cluster, loss: Strike, clients: usize) -> Result<Seen, Violation> {
    cluster.wait_ready();
    let leader = cluster.leader();
    let before = cluster.term();
    let timeline = Timeline::begin();
    let mut load = cluster.load(clients, Route::Fixed, 1, 0);
    load.urls.remove(leader);
    let workload = Workload::next(load, timeline, "order");
    workload.wait_for(WARM, READY);
    let lost = timeline.at();
    let in_force = loss.impose(cluster, leader);
    // Each client gets its next value: what was under way has been answered then.
    workload.wait_for(2 * clients + WARM, READY);
    let terms = cluster.term().saturating_sub(before);
    let history = workload.finish();
    in_force.heal(cluster)?;
    unique::numbers(&history)?;
    linearizable::strict(&history)?;
    seen(&history, lost, terms)
}

/// A cluster on links for losses of its leader.
pub fn cluster(nodes: usize) -> Cluster {
    Cluster::on_links(nodes, 0).ready().with_order()
}

fn seen(history: &History<Values>, lost: At, terms: u64) -> Result<Seen, Violation> {
    let acknowledged = history.iter().filter(|op| op.answer().is_some());
    let after = acknowledged.filter(|op| op.call >= lost);
    let next = after.map(|op| op.back.since(lost)).min();
    let nothing = || Violation::new("failover", "no value was acknowledged again");
    let next = next.ok_or_else(nothing)?;
    let under_way = history
        .iter()
        .filter(|op| op.call < lost && op.back >= lost);
    let told = under_way.map(|op| op.back.since(lost)).max();
    Ok(Seen { next, told, terms })
}
