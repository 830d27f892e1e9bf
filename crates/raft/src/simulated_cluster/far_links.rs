//! Slow disks, links with a round trip of 100 ms, and links that lose segments. The cluster becomes
//! ready and serves for minutes without an election, and a strict value costs one round trip.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::net::{LAN, Link};
use super::nodes::Cluster;
use super::scenarios::{Scene, leader_of_all_but, median_and_most, next, raft};

const ROUND_TRIP: Duration = Duration::from_millis(100);

/// Longer than a leader keeps its leadership without an answer, and than any state here is kept.
const QUIET: Duration = Duration::from_millis(1_200);

fn far(lost: u64) -> Link {
    Link {
        lost,
        ..Link::far(ROUND_TRIP)
    }
}

/// Requests values from one node until `until`. Returns the duration of each request.
async fn values(cluster: Arc<Cluster>, node: usize, until: Instant) -> Vec<Duration> {
    let mut took = Vec::new();
    while Instant::now() < until {
        let asked = Instant::now();
        let value = next(&cluster, node).await;
        assert!(matches!(value, Some(Ok(_))), "n{}: {value:?}", node + 1);
        took.push(asked.elapsed());
        if took.len() % 4 == 3 {
            sleep(QUIET).await;
        }
    }
    took
}

/// Virtual minutes of each run; one by default.
fn minutes() -> u64 {
    let text = std::env::var("SEQD_CLUSTER_MINUTES").ok();
    text.map_or(1, |text| text.parse().expect("a decimal number"))
}

fn goes_on_without_an_election(scene: Scene) {
    scene.play(async |cluster| {
        let leader = leader_of_all_but(cluster, None).await;
        let term = raft(cluster, leader).status().term;
        let began = Instant::now();
        let until = began + Duration::from_secs(60 * minutes());
        let mut clients = JoinSet::new();
        for node in 0..scene.nodes {
            clients.spawn(values(Arc::clone(cluster), node, until));
        }
        let mut took = clients.join_all().await.concat();
        let count = took.len();
        let (median, most) = median_and_most(&mut took);
        println!(
            "{count} values in {:?}: median {median:?}, at most {most:?}",
            began.elapsed()
        );
        for node in 0..scene.nodes {
            assert_eq!(raft(cluster, node).status().term, term, "an election");
        }
    });
}

fn ten_minutes(link: Link, sync: Duration) {
    for nodes in [3, 5] {
        let seed = 10 + nodes as u64;
        goes_on_without_an_election(Scene {
            link,
            sync,
            ..Scene::near(nodes, seed)
        });
    }
}

const FAST: Duration = Duration::from_millis(1);

#[test]
fn disks_of_120_ms_cause_no_election() {
    ten_minutes(LAN, Duration::from_millis(120));
}

#[test]
fn round_trips_of_100_ms_cause_no_election() {
    ten_minutes(far(0), FAST);
}

#[test]
fn losses_of_2_percent_cause_no_election() {
    ten_minutes(Link { lost: 20, ..LAN }, FAST);
}

#[test]
fn round_trips_of_100_ms_with_losses_of_2_percent_cause_no_election() {
    ten_minutes(far(20), FAST);
}

/// The requests are sequential. The messages that a value leaves in flight do not delay the next
/// one.
#[test]
fn a_strict_value_costs_one_round_trip_at_the_leader_and_two_at_a_follower() {
    for nodes in [3, 5] {
        let scene = Scene {
            link: far(0),
            ..Scene::near(nodes, 3)
        };
        scene.play(async |cluster| {
            let leader = leader_of_all_but(cluster, None).await;
            for (node, round_trips) in [(leader, 1), ((leader + 1) % nodes, 2)] {
                let mut took = Vec::new();
                for _ in 0..50 {
                    let asked = Instant::now();
                    let value = next(cluster, node).await;
                    assert!(matches!(value, Some(Ok(_))), "{value:?}");
                    took.push(asked.elapsed());
                }
                let (median, most) = median_and_most(&mut took);
                println!("{round_trips} round trips: median {median:?}, at most {most:?}");
                assert!(most < ROUND_TRIP * round_trips + 10 * FAST, "{most:?}");
            }
        });
    }
}
