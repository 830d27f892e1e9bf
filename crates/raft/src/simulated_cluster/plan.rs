//! The faults of a run, drawn from its seed. Each fault has its own time, so some can be left out
//! without a change of the others.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use seqd_disk::simulated::Dice;
use tokio::time::{Instant, sleep};

use super::minters::Minting;
use super::net::{LAN, Link};
use super::nodes::Cluster;

/// Length of the period with faults, milliseconds. It allows many elections, and keeps a run short.
const FAULTS_MS: std::ops::Range<u64> = 5_000..15_000;

/// Length of the period with faults in a long life, milliseconds. One seed in eight has a long
/// life, for effects that take minutes to expire or accumulate.
const LONG_MS: std::ops::Range<u64> = 60_000..420_000;
const LONG_EVERY: u64 = 8;

/// In a long life, the factor for the number of faults, for the longest duration of a fault, and
/// for the pauses of clients.
const LONG_MORE: u64 = 6;

/// The largest drift of a clock, millionths: the most that NTP corrects.
const DRIFT: u64 = 500;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) founders: usize,
    /// Nodes that are not founders and may be added.
    pub(super) others: usize,
    pub(super) clients: usize,
    /// The factor for the clients' pauses; 1 in a short life.
    pub(super) pauses: u64,
    pub(super) snapshot_every: u64,
    pub(super) everywhere: Link,
    /// Duration of a write with its sync.
    pub(super) sync: Duration,
    pub(super) until: Duration,
    /// The rate by which each node's wall clock runs faster, millionths.
    pub(super) drift_ppm: Vec<i64>,
    pub(super) minting: Minting,
    pub(super) faults: Vec<Planned>,
}

/// A fault, the time at which it begins, and its duration.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planned {
    pub(super) at: Duration,
    pub(super) lasts: Duration,
    pub(super) fault: Fault,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    /// The process is killed, and started again afterwards.
    Kill(usize),
    /// The host loses its power.
    PowerCut(usize),
    PowerCutOfAll,
    /// The operator stops the process.
    Stop(usize),
    Pause(usize),
    /// These nodes and the others are cut off from each other.
    Split(Vec<usize>),
    /// Messages from the first node do not reach the second.
    OneWay(usize, usize),
    Refuse(usize, usize),
    Reset(usize, usize),
    /// All links.
    Links(Link),
    /// All links of one node.
    LinksOf(usize, Link),
    Clock(usize, i64),
    SlowDisk(usize, Duration),
    HungDisk(usize),
    /// After this many syncs of the log, the next one fails, which ends the process.
    FailingDisk(usize, u64),
    /// The process is killed. When it starts, its checkpoint is gone and its newest snapshot is
    /// damaged.
    Damage(usize),
    MoveLeader,
    /// An empty node is added as a learner.
    Add(usize),
    Promote(usize),
    /// A node that is not a founder is removed and replaced by an empty machine.
    Remove(usize),
}

impl fmt::Display for Planned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, lasts, fault } = self;
        write!(
            out,
            "{:>7.3} s for {:.3} s: {fault:?}",
            at.as_secs_f64(),
            lasts.as_secs_f64()
        )
    }
}

fn link(dice: &mut Dice) -> Link {
    let delay = [0, 1, 5, 25, 50][dice.below(5) as usize];
    Link {
        delay: Duration::from_millis(delay).max(LAN.delay),
        jitter: Duration::from_millis(dice.below(delay + 1)).max(LAN.jitter),
        lost: [0, 0, 5, 20, 50][dice.below(5) as usize],
        bytes_per_s: [125_000_000, 12_500_000, 1_500_000, 125_000][dice.below(4) as usize],
    }
}

