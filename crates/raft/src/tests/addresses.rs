//! A member's addresses follow its configuration at each start, and a peer address is accepted only
//! if the member answers there.

use super::harness::{Cluster, caught_up, deadline, free_addr, learner, next, wait};
use crate::{ChangeOfMembers, MemberError};

/// A member's peer and client addresses, as recorded by another node.
fn addresses_of(cluster: &Cluster, by: usize, name: &str) -> Option<(String, String)> {
    let members = cluster.raft(by).status().members;
    let member = members.into_iter().find(|member| member.name == name)?;
    Some((member.peer, member.http))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_moved_is_reached_at_its_new_address() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    let mut values = 0;
    // A follower first, then the leader. Each is started at another address, with the same folder.
    for moves_leader in [false, true] {
        let leader = cluster.leader().expect("there is a leader");
        let moved = if moves_leader {
            leader
        } else {
            (leader + 1) % 3
        };
        let other = (moved + 1) % 3;
        cluster.stop(moved).await;
        let addr = free_addr();
        cluster.spots[moved].addr.clone_from(&addr);
        cluster.start(moved).await.unwrap();
        let name = cluster.spots[moved].name.clone();
        wait("the others have the new address", || async {
            addresses_of(&cluster, other, &name).is_some_and(|(peer, _)| peer == addr)
        })
        .await;
        wait("a node is running and started", || async {
            *cluster.raft(moved).started().borrow()
        })
        .await;
        values += 1;
        assert_eq!(next(cluster.raft(other), "orders").await, Some(values));
        caught_up(cluster.raft(other), cluster.raft(moved)).await;
        wait("the moved node is reached", || async {
            let members = cluster.raft(other).status().members;
            members.iter().all(|member| member.reachable)
        })
        .await;
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_address_is_taken_only_if_the_member_answers_there() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    let (by, named) = ((leader + 2) % 3, (leader + 1) % 3);
    let name = cluster.spots[named].name.clone();
    let before = addresses_of(&cluster, leader, &name).unwrap();
    let update = async |peer: Option<String>, http: Option<&str>| {
        let http = http.map(str::to_owned);
        let raft = cluster.raft(by);
        let name = name.clone();
        let change = ChangeOfMembers::Update { name, peer, http };
        raft.change_member(change, deadline()).await
    };
    let nobody = update(Some(free_addr()), None).await;
    let Err(MemberError::Unfit { detail }) = nobody else {
        panic!("an address was taken at which nobody answers: {nobody:?}");
    };
    assert!(detail.contains("does not respond"), "{detail}");
    let taken = update(Some(cluster.spots[leader].addr.clone()), None).await;
    let Err(MemberError::AlreadyExists { .. }) = taken else {
        panic!("the address of another member was taken: {taken:?}");
    };
    assert_eq!(addresses_of(&cluster, leader, &name), Some(before.clone()));
    // A leader gives up the leadership only for an address at which it answers itself.
    let own = cluster.spots[leader].name.clone();
    let raft = cluster.raft(by);
    let change = ChangeOfMembers::Update {
        name: own,
        peer: Some(free_addr()),
        http: None,
    };
    let nobody = raft.change_member(change, deadline()).await;
    assert!(
        matches!(nobody, Err(MemberError::Unfit { .. })),
        "{nobody:?}"
    );
    assert_eq!(cluster.leader(), Some(leader), "the leadership has moved");
    // A client address is accepted as given.
    let http = "https://other.invalid:7400";
    let updated = update(None, Some(http)).await.unwrap();
    assert_eq!((updated.peer, updated.http), (before.0, http.to_owned()));
    assert_eq!(next(cluster.raft(by), "orders").await, Some(1));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sole_voter_with_a_learner_takes_no_address_at_which_it_does_not_answer() {
    let mut cluster = Cluster::new(1).await;
    cluster.create_orders(0).await;
    let learner = learner("n2", &cluster).await;
    let before = addresses_of(&cluster, 0, "n1").unwrap();
    let raft = cluster.raft(0);
    let update = async |peer: String| {
        let change = ChangeOfMembers::Update {
            name: "n1".to_owned(),
            peer: Some(peer),
            http: None,
        };
        raft.change_member(change, deadline()).await
    };
    let nobody = update(free_addr()).await;
    let Err(MemberError::Unfit { detail }) = nobody else {
        panic!("an address was taken at which nobody answers: {nobody:?}");
    };
    assert!(detail.contains("does not respond"), "{detail}");
    // Another name of the same address.
    let own = before.0.replace("127.0.0.1", "localhost");
    assert_eq!(update(own.clone()).await.unwrap().peer, own);
    learner.stop().await;
    cluster.stop_all().await;
}
