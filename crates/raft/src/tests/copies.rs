//! Old copies of a node's folder: restored in its place, started next to it, or valid after all.

use std::path::{Path, PathBuf};

use tokio::time::timeout;

use super::harness::{
    Cluster, PATIENCE, assert_ends, deadline, free_addr, next, start, stopped, wait,
};
use crate::{Peer, Phase, Raft, Role};
use seqd_store::testing::copy;

/// Stops a node and replaces its folder by an old copy.
async fn put_back(cluster: &mut Cluster, at: usize, kept: &Path) {
    cluster.stop(at).await;
    let folder = &cluster.spots[at].folder;
    std::fs::remove_dir_all(folder).unwrap();
    copy(kept, folder);
}

async fn work(raft: &Raft) {
    for _ in 0..20 {
        assert!(next(raft, "orders").await.is_some());
    }
}

/// Three nodes that have served requests, and the index of a follower.
async fn worked() -> (Cluster, usize) {
    let cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    work(cluster.raft(1)).await;
    let follower = (0..3)
        .find(|at| cluster.raft(*at).status().role == Role::Follower)
        .unwrap();
    (cluster, follower)
}

fn kept(cluster: &Cluster, at: usize) -> PathBuf {
    let to = cluster.dir.path().join("kept");
    copy(&cluster.spots[at].folder, &to);
    to
}

/// Waits until one node has recorded that another has acknowledged everything in its log.
async fn knows(cluster: &Cluster, at: usize, of: usize) {
    let node = cluster.raft(of).status().node_id.unwrap().0;
    let last = cluster.raft(of).status().last_log;
    wait("what was acknowledged is known", || async {
        let (rows, _) = cluster.raft(at).node().context.peers.rows();
        rows.iter().any(|(id, record)| {
            *id == node
                && record
                    .synced
                    .last
                    .is_some_and(|synced| synced.index >= last)
        })
    })
    .await;
}

/// A copy of a running node's folder. Since the copy, the node has served requests, and the other
/// running nodes have recorded its progress.
async fn outgrown(cluster: &Cluster, at: usize) -> PathBuf {
    let kept = kept(cluster, at);
    work(cluster.raft(at)).await;
    for (other, spot) in cluster.spots.iter().enumerate() {
        if other != at && spot.raft.is_some() {
            knows(cluster, other, at).await;
        }
    }
    kept
}

async fn assert_stale(raft: &Raft) {
    let stop = stopped(raft).await;
    assert_ends(&stop, 9, "stale-folder");
}

/// Asserts that the copy is refused, and that a later start does not request admission at all.
async fn assert_refused_for_good(cluster: &mut Cluster, at: usize) {
    cluster.start(at).await.unwrap();
    assert_stale(cluster.raft(at)).await;
    cluster.stop(at).await;
    let again = cluster.start(at).await.unwrap_err();
    assert_ends(&again, 9, "stale-folder");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_that_were_stopped_meanwhile_read_it_from_their_disks() {
    let (mut cluster, follower) = worked().await;
    let leader = cluster.leader().expect("there is a leader");
    for victim in [leader, follower] {
        let kept = outgrown(&cluster, victim).await;
        let others: Vec<usize> = (0..3).filter(|at| *at != victim).collect();
        let spare = cluster.dir.path().join("spare");
        cluster.stop_all().await;
        std::fs::rename(&cluster.spots[victim].folder, &spare).unwrap();
        copy(&kept, &cluster.spots[victim].folder);
        // One other node is enough, even while it still waits for an answer itself.
        cluster.start(others[0]).await.unwrap();
        assert_refused_for_good(&mut cluster, victim).await;
        std::fs::remove_dir_all(&cluster.spots[victim].folder).unwrap();
        std::fs::remove_dir_all(&kept).unwrap();
        std::fs::rename(&spare, &cluster.spots[victim].folder).unwrap();
        cluster.start(others[1]).await.unwrap();
        // The victim's true folder is accepted.
        cluster.start(victim).await.unwrap();
        cluster.ready().await;
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_copy_stops_when_a_peer_with_newer_knowledge_starts() {
    let (mut cluster, victim) = worked().await;
    let (away, witness) = ((victim + 1) % 3, (victim + 2) % 3);
    cluster.stop(away).await;
    wait("the two have a leader", || async {
        next(cluster.raft(victim), "orders").await.is_some()
    })
    .await;
    let kept = outgrown(&cluster, victim).await;
    put_back(&mut cluster, victim, &kept).await;
    cluster.stop(witness).await;
    cluster.start(away).await.unwrap();
    cluster.start(victim).await.unwrap();
    // No running node has a record of a later position.
    wait("both run", || async {
        let runs = |at: usize| cluster.raft(at).phase().borrow().is_running();
        runs(away) && runs(victim)
    })
    .await;
    cluster.start(witness).await.unwrap();
    assert_stale(cluster.raft(victim)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_log_and_state_under_the_newest_start_number_are_refused() {
    let (mut cluster, victim) = worked().await;
    let kept = outgrown(&cluster, victim).await;
    let number = cluster.spots[victim].folder.join("boot");
    let newest = std::fs::read(&number).unwrap();
    put_back(&mut cluster, victim, &kept).await;
    std::fs::write(number, newest).unwrap();
    assert_refused_for_good(&mut cluster, victim).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_from_when_the_node_was_alone_does_not_continue_alone() {
    let mut cluster = Cluster::new(1).await;
    cluster.create_orders(0).await;
    cluster.stop(0).await;
    let alone = kept(&cluster, 0);
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    // A second voter is added.
    let peer = Peer {
        name: "n2".to_owned(),
        addr: free_addr(),
    };
    let folder = cluster.dir.path().join("n2");
    let second = start("n2", &folder, &peer.addr, &cluster.peers)
        .await
        .unwrap();
    let added = cluster
        .raft(0)
        .member_add(peer.name.clone(), peer.addr.clone(), None, deadline())
        .await;
    added.unwrap();
    wait("it votes", || async {
        let promoted = cluster.raft(0).member_promote("n2".into(), deadline());
        promoted.await.is_ok()
    })
    .await;
    put_back(&mut cluster, 0, &alone).await;
    second.stop().await;
    cluster.peers.push(peer.clone());
    cluster.start(0).await.unwrap();
    // No node answers, and it does not continue.
    let mut phase = cluster.raft(0).phase();
    let waits = phase.wait_for(
        |phase| matches!(phase, Phase::Waiting { reason } if reason.contains("seen 1/2")),
    );
    assert!(timeout(PATIENCE, waits).await.is_ok());
    let second = start("n2", &folder, &peer.addr, &cluster.peers)
        .await
        .unwrap();
    assert_stale(cluster.raft(0)).await;
    second.stop().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_alone_may_have_empty_peers_in_its_configuration() {
    let mut cluster = Cluster::new(1).await;
    cluster.ready().await;
    cluster.stop(0).await;
    let addr = free_addr();
    let named = Peer {
        name: "n2".to_owned(),
        addr: addr.clone(),
    };
    cluster.peers.push(named);
    let folder = cluster.dir.path().join("n2");
    let second = start("n2", &folder, &addr, &cluster.peers).await.unwrap();
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    second.stop().await;
    cluster.stop_all().await;
}
