//! Changes of members: a change that would cost the quorum is refused, two concurrent changes do
//! not interfere, and a stuck change continues.

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::ChangeMembers;
use tokio::time::Instant;

use super::cut::{self, Cut};
use super::harness::{Cluster, caught_up, deadline, free_addr, learner, next, pair, start, wait};
use crate::membership::change::change_membership;
use crate::membership::majority::MembershipInForce;
use crate::messages::ChangeRefusal;
use crate::replica::Replica;
use crate::{ChangeOfMembers, MemberError, ProposeError, Raft, Role};

fn id_of(raft: &Raft) -> u64 {
    raft.status().node_id.unwrap().0
}

fn replica_of(raft: &Raft) -> &Replica {
    raft.node().replica().unwrap()
}

/// Cuts an address off and waits until the leader has noticed the missing answers.
async fn silence(cut: &Cut, addr: &str, leader: &Raft, node: u64) {
    cut.lock().unwrap().insert(addr.to_owned());
    wait("the leader misses its answers", || async {
        !replica_of(leader).answers_now(node)
    })
    .await;
}

/// Waits until the leader counts every member as answering.
async fn all_answer(leader: &Raft) {
    wait("all members answer", || async {
        let members = leader.status().members;
        let mut ids = members.iter().map(|member| member.id.0);
        ids.all(|id| replica_of(leader).answers_now(id))
    })
    .await;
}

fn role_of(raft: &Raft, name: &str) -> Option<Role> {
    let members = raft.status().members;
    let member = members.iter().find(|member| member.name == name);
    member.map(|member| member.role)
}

