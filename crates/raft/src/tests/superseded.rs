//! A cluster that was restored into another one: its nodes stop permanently when they meet the new
//! cluster.

use std::sync::Arc;

use super::harness::{Cluster, assert_ends, stopped, wait};
use crate::{Peer, Phase, Raft};
use seqd_store::folder::Folder;

/// Makes a stopped node part of a cluster that was restored from another.
fn descend(cluster: &Cluster, at: usize, ancestor: &str) {
    let folder = Folder::open(Arc::new(seqd_disk::OsDisk), &cluster.spots[at].folder).unwrap();
    let mut identity = folder.identity().unwrap().unwrap();
    identity.ancestors = vec![ancestor.to_owned()];
    folder.write_identity(&identity).unwrap();
}

async fn assert_superseded(raft: &Raft) {
    let stop = stopped(raft).await;
    assert_ends(&stop, 9, "superseded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_the_old_cluster_stop_for_good_when_they_meet_the_new_one() {
    let mut old = Cluster::new(3).await;
    old.ready().await;
    let ancestor = old.raft(0).status().cluster_id.unwrap();
    let mut new = Cluster::new(1).await;
    new.ready().await;
    new.stop(0).await;
    descend(&new, 0, &ancestor);
    // The new node replaces the first one. The third node is stopped for the time being.
    old.stop(0).await;
    old.stop(2).await;
    new.spots[0].addr = old.spots[0].addr.clone();
    let renamed = |peer: &Peer| Peer {
        name: format!("old-{}", peer.name),
        addr: peer.addr.clone(),
    };
    new.peers.extend(old.peers.iter().skip(1).map(renamed));
    new.start(0).await.unwrap();
    assert_superseded(old.raft(1)).await;
    // A node that starts later finds the new one at the configured address.
    old.start(2).await.unwrap();
    assert_superseded(old.raft(2)).await;
    for at in [1, 2] {
        old.stop(at).await;
        let again = old.start(at).await.unwrap_err();
        assert_ends(&again, 9, "superseded");
    }
    wait("the new one runs", || async {
        new.raft(0).phase().borrow().is_running()
    })
    .await;
    new.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_the_old_cluster_that_starts_later_is_greeted() {
    let mut old = Cluster::new(3).await;
    old.ready().await;
    let ancestor = old.raft(0).status().cluster_id.unwrap();
    old.stop_all().await;
    let mut new = Cluster::new(1).await;
    new.ready().await;
    new.stop(0).await;
    descend(&new, 0, &ancestor);
    // The old nodes do not have the new node's address.
    new.peers.push(Peer {
        name: "old-n3".to_owned(),
        addr: old.peers[2].addr.clone(),
    });
    new.start(0).await.unwrap();
    new.ready().await;
    old.start(1).await.unwrap();
    old.start(2).await.unwrap();
    assert_superseded(old.raft(2)).await;
    old.stop_all().await;
    new.stop_all().await;
}

/// A cluster of one node that was made from the cluster `LOST`. Its node is stopped.
async fn recovered() -> (Cluster, String) {
    let mut cluster = Cluster::new(1).await;
    cluster.ready().await;
    let id = cluster.raft(0).status().cluster_id.unwrap();
    cluster.stop(0).await;
    descend(&cluster, 0, "LOST");
    (cluster, id)
}

async fn stops(cluster: &Cluster) {
    wait("both clusters run", || async {
        matches!(*cluster.raft(0).phase().borrow(), Phase::Stopped(_))
    })
    .await;
    let stop = stopped(cluster.raft(0)).await;
    assert_ends(&stop, 9, "foreign-folder");
    assert!(
        stop.message.contains("both made from cluster LOST"),
        "{stop}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_clusters_that_were_made_from_one_the_later_one_stops() {
    let (mut earlier, one) = recovered().await;
    let (mut later, other) = recovered().await;
    if one > other {
        std::mem::swap(&mut earlier, &mut later);
    }
    let reaches = |from: &mut Cluster, to: &Cluster| {
        from.peers.push(Peer {
            name: "other".to_owned(),
            addr: to.spots[0].addr.clone(),
        });
    };
    reaches(&mut earlier, &later);
    // While no link exists between them, both run.
    later.start(0).await.unwrap();
    later.ready().await;
    // The start of the earlier one is not refused because of the later one.
    earlier.start(0).await.unwrap();
    earlier.ready().await;
    stops(&later).await;
    later.stop(0).await;
    // It is not marked: the running earlier one finds it again.
    later.start(0).await.unwrap();
    stops(&later).await;
    later.stop(0).await;
    // It finds the earlier one itself, too.
    earlier.stop(0).await;
    earlier.peers.pop();
    earlier.start(0).await.unwrap();
    earlier.ready().await;
    reaches(&mut later, &earlier);
    later.start(0).await.unwrap();
    stops(&later).await;
    later.stop(0).await;
    earlier.stop(0).await;
    later.start(0).await.unwrap();
    later.ready().await;
    later.stop(0).await;
}
