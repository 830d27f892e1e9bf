//! Links with a round trip of 100 ms, and such that lose: a cluster becomes ready, goes on, elects
//! nobody, and a strict value costs one round trip.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::harness::{Cluster, next};

const ROUND_TRIP: Duration = Duration::from_millis(100);

/// Longer than a leader keeps its leadership without an answer, and than anything here is kept.
const QUIET: Duration = Duration::from_millis(1200);

fn term(cluster: &Cluster, at: usize) -> u64 {
    let node = cluster.raft(at).node();
    node.replica().unwrap().current_vote().leader_id.term
}

/// Asks for values in turn, through each node, with pauses in which only heartbeats are sent; returns
/// how long each took.
async fn values(cluster: &Cluster, rounds: usize) -> Vec<Duration> {
    let mut took = Vec::new();
    for round in 0..rounds {
        for at in 0..cluster.spots.len() {
            let began = Instant::now();
            let value = next(cluster.raft(at), "orders").await;
            assert!(value.is_some(), "round {round}: no value through node {at}");
            took.push(began.elapsed());
        }
        if round % 4 == 3 {
            sleep(QUIET).await;
        }
    }
    took.sort();
    took
}

async fn goes_on_without_an_election(size: usize, losses_in_1000: u64, rounds: usize, seed: u64) {
    let (mut cluster, _links) = Cluster::linked(size, ROUND_TRIP, losses_in_1000, seed);
    for at in 0..size {
        cluster.start(at).await.unwrap();
    }
    let began = Instant::now();
    cluster.create_orders(0).await;
    let ready = began.elapsed();
    let before = term(&cluster, 0);
    let took = values(&cluster, rounds).await;
    eprintln!(
        "{size} nodes: ready after {ready:?}; values: median {:?}, longest {:?}",
        took[took.len() / 2],
        took[took.len() - 1]
    );
    assert_eq!(term(&cluster, 0), before, "a leader was elected");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_go_on_at_100_ms_with_losses() {
    goes_on_without_an_election(3, 20, 12, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_nodes_go_on_at_100_ms_with_losses() {
    goes_on_without_an_election(5, 20, 8, 2).await;
}

/// One client after another: what the value before it leaves under way delays none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_value_costs_one_round_trip_at_the_leader_and_two_at_a_follower() {
    // Twice as long, so that the disks' part is small.
    let round_trip = ROUND_TRIP * 2;
    let (mut cluster, _links) = Cluster::linked(2, round_trip, 0, 0);
    for at in 0..2 {
        cluster.start(at).await.unwrap();
    }
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    for (at, round_trips) in [(leader, 1), (1 - leader, 2)] {
        let mut took = Vec::new();
        for _ in 0..9 {
            let began = Instant::now();
            next(cluster.raft(at), "orders").await.unwrap();
            took.push(began.elapsed());
        }
        took.sort();
        let (median, bound) = (took[4], round_trip * round_trips + round_trip / 2);
        eprintln!("{round_trips} round trips: median {median:?} of {took:?}");
        assert!(median < bound, "{median:?}, at most {bound:?}");
    }
    cluster.stop_all().await;
}