fn fault(dice: &mut Dice, founders: usize, others: usize) -> Fault {
    let all = (founders + others) as u64;
    let node = dice.below(all) as usize;
    let next = (node + 1 + dice.below(all - 1) as usize) % all as usize;
    let other = founders + dice.below(others.max(1) as u64) as usize;
    match dice.below(26) {
        0..=2 => Fault::Kill(node),
        3..=4 => Fault::PowerCut(node),
        5 => Fault::PowerCutOfAll,
        6 => Fault::Stop(node),
        7..=8 => Fault::Pause(node),
        9..=11 => {
            let side = (0..all as usize).filter(|_| dice.chance(6));
            Fault::Split(side.collect())
        }
        12..=13 => Fault::OneWay(node, next),
        14 => Fault::Refuse(node, next),
        15 => Fault::Reset(node, next),
        16 => Fault::Links(link(dice)),
        17 => Fault::LinksOf(node, link(dice)),
        18 => Fault::Clock(node, dice.below(8_000) as i64 - 4_000),
        19 => Fault::SlowDisk(node, Duration::from_millis(20 + dice.below(300))),
        20 => Fault::HungDisk(node),
        21 => Fault::FailingDisk(node, 0),
        22 => Fault::Damage(node),
        23 if others > 0 => Fault::Add(other),
        24 if others > 0 => Fault::Promote(other),
        25 if others > 0 => Fault::Remove(other),
        _ => Fault::MoveLeader,
    }
}

pub(super) fn is_long(seed: u64) -> bool {
    seed.is_multiple_of(LONG_EVERY)
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let founders = if dice.chance(4) { 5 } else { 3 };
        let others = usize::from(dice.chance(8));
        let (lives, more) = if is_long(seed) {
            (LONG_MS, LONG_MORE)
        } else {
            (FAULTS_MS, 1)
        };
        let until = lives.start + dice.below(lives.end - lives.start);
        let mut faults: Vec<Planned> = (0..(2 + dice.below(12)) * more)
            .map(|_| {
                let at = dice.below(until - 500);
                let most = [500, 2_000, 8_000 * more][dice.below(3) as usize];
                let lasts = 1 + dice.below(most);
                Planned {
                    at: Duration::from_millis(at),
                    lasts: Duration::from_millis(lasts.min(until - at)),
                    fault: fault(&mut dice, founders, others),
                }
            })
            .collect();
        if others > 0 {
            // Without this, most promotions and removals would fail.
            faults.push(Planned {
                at: Duration::from_millis(dice.below(3_000)),
                lasts: Duration::ZERO,
                fault: Fault::Add(founders),
            });
        }
        faults.sort_by_key(|planned| planned.at);
        let everywhere = if dice.chance(10) {
            LAN
        } else {
            link(&mut dice)
        };
        let drift_ppm = (0..founders + others).map(|_| dice.below(2 * DRIFT) as i64 - DRIFT as i64);
        let drift_ppm = drift_ppm.collect();
        Self {
            drift_ppm,
            minting: Minting::AsNodesDo,
            founders,
            others,
            clients: 2 + dice.below(5) as usize,
            pauses: more,
            snapshot_every: [50, 200, 1_000][dice.below(3) as usize],
            everywhere,
            sync: Duration::from_micros([200, 1_000, 10_000][dice.below(3) as usize]),
            until: Duration::from_millis(until),
            faults,
        }
    }

    pub(super) fn set_links(&self, cluster: &Cluster) {
        set_links(cluster, |_, _| true, self.everywhere);
    }
}

pub(super) fn set_links(cluster: &Cluster, of: impl Fn(usize, usize) -> bool, link: Link) {
    let nodes = cluster.spots.len();
    for from in 0..nodes {
        for to in (0..nodes).filter(|to| *to != from) {
            if of(from, to) {
                cluster.net.set_link(from, to, link);
            }
        }
    }
}

/// Injects one fault and ends it.
pub(super) async fn carry_out(cluster: Arc<Cluster>, plan: Arc<Plan>, number: usize) {
    let Planned { at, lasts, fault } = plan.faults[number].clone();
    let began = Instant::now();
    sleep(at).await;
    cluster.record.note(format!("+ {fault:?}"));
    begin(&cluster, &plan, &fault).await;
    sleep((at + lasts).saturating_sub(began.elapsed())).await;
    end(&cluster, &plan, &fault).await;
    if lasts > Duration::ZERO {
        cluster.record.note(format!("- {fault:?}"));
    }
}

