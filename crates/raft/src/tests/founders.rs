//! Founders that are not equally fast.

use std::collections::BTreeSet;
use std::sync::Arc;

use seqd_disk::{Disk, OsDisk};
use tokio::sync::{Semaphore, oneshot};

use super::harness::{Cluster, next, options, wait};
use crate::gatherer::Gatherer;
use crate::local::Began;
use crate::members;
use crate::peers::table::Shown;
use crate::raft;
use crate::wire::peer_server::{self, Service};

/// The second founder takes its identity, and goes no further before the first has begun the log:
/// it then hears a founder whose first membership waits for the second's own word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_founder_that_was_slower_believes_one_that_has_begun() {
    let mut cluster = Cluster::planned(2);
    let slow = &cluster.spots[1];
    let disk = Arc::new(OsDisk);
    let options = options(disk, &slow.name, &slow.folder, &slow.addr, &cluster.peers).await;
    let (local, listener) = raft::open(options).unwrap();
    let nothing = Began {
        shown: Shown::default(),
        voters: BTreeSet::new(),
    };
    local.found_history(false, nothing);
    let service = Arc::new(Service {
        local: Arc::clone(&local),
        gatherer: Arc::new(Gatherer::start(Arc::clone(&local))),
        receiving: Semaphore::new(1),
    });
    let (over, heard) = oneshot::channel::<()>();
    let until = async move { drop(heard.await) };
    let server = peer_server::serve(listener, service, until).unwrap();

    cluster.start(0).await.unwrap();
    let first = cluster.raft(0).local();
    wait("the first founder has begun the log", || async {
        let replica = first.replica.get();
        replica.is_some_and(|replica| replica.has_history())
    })
    .await;
    assert!(local.identity().is_some_and(|own| !own.founder));
    assert_eq!(members::votes(first.replica.get().unwrap(), 1), None);

    drop(over);
    server.await.unwrap();
    local.folder.unlock();
    cluster.start(1).await.unwrap();
    cluster.create_orders(1).await;
    assert_eq!(next(cluster.raft(0), "orders").await, Some(1));
    cluster.stop_all().await;
    // The last step of a stop has spared the next start sled's whole log.
    let state = cluster.spots[0].folder.join("state-1");
    let names = OsDisk.list(&state).unwrap();
    assert!(
        names.iter().any(|name| name.starts_with("snap.")),
        "{names:?}"
    );
}
