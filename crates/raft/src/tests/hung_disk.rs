//! A disk that hangs: its node transfers leadership, and is not elected until the disk responds
//! again. A stop waits for an opening.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use seqd_disk::{OsDisk, Tap, Tapped};
use tokio::time::{Instant, sleep, timeout};

use super::harness::{Cluster, next, wait};
use crate::membership::leader;
use crate::messages::Ping;

/// A flag that holds file syncs, and a condition variable that signals its change.
#[derive(Default)]
pub(crate) struct Valve {
    held: Mutex<bool>,
    bell: Condvar,
    /// The number of calls that were held.
    pub(super) waits: AtomicUsize,
}

impl Valve {
    pub(crate) fn hold(&self, hold: bool) {
        *self.held.lock().unwrap() = hold;
        self.bell.notify_all();
    }

    pub(super) fn wait(&self) {
        let held = self.held.lock().unwrap();
        self.waits.fetch_add((*held).into(), Ordering::SeqCst);
        drop(self.bell.wait_while(held, |held| *held).unwrap());
    }
}

impl Tap for Valve {
    fn sync(&self, _: &Path, below: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        self.wait();
        below()
    }
}

/// Holds the reads of the log.
#[derive(Default)]
struct HeldLog {
    valve: Valve,
    reads: AtomicUsize,
}

impl Tap for HeldLog {
    fn read(&self, path: &Path, below: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        if path.extension().is_some_and(|end| end == "seg") {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.valve.wait();
        }
        below()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_an_opening_before_it_gives_the_folder_free() {
    let log = Arc::new(HeldLog::default());
    let mut cluster = Cluster::on_disk(&log).await;
    cluster.stop(0).await;
    log.valve.hold(true);
    let before = log.reads.load(Ordering::Relaxed);
    cluster.start(0).await.unwrap();
    wait("the log is being opened", || async {
        log.reads.load(Ordering::Relaxed) > before
    })
    .await;
    let raft = cluster.raft(0).clone();
    let mut stopping = pin!(raft.stop());
    let stopped = timeout(Duration::from_millis(300), &mut stopping).await;
    // Before the assertion, because a failing test ends only once nothing is held.
    log.valve.hold(false);
    assert!(stopped.is_err(), "the folder was still being opened");
    stopping.await;
    cluster.stop(0).await;
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    assert_eq!(next(cluster.raft(0), "orders").await, Some(1));
    cluster.stop_all().await;
}

/// Three nodes with disks that can be held.
async fn cluster() -> (Cluster, Vec<Arc<Valve>>) {
    let valves: Vec<Arc<Valve>> = (0..3).map(|_| Arc::default()).collect();
    let mut cluster = Cluster::planned(3);
    for (spot, valve) in cluster.spots.iter_mut().zip(&valves) {
        let (disk, tap) = (Arc::new(OsDisk), Arc::clone(valve));
        spot.disk = Arc::new(Tapped { disk, tap });
    }
    for at in 0..3 {
        cluster.start(at).await.unwrap();
    }
    cluster.create_orders(0).await;
    (cluster, valves)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_disk_hangs_makes_room_and_follows_when_it_works_again() {
    let (mut cluster, valves) = cluster().await;
    let hung = cluster.leader().expect("there is a leader");
    let others: Vec<usize> = (0..3).filter(|at| *at != hung).collect();
    valves[hung].hold(true);
    // A write, so that the disk is used.
    assert!(next(cluster.raft(others[0]), "orders").await.is_some());
    // On a busy machine, another node may lead before the disk has hung for long enough.
    wait("another node leads, and the disk hangs", || async {
        let mut leaders = others.iter().map(|at| cluster.raft(*at).status().leader);
        let own = cluster.raft(hung).status();
        own.disk_hangs
            && cluster.raft(hung).storage_stats().stalled_seconds >= 1.0
            && leaders.all(|leader| leader.is_some() && leader != own.node_id)
    })
    .await;
    let status = cluster.raft(hung).status();
    let mut last = 0;
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        // The node with the hung disk is never elected. On a busy machine, an answer may be
        // missing.
        if let Some(value) = next(cluster.raft(others[1]), "orders").await {
            assert!(value > last);
            last = value;
        }
        for at in &others {
            let leader = cluster.raft(*at).status().leader;
            assert_ne!(leader, status.node_id);
        }
        sleep(Duration::from_millis(20)).await;
    }
    valves[hung].hold(false);
    wait("it follows again and has caught up", || async {
        let (ours, theirs) = (
            cluster.raft(hung).status(),
            cluster.raft(others[0]).status(),
        );
        !ours.disk_hangs && ours.digest == theirs.digest && ours.leader == theirs.leader
    })
    .await;
    assert!(next(cluster.raft(hung), "orders").await.unwrap() > last);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_not_transferred_to_a_voter_whose_disk_hangs() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    let node = cluster
        .raft(cluster.leader().expect("there is a leader"))
        .node();
    let (context, replica) = (&node.context, node.replica().unwrap());
    let others = [1, 2, 3].into_iter().filter(|id| *id != replica.node);
    let others: Vec<u64> = others.collect();
    wait("both could lead, with equal logs", || async {
        let matched = others.iter().map(|id| replica.matched_index(*id));
        matched
            .into_iter()
            .all(|index| index == Some(replica.applied_index()))
            && others.iter().all(|id| leader::may_lead(context, *id))
    })
    .await;
    let target = leader::best_transfer_target(context, replica).unwrap();
    let ping = Ping {
        disk_hangs: true,
        disk_low: false,
        ..context.own_ping(0, 0)
    };
    context.record_answer(target, Some(ping));
    let other = leader::best_transfer_target(context, replica).unwrap();
    assert!(other != target && others.contains(&other));
    cluster.stop_all().await;
}