/// Three nodes, a learner, and the leader.
async fn with_a_learner() -> (Cluster, Cut, Raft, Raft, String) {
    let (cluster, cut) = cut::cluster().await;
    let learner = learner("n4", &cluster).await;
    let leader = cluster.raft(cluster.leader().expect("there is a leader"));
    let leader = leader.clone();
    caught_up(&leader, &learner).await;
    all_answer(&leader).await;
    let members = leader.status().members;
    let n4 = members.iter().find(|member| member.name == "n4").unwrap();
    let addr = n4.peer.clone();
    (cluster, cut, leader, learner, addr)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_that_does_not_answer_is_not_promoted() {
    let (mut cluster, cut, leader, learner, addr) = with_a_learner().await;
    silence(&cut, &addr, &leader, id_of(&learner)).await;
    for through in 0..3 {
        let promoted = cluster
            .raft(through)
            .member_promote("n4".to_owned(), deadline());
        let Err(MemberError::LearnerLagging { detail }) = promoted.await else {
            panic!("a learner that does not answer was promoted");
        };
        assert!(detail.contains("does not respond"), "{detail}");
    }
    assert_eq!(role_of(&leader, "n4"), Some(Role::Learner));
    assert_eq!(next(&leader, "orders").await, Some(1));
    cut.lock().unwrap().clear();
    wait("it is promoted once it answers", || async {
        let promoted = leader.member_promote("n4".to_owned(), deadline());
        promoted.await.is_ok()
    })
    .await;
    assert_eq!(next(&learner, "orders").await, Some(2));
    learner.stop().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_counts_the_voters_that_answer_now() {
    let (mut cluster, cut) = cut::cluster().await;
    let at = cluster.leader().expect("there is a leader");
    let leader = cluster.raft(at).clone();
    all_answer(&leader).await;
    let (silent, other) = ((at + 1) % 3, (at + 2) % 3);
    let addr = cluster.spots[silent].addr.clone();
    silence(&cut, &addr, &leader, id_of(cluster.raft(silent))).await;
    // The silent node answered pings a moment ago, and still counts as reachable.
    let name = cluster.spots[other].name.clone();
    let removed = leader.member_remove(name.clone(), deadline()).await;
    let Err(MemberError::Unsafe { detail }) = removed else {
        panic!("a removal was proposed that leaves no majority: {removed:?}");
    };
    assert!(detail.contains(&cluster.spots[silent].name), "{detail}");
    assert_eq!(next(&leader, "orders").await, Some(1));
    let removed = leader.member_remove(cluster.spots[silent].name.clone(), deadline());
    removed.await.unwrap();
    assert_eq!(next(&leader, "orders").await, Some(2));
    let (context, id) = (&leader.node().context, id_of(cluster.raft(silent)));
    wait(
        "the records about the removed node are discarded",
        || async {
            let link = context.diagnosis.link(id, String::new());
            context.peer(id).ping.is_none() && link.error.is_none()
        },
    )
    .await;
    cut.lock().unwrap().clear();
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demoted_voter_is_a_learner_and_a_leader_moves_leadership_first() {
    let (mut cluster, cut) = cut::cluster().await;
    let at = cluster.leader().expect("there is a leader");
    let name = cluster.spots[at].name.clone();
    all_answer(cluster.raft(at)).await;
    let through = cluster.raft((at + 1) % 3).clone();
    let demote = |name| through.change_member(ChangeOfMembers::Demote { name }, deadline());
    let demoted = demote(name.clone()).await;
    assert_eq!(demoted.unwrap().role, Role::Learner);
    let leader = cluster.leader().expect("there is a leader");
    assert_ne!(leader, at);
    // The demoted node keeps its ID and its data, serves, and can be promoted again.
    assert_eq!(next(cluster.raft(at), "orders").await, Some(1));
    let again = demote(name.clone()).await;
    assert_eq!(again.unwrap().role, Role::Learner);
    all_answer(cluster.raft(leader)).await;
    let promoted = through.member_promote(name.clone(), deadline()).await;
    assert_eq!(promoted.unwrap().role, Role::Follower);

    // Of the two voters that would remain, one does not answer.
    let leader = cluster.leader().expect("there is a leader");
    let (silent, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let addr = cluster.spots[silent].addr.clone();
    let node = id_of(cluster.raft(silent));
    silence(&cut, &addr, cluster.raft(leader), node).await;
    let other = cluster.spots[other].name.clone();
    let refused = demote(other.clone()).await;
    assert!(
        matches!(refused, Err(MemberError::Unsafe { .. })),
        "{refused:?}"
    );
    let change = ChangeOfMembers::Demote { name: other };
    let refused = through.try_out(change, deadline()).await;
    assert!(
        matches!(refused, Err(MemberError::Unsafe { .. })),
        "{refused:?}"
    );
    cut.lock().unwrap().clear();
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_on_top_of_another_membership_than_was_seen_is_not_made() {
    let (mut cluster, _, leader, learner, _) = with_a_learner().await;
    let replica = replica_of(&leader);
    let seen = MembershipInForce::of(replica);
    leader
        .member_promote("n4".to_owned(), deadline())
        .await
        .unwrap();
    let leading = replica.leading().unwrap();
    let gone = ChangeMembers::RemoveNodes(BTreeSet::from([id_of(&learner)]));
    let changed = change_membership(replica, leading, &seen, gone, false).await;
    let is_refused = matches!(changed, Err(ChangeRefusal::Member(MemberError::InProgress)));
    assert!(
        is_refused,
        "a change was made on top of another membership than was seen"
    );
    assert_eq!(role_of(&leader, "n4"), Some(Role::Follower));
    learner.stop().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_adds_of_one_name_at_once_one_succeeds() {
    let (mut cluster, _) = cut::cluster().await;
    let folder = cluster.dir.path().join("n4");
    let addr = free_addr();
    let fourth = start("n4", &folder, &addr, &cluster.peers).await.unwrap();
    let adds = (0..6).map(|turn| {
        let raft = cluster.raft(turn % 3);
        raft.member_add("n4".to_owned(), addr.clone(), None, deadline())
    });
    let answers = futures_util::future::join_all(adds).await;
    let added = answers.iter().filter(|answer| answer.is_ok());
    assert_eq!(added.count(), 1, "{answers:?}");
    for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert!(
            matches!(
                refused,
                MemberError::InProgress | MemberError::AlreadyExists { .. }
            ),
            "{refused:?}"
        );
    }
    let again = cluster
        .raft(0)
        .member_add("n4".to_owned(), addr, None, deadline());
    let again = again.await;
    assert!(
        matches!(again, Err(MemberError::AlreadyExists { .. })),
        "{again:?}"
    );
    for at in 0..3 {
        let members = cluster.raft(at).status().members;
        let named = members.iter().filter(|member| member.name == "n4");
        assert!(named.count() <= 1);
    }
    fourth.stop().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_waits_for_another_change_of_the_members() {
    let (mut cluster, at, _) = pair().await;
    let leader = cluster.raft(at).clone();
    all_answer(&leader).await;
    let changing = replica_of(&leader).changing.lock().await;
    let soon = Instant::now() + Duration::from_millis(50);
    let moved = leader.leader_move(None, soon).await;
    assert!(moved.is_err(), "{moved:?}");
    assert_eq!(cluster.leader(), Some(at));
    drop(changing);
    leader.leader_move(None, deadline()).await.unwrap();
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_not_moved_to_a_node_that_does_not_answer() {
    let (mut cluster, cut) = cut::cluster().await;
    let at = cluster.leader().expect("there is a leader");
    let leader = cluster.raft(at).clone();
    all_answer(&leader).await;
    let silent = (at + 1) % 3;
    let (name, addr) = (
        cluster.spots[silent].name.clone(),
        cluster.spots[silent].addr.clone(),
    );
    silence(&cut, &addr, &leader, id_of(cluster.raft(silent))).await;
    let term = leader.status().term;
    let moved = leader.leader_move(Some(name), deadline()).await;
    let Err(MemberError::Unfit { detail }) = moved else {
        panic!("{moved:?}");
    };
    assert!(detail.contains("does not respond"), "{detail}");
    assert_eq!(next(&leader, "orders").await, Some(1));
    assert_eq!((leader.status().term, cluster.leader()), (term, Some(at)));
    let moved = leader.leader_move(None, deadline()).await.unwrap();
    assert_eq!(moved, cluster.spots[(at + 2) % 3].name);
    cut.lock().unwrap().clear();
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_lost_its_majority_continues_once_enough_voters_respond() {
    let (mut cluster, cut, leader, learner, addr) = with_a_learner().await;
    let at = cluster.leader().expect("there is a leader");
    let (one, other) = ((at + 1) % 3, (at + 2) % 3);
    // The learner and a voter are lost right after they were found to answer.
    cut.lock()
        .unwrap()
        .extend([addr, cluster.spots[one].addr.clone()]);
    let promoting = {
        let (leader, node) = (leader.clone(), id_of(&learner));
        tokio::spawn(async move {
            let replica = replica_of(&leader);
            let (leading, seen) = (replica.leading().unwrap(), MembershipInForce::of(replica));
            let change = ChangeMembers::AddVoterIds(BTreeSet::from([node]));
            change_membership(replica, leading, &seen, change, true).await
        })
    };
    wait("no quorum answers any more", || async {
        !leader.status().has_quorum_contact
    })
    .await;
    let refused = leader
        .propose(vec![super::harness::create("no")], deadline())
        .await;
    assert!(
        matches!(
            refused,
            Err(ProposeError::NoQuorum { .. } | ProposeError::OutcomeUnknown { .. })
        ),
        "{refused:?}"
    );
    // Once the voter is back, two of three and three of four voters are present.
    cut.lock().unwrap().remove(&cluster.spots[one].addr);
    wait("the change is finished", || async {
        let raft = cluster.raft(other);
        let is_over = |raft: &Raft| !replica_of(raft).is_joint();
        next(raft, "orders").await.is_some() && (0..3).all(|at| is_over(cluster.raft(at)))
    })
    .await;
    // The learner can be removed, whether the change was made or was given up with its leader.
    promoting.await.unwrap().ok();
    let leads = cluster.leader().expect("there is a leader");
    all_but(cluster.raft(leads), id_of(&learner)).await;
    let removed = cluster
        .raft(leads)
        .member_remove("n4".to_owned(), deadline());
    removed.await.unwrap();
    assert_eq!(role_of(cluster.raft(leads), "n4"), None);
    assert!(next(cluster.raft(other), "orders").await.is_some());
    learner.stop().await;
    cluster.stop_all().await;
}

/// Waits until every member except one answers.
async fn all_but(leader: &Raft, silent: u64) {
    wait("the others answer", || async {
        let members = leader.status().members;
        let mut ids = members.iter().map(|member| member.id.0);
        ids.all(|id| id == silent || replica_of(leader).answers_now(id))
    })
    .await;
}
