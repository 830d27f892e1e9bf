//! Loses a leader in one of several ways. Measures the time until the next strict value is
//! acknowledged, and until pending requests are answered.

use std::time::Duration;

use crate::checkers::{Violation, linearizable, unique};
use crate::cluster::{Cluster, READY};
use crate::history::{At, History, Timeline, Values};
use crate::strikes::Strike;
use crate::workload::{Route, Workload};

/// The ways to lose a leader.
pub const LOSSES: [(&str, Strike); 4] = [
    ("killed", Strike::Killed),
    ("stopped", Strike::Stopped),
    ("cut", Strike::Cut),
    ("silent", Strike::Silent),
];

/// The measurements of one loss.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// The time from the loss to the first acknowledgement of a request that was sent after it.
    pub next: Duration,
    /// The time from the loss to the last response to a request that was pending at a node that was
    /// not lost; `None` if there was none.
    pub told: Option<Duration>,
    /// The number of terms that began; one is enough.
    pub terms: u64,
}

/// The number of acknowledged values before the loss.
const WARM: usize = 20;

/// Loses the leader of a cluster on links, lets a new leader serve, and brings the old one back.
/// `clients` request strict values of `order` from the other nodes, one after another.
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
    // Each client receives its next value, so the pending requests have been answered by then.
    workload.wait_for(2 * clients + WARM, READY);
    let terms = cluster.term().saturating_sub(before);
    let history = workload.finish();
    in_force.heal(cluster)?;
    unique::numbers(&history)?;
    linearizable::strict(&history)?;
    seen(&history, lost, terms)
}

/// A cluster on links whose leader can be lost.
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
