//! Two adds of one waiting node, by the leaders before and after a change of leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::{Answering, Limit, Link, Payload, Transport};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::harness::{Cluster, deadline, free_addr, next, start, wait};
use crate::membership::leader::transfer_leadership;
use crate::{MemberError, Raft, Role, peer_transport};

/// Holds each `Adopt` back until as many are permitted.
struct Gate {
    arrived: AtomicUsize,
    permitted: watch::Sender<usize>,
    below: Arc<dyn Transport>,
}

impl Transport for Gate {
    fn post<'a>(
        &'a self,
        link: Link,
        addr: &'a str,
        route: Route,
        payload: Payload,
        limit: Limit,
    ) -> Answering<'a> {
        if route != Route::Adopt {
            return self.below.post(link, addr, route, payload, limit);
        }
        let before = self.arrived.fetch_add(1, Ordering::SeqCst);
        let mut permitted = self.permitted.subscribe();
        Box::pin(async move {
            let _ = permitted.wait_for(|permitted| *permitted > before).await;
            self.below.post(link, addr, route, payload, limit).await
        })
    }
}

async fn gated_cluster() -> (Cluster, Arc<Gate>) {
    let gate = Arc::new(Gate {
        arrived: AtomicUsize::new(0),
        permitted: watch::Sender::new(0),
        below: peer_transport(Handle::current()),
    });
    let mut cluster = Cluster::planned(3);
    for spot in &mut cluster.spots {
        spot.transport = Arc::<Gate>::clone(&gate);
    }
    for at in 0..3 {
        cluster.start(at).await.unwrap();
    }
    cluster.create_orders(0).await;
    (cluster, gate)
}

fn add(raft: &Raft, addr: &str) -> tokio::task::JoinHandle<Result<u64, MemberError>> {
    let (raft, addr) = (raft.clone(), addr.to_owned());
    tokio::spawn(async move {
        let added = raft.member_add("n4".to_owned(), addr, None, deadline());
        added.await.map(|member| member.id.0)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_add_that_is_repeated_after_a_change_of_leader_gives_the_same_id() {
    let (mut cluster, gate) = gated_cluster().await;
    let (folder, addr) = (cluster.dir.path().join("n4"), free_addr());
    let fourth = start("n4", &folder, &addr, &cluster.peers).await.unwrap();
    let reached = |count: usize| {
        let gate = Arc::clone(&gate);
        async move { gate.arrived.load(Ordering::SeqCst) >= count }
    };

    // Each leader has allocated an ID before the node receives the first one.
    let at = cluster.leader().expect("there is a leader");
    let first = cluster.raft(at).clone();
    let adds = add(&first, &addr);
    wait("the first leader gives the ID", || reached(1)).await;
    let next_at = (at + 1) % 3;
    let second = cluster.raft(next_at).clone();
    let target = second.status().node_id.unwrap().0;
    wait("the next leader leads", || async {
        transfer_leadership(first.node().replica().unwrap(), target).await;
        second.node().replica().unwrap().leading().is_some()
    })
    .await;
    let again = add(&second, &addr);
    wait("the second leader gives the ID", || reached(2)).await;
    gate.permitted.send_replace(1);
    wait("the node has an ID", || async { fourth.boot().is_some() }).await;
    gate.permitted.send_replace(usize::MAX);

    let (id, _) = fourth.boot().unwrap();
    assert_eq!(again.await.unwrap(), Ok(id.0));
    let refused = adds.await.unwrap();
    assert!(
        matches!(
            refused,
            Ok(_) | Err(MemberError::InProgress | MemberError::AlreadyExists { .. })
        ),
        "{refused:?}"
    );
    wait("the node is a learner", || async {
        fourth
            .status()
            .members
            .iter()
            .any(|it| it.id == id && it.role == Role::Learner)
    })
    .await;
    assert_eq!(next(&fourth, "orders").await, Some(1));
    fourth.stop().await;
    cluster.stop_all().await;
}

/// A process that starts with an emptied folder never gets the ID of the folder before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_folder_gets_another_id() {
    let (mut cluster, gate) = gated_cluster().await;
    let (folder, addr) = (cluster.dir.path().join("n4"), free_addr());
    let before = start("n4", &folder, &addr, &cluster.peers).await.unwrap();
    let at = cluster.leader().expect("there is a leader");
    let leader = cluster.raft(at).clone();
    let interrupted = add(&leader, &addr);
    wait("the leader gives the ID", || async {
        gate.arrived.load(Ordering::SeqCst) == 1
    })
    .await;
    before.stop().await;
    std::fs::remove_dir_all(&folder).unwrap();
    gate.permitted.send_replace(usize::MAX);
    let lost = interrupted.await.unwrap();
    assert!(matches!(lost, Err(MemberError::Unfit { .. })), "{lost:?}");

    let after = start("n4", &folder, &addr, &cluster.peers).await.unwrap();
    let mut added = add(&leader, &addr).await.unwrap();
    for _ in 0..3 {
        if added.is_ok() {
            break;
        }
        added = add(&leader, &addr).await.unwrap();
    }
    let id = added.unwrap();
    leader.state(|state| {
        let mut named = state.nodes().filter(|(_, record)| record.name == "n4");
        let (first, earlier) = named.next().unwrap();
        assert!(earlier.removed && first.0 < id);
        assert!(named.any(|(node, record)| node.0 == id && !record.removed));
    });
    after.stop().await;
    cluster.stop_all().await;
}
