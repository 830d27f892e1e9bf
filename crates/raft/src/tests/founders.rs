//! Founders of different speed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use seqd_disk::OsDisk;
use seqd_peers::table::SyncedPosition;
use seqd_peers::wire::server;
use seqd_state::Level;
use tokio::sync::oneshot;

use super::harness::{Cluster, next, options, wait};
use crate::context::ClusterView;
use crate::draws::Draws;
use crate::platform::NodeTasks;
use crate::proposer::ProposalBatcher;
use crate::receive::Service;
use crate::start::open_folder;
use crate::storage::opening::Began;

/// The second founder takes its identity, and does not continue before the first has begun the log.
/// It then receives messages from a founder whose first membership waits for the second's vote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_founder_that_was_slower_accepts_one_that_has_begun() {
    let mut cluster = Cluster::planned(2);
    let slow = &cluster.spots[1];
    let disk = Arc::new(OsDisk);
    let options = options(disk, &slow.name, &slow.folder, &slow.addr, &cluster.peers).await;
    let (node, listener) = open_folder(options).unwrap();
    let context = Arc::clone(&node.context);
    let nothing = Began {
        synced: SyncedPosition::default(),
        voters: BTreeSet::new(),
        members: BTreeMap::new(),
        level: Level::FIRST,
    };
    context.set_history(false, nothing);
    let batcher = Arc::new(ProposalBatcher::start(Arc::clone(&node)));
    let draws = Arc::new(Draws::new(Arc::clone(&node)));
    let service = Arc::new(Service::new(node, batcher, draws));
    let (over, ended) = oneshot::channel::<()>();
    let until = async move { drop(ended.await) };
    let server = server::serve(listener, service, &NodeTasks, until).unwrap();

    cluster.start(0).await.unwrap();
    let first = cluster.raft(0).node();
    wait("the first founder has begun the log", || async {
        let replica = first.replica();
        replica.is_some_and(|replica| replica.has_history())
    })
    .await;
    assert!(context.identity().is_some_and(|own| !own.founder));
    assert_eq!(first.replica().unwrap().votes(1), None);

    drop(over);
    server.await.unwrap();
    context.folder.unlock();
    cluster.start(1).await.unwrap();
    cluster.create_orders(1).await;
    assert_eq!(next(cluster.raft(0), "orders").await, Some(1));
    cluster.stop_all().await;
}