async fn begin(cluster: &Arc<Cluster>, plan: &Plan, fault: &Fault) {
    let net = &cluster.net;
    match fault {
        Fault::Kill(node) => cluster.kill(*node, false),
        Fault::PowerCut(node) => cluster.kill(*node, true),
        Fault::PowerCutOfAll => {
            (0..cluster.spots.len()).for_each(|node| cluster.kill(node, true));
        }
        Fault::Stop(node) => cluster.stop(*node).await,
        Fault::Pause(node) => {
            if let Some(process) = cluster.process(*node) {
                process.scope.pause();
            }
        }
        Fault::Split(side) => split(cluster, side, |from, to| net.cut(from, to)),
        Fault::OneWay(from, to) => net.cut(*from, *to),
        Fault::Refuse(from, to) => net.refuse(*from, *to, true),
        Fault::Reset(one, other) => net.reset(*one, *other),
        Fault::Links(link) => set_links(cluster, |_, _| true, *link),
        Fault::LinksOf(node, link) => {
            set_links(cluster, |from, to| from == *node || to == *node, *link);
        }
        Fault::Clock(node, by_ms) => cluster.spots[*node].clock.step(*by_ms),
        Fault::SlowDisk(node, sync) => set_disk(cluster, *node, *sync, false),
        Fault::HungDisk(node) => set_disk(cluster, *node, plan.sync, true),
        Fault::FailingDisk(node, after) => cluster.fail_a_sync(*node, *after),
        Fault::Damage(node) => {
            cluster.kill(*node, false);
            cluster.damage_newest_snapshot(*node);
        }
        Fault::MoveLeader => super::clients::move_leader(cluster).await,
        Fault::Add(node) => super::clients::add(cluster, *node).await,
        Fault::Promote(node) => super::clients::promote(cluster, *node).await,
        Fault::Remove(node) => {
            if super::clients::remove(cluster, *node).await {
                cluster.replace(*node);
                cluster.start(*node).await;
            }
        }
    }
}

async fn end(cluster: &Arc<Cluster>, plan: &Plan, fault: &Fault) {
    let net = &cluster.net;
    match fault {
        Fault::FailingDisk(node, _) => {
            // If nothing was synced meanwhile, the planted error disappears with the process.
            cluster.kill(*node, false);
            cluster.start(*node).await;
            set_disk(cluster, *node, plan.sync, false);
        }
        Fault::Kill(node) | Fault::PowerCut(node) | Fault::Stop(node) | Fault::Damage(node) => {
            cluster.start(*node).await;
            set_disk(cluster, *node, plan.sync, false);
        }
        Fault::PowerCutOfAll => {
            for node in 0..cluster.spots.len() {
                cluster.start(node).await;
                set_disk(cluster, node, plan.sync, false);
            }
        }
        Fault::Pause(node) => {
            if let Some(process) = cluster.process(*node) {
                process.scope.resume();
            }
        }
        Fault::Split(side) => split(cluster, side, |from, to| net.heal(from, to)),
        Fault::OneWay(from, to) => net.heal(*from, *to),
        Fault::Refuse(from, to) => net.refuse(*from, *to, false),
        Fault::Links(_) | Fault::LinksOf(..) => plan.set_links(cluster),
        Fault::Clock(node, by_ms) => cluster.spots[*node].clock.step(-by_ms),
        Fault::SlowDisk(node, _) | Fault::HungDisk(node) => {
            set_disk(cluster, *node, plan.sync, false);
        }
        Fault::Reset(..)
        | Fault::MoveLeader
        | Fault::Add(_)
        | Fault::Promote(_)
        | Fault::Remove(_) => {}
    }
}

fn split(cluster: &Cluster, side: &[usize], each: impl Fn(usize, usize)) {
    for one in 0..cluster.spots.len() {
        for other in 0..one {
            if side.contains(&one) != side.contains(&other) {
                each(one, other);
                each(other, one);
            }
        }
    }
}

pub(super) fn set_disk(cluster: &Cluster, node: usize, sync: Duration, is_hung: bool) {
    if let Some(process) = cluster.process(node) {
        process.scope.set_disk(sync, is_hung);
    }
}

/// Ends all faults.
pub(super) async fn heal(cluster: &Arc<Cluster>, plan: &Plan) {
    let nodes = cluster.spots.len();
    for from in 0..nodes {
        for to in 0..nodes {
            cluster.net.heal(from, to);
            cluster.net.refuse(from, to, false);
        }
    }
    set_links(cluster, |_, _| true, LAN);
    for node in 0..nodes {
        cluster.spots[node].clock.set_right();
        cluster.start(node).await;
        set_disk(
            cluster,
            node,
            plan.sync.min(Duration::from_millis(1)),
            false,
        );
        if let Some(process) = cluster.process(node) {
            process.scope.resume();
        }
    }
}
