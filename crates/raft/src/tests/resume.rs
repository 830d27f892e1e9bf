//! An interrupted transfer of a snapshot continues where it stopped, for as long as that snapshot
//! is kept.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use openraft::async_runtime::WatchReceiver;

use super::harness::{Cluster, caught_up, deadline, free_addr, is_clean, start, wait};
use super::slow_link::creations;
use super::transfer::{Way, purged_up_to_snapshots, replica};
use crate::Raft;
use crate::proposer::entry;
use crate::space::DiskSpace;
use crate::tasks::purge::purge_once;

/// Few, so that a leader soon purges its log up to a snapshot.
const SNAPSHOT_EVERY: u64 = 100;

/// One node with a snapshot of six MiB: several windows of a connection.
async fn leader() -> Cluster {
    let mut cluster = Cluster::planned(1);
    cluster.spots[0].snapshot_every = SNAPSHOT_EVERY;
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    for group in 0..5 {
        let commands = creations(group, 1_050);
        cluster.raft(0).propose(commands, deadline()).await.unwrap();
    }
    purged_up_to_snapshots(&cluster).await;
    cluster
}

async fn snapshot_len(raft: &Raft) -> u64 {
    let snapshot = replica(raft).raft.get_snapshot().await.unwrap();
    snapshot.unwrap().snapshot.len()
}

/// Adds a node that the leader reaches by a route that breaks in the middle of a snapshot.
async fn learner(cluster: &Cluster, breaks: u64, stays_cut: bool) -> (Raft, Way) {
    let addr = free_addr();
    let folder = cluster.dir.path().join("n2");
    let learner = start("n2", &folder, &addr, &cluster.peers).await.unwrap();
    let after = snapshot_len(cluster.raft(0)).await * 3 / 4;
    let after = usize::try_from(after).unwrap();
    let way = Way::cut_after(addr, breaks, after, stays_cut).await;
    let (name, peer) = ("n2".to_owned(), way.addr.clone());
    let added = cluster.raft(0).member_add(name, peer, None, deadline());
    added.await.unwrap();
    (learner, way)
}

async fn is_cut(way: &Way) {
    wait("the transfer is cut", || async {
        way.breaks_left.load(Ordering::SeqCst) == 0
    })
    .await;
}

/// The leader takes four newer snapshots while one is being sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_after_a_snapshot_is_kept_for_its_receiver() {
    let mut cluster = leader().await;
    let raft = cluster.raft(0);
    let len = snapshot_len(raft).await;
    let (learner, way) = learner(&cluster, 0, false).await;
    wait("half of it has arrived", || async {
        way.is_held.load(Ordering::SeqCst)
    })
    .await;
    let replica = replica(raft);
    let leading = replica.leading().unwrap();
    for _ in 0..4 {
        let snapshot = || replica.raft.metrics().borrow_watched().snapshot;
        let before = snapshot();
        let context = &raft.node().context;
        let entries = 0..=SNAPSHOT_EVERY;
        let entries = entries.map(|_| entry::propose_as(context, &replica, leading, Vec::new()));
        assert!(join_all(entries).await.iter().all(Option::is_some));
        wait("another snapshot is taken", || async {
            snapshot() > before
        })
        .await;
        purge_once(&replica, SNAPSHOT_EVERY, &DiskSpace::default()).await;
    }
    way.is_held.store(false, Ordering::SeqCst);
    caught_up(raft, &learner).await;
    let sent = way.carried.load(Ordering::SeqCst);
    assert!(sent < 2 * len, "{sent} bytes for {len}");
    learner.stop().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_transfer_continues_where_it_was() {
    let mut cluster = leader().await;
    let len = snapshot_len(cluster.raft(0)).await;
    // If it were sent from its beginning each time, it would be cut twice.
    let (learner, way) = learner(&cluster, 2, false).await;
    caught_up(cluster.raft(0), &learner).await;
    assert_eq!(way.breaks_left.load(Ordering::SeqCst), 1, "cut once");
    let sent = way.carried.load(Ordering::SeqCst);
    assert!(sent > len && sent < 2 * len, "{sent} bytes for {len}");
    is_clean(&cluster.dir.path().join("n2")).await;
    learner.stop().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_with_a_newer_snapshot_continues_the_interrupted_transfer() {
    let mut cluster = leader().await;
    let raft = cluster.raft(0);
    let len = snapshot_len(raft).await;
    let (learner, way) = learner(&cluster, 1, true).await;
    is_cut(&way).await;
    let before = way.carried.load(Ordering::SeqCst);
    let replica = replica(raft);
    let snapshot = || replica.raft.metrics().borrow_watched().snapshot;
    let cut = snapshot();
    raft.propose(creations(5, 1), deadline()).await.unwrap();
    replica.raft.trigger().snapshot().await.unwrap();
    wait("another snapshot is taken", || async { snapshot() > cut }).await;
    purge_once(&replica, SNAPSHOT_EVERY, &DiskSpace::default()).await;
    way.is_cut.store(false, Ordering::SeqCst);
    caught_up(raft, &learner).await;
    // A quarter of the snapshot, of which one window may have been lost, and the log after it.
    let sent = way.carried.load(Ordering::SeqCst) - before;
    assert!(sent < len * 3 / 4, "{sent} bytes of {len}");
    is_clean(&cluster.dir.path().join("n2")).await;
    assert_eq!(replica.transfers.unfinished(), None);
    learner.stop().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_keeps_the_snapshot_no_more_sends_another_from_its_beginning() {
    let mut cluster = leader().await;
    let (learner, way) = learner(&cluster, 1, true).await;
    is_cut(&way).await;
    let before = way.carried.load(Ordering::SeqCst);
    purged_up_to_snapshots(&cluster).await;
    way.is_cut.store(false, Ordering::SeqCst);
    caught_up(cluster.raft(0), &learner).await;
    let len = snapshot_len(cluster.raft(0)).await;
    let sent = way.carried.load(Ordering::SeqCst) - before;
    assert!(sent >= len, "{sent} bytes of {len}");
    is_clean(&cluster.dir.path().join("n2")).await;
    learner.stop().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_ends_during_a_transfer_receives_it_again() {
    let mut cluster = leader().await;
    let (learner, way) = learner(&cluster, 1, true).await;
    is_cut(&way).await;
    let folder = cluster.dir.path().join("n2");
    learner.stop().await;
    let learner = start("n2", &folder, &way.target, &cluster.peers);
    let learner = learner.await.unwrap();
    is_clean(&folder).await;
    way.is_cut.store(false, Ordering::SeqCst);
    caught_up(cluster.raft(0), &learner).await;
    is_clean(&folder).await;
    learner.stop().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_ends_during_a_transfer_continues_it_at_its_next_start() {
    let mut cluster = leader().await;
    let len = snapshot_len(cluster.raft(0)).await;
    let (learner, way) = learner(&cluster, 1, true).await;
    is_cut(&way).await;
    cluster.stop(0).await;
    cluster.start(0).await.unwrap();
    way.is_cut.store(false, Ordering::SeqCst);
    caught_up(cluster.raft(0), &learner).await;
    // Three quarters of the snapshot were sent before the cut. One window may be sent again.
    let sent = way.carried.load(Ordering::SeqCst);
    assert!(sent < len * 3 / 2, "{sent} bytes for {len}");
    is_clean(&cluster.dir.path().join("n2")).await;
    learner.stop().await;
    cluster.stop_all().await;
}
