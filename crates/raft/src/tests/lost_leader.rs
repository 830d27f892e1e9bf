//! A leader that is silent, or whose process has ended, is replaced soon; one that a single follower
//! does not reach stays.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::harness::{Cluster, next, wait};
use super::links::Links;

/// Far less than any of the timeouts.
const ROUND_TRIP: Duration = Duration::from_millis(1);

async fn linked(size: usize) -> (Cluster, Arc<Links>, usize) {
    let (mut cluster, links) = Cluster::linked(size, ROUND_TRIP, 0, 0);
    for at in 0..size {
        cluster.start(at).await.unwrap();
    }
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    (cluster, links, leader)
}

fn term(cluster: &Cluster, at: usize) -> u64 {
    let node = cluster.raft(at).node();
    node.replica().unwrap().current_vote().leader_id.term
}

/// The time from now to a value through another node than the one that is lost.
async fn until_a_value(cluster: &Cluster, lost: usize) -> Duration {
    let began = Instant::now();
    let at = (lost + 1) % cluster.spots.len();
    wait("a value through another node", || async {
        next(cluster.raft(at), "orders").await.is_some()
    })
    .await;
    began.elapsed()
}

/// Waits until all nodes but one follow the same leader, and returns it.
async fn leader_of_the_others(cluster: &Cluster, lost: Option<usize>) -> usize {
    let mut leader = None;
    wait("the others agree on a leader", || {
        let all = 0..cluster.spots.len();
        let nodes = all.clone().filter(|at| Some(*at) != lost);
        let leaders: Vec<_> = nodes.map(|at| cluster.raft(at).status().leader).collect();
        let id = leaders[0].filter(|first| leaders.iter().all(|other| *other == Some(*first)));
        let is_it = |at: &usize| cluster.raft(*at).boot().map(|(node, _)| node) == id;
        leader = all.into_iter().find(|at| id.is_some() && is_it(at));
        let is_found = leader.is_some() && leader != lost;
        async move { is_found }
    })
    .await;
    leader.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_leader_is_replaced_within_a_second() {
    let (mut cluster, links, mut leader) = linked(3).await;
    let mut took = Vec::new();
    for _ in 0..5 {
        links.isolate(leader, true);
        took.push(until_a_value(&cluster, leader).await);
        let next_leader = leader_of_the_others(&cluster, Some(leader)).await;
        links.isolate(leader, false);
        leader = next_leader;
        leader_of_the_others(&cluster, None).await;
    }
    took.sort();
    eprintln!("silent: median {:?} of {took:?}", took[2]);
    assert!(took[2] < Duration::from_secs(1), "{took:?}");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_process_has_ended_is_replaced_before_its_lease_is_over() {
    let (mut took, mut elections) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (mut cluster, links, leader) = linked(3).await;
        let before = term(&cluster, leader);
        links.end_process(leader);
        took.push(until_a_value(&cluster, leader).await);
        let lost = Some(leader);
        let after = term(&cluster, leader_of_the_others(&cluster, lost).await);
        elections.push(after - before);
        cluster.stop_all().await;
    }
    took.sort();
    eprintln!(
        "ended: median {:?} of {took:?}, elections {elections:?}",
        took[1]
    );
    assert!(took[1] < Duration::from_millis(400), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_whose_connections_to_the_leader_are_refused_deposes_nobody() {
    let (mut cluster, links, leader) = linked(3).await;
    let (refused, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let before = term(&cluster, other);
    links.refuse((refused, leader));
    // Many times what it takes to run for leader.
    for _ in 0..20 {
        assert!(next(cluster.raft(other), "orders").await.is_some());
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(term(&cluster, other), before);
    assert_eq!(leader_of_the_others(&cluster, None).await, leader);
    cluster.stop_all().await;
}
