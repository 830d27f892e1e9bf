//! All nodes stop together. Each still returns its unused ranges, no value is repeated, and no stop
//! takes longer than permitted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use seqd_tests::cluster::{Cluster, READY, integer};
use seqd_tests::wait;
use serde_json::json;

/// The longest duration of a clean stop.
const CLEAN_STOP: Duration = Duration::from_secs(10);

/// The number of times that all nodes are stopped together and started again.
const ROUNDS: usize = 6;

/// The time between the signals to two nodes: at the same time, and as if hosts were stopped one
/// after another.
const APART: [Duration; 2] = [Duration::ZERO, Duration::from_millis(200)];

/// For each node, the number of sequences that only this node serves; and the number of sequences
/// that all nodes serve.
const OWN: usize = 8;
const SHARED: usize = 4;

/// The allocated values of each sequence.
#[derive(Default)]
struct Given(BTreeMap<String, BTreeSet<i64>>);

impl Given {
    /// Allocates values of a sequence, none of which may be a repetition. Returns the last one.
    fn take(&mut self, cluster: &Cluster, node: usize, name: &str, count: u64) -> i64 {
        let (first, last) = cluster.next(node, name, count);
        let seen = self.0.entry(name.to_owned()).or_default();
        for value in first..=last {
            assert!(seen.insert(value), "{value} of {name} was given twice");
        }
        last
    }

    /// The sequences with a gap below their last value.
    fn with_a_gap(&self) -> BTreeSet<&str> {
        let has_gap = |values: &BTreeSet<i64>| {
            let last = values.last().copied().unwrap_or_default();
            usize::try_from(last) != Ok(values.len())
        };
        let names = self.0.iter().filter(|(_, values)| has_gap(values));
        names.map(|(name, _)| name.as_str()).collect()
    }
}

fn own(node: usize, index: usize) -> String {
    format!("own-{node}-{index}")
}

fn shared(index: usize) -> String {
    format!("shared-{index}")
}

/// A cluster with sequences of small segments.
fn with_sequences(count: usize) -> Cluster {
    let cluster = Cluster::started(count);
    let small = json!({"segment": {"min": 100, "max": 100}});
    let names = (0..count).flat_map(|node| (0..OWN).map(move |index| own(node, index)));
    for name in names.chain((0..SHARED).map(shared)) {
        cluster.create_sequence(0, &name, &small);
    }
    cluster
}

/// Stops these nodes with one signal each, `apart` from each other. Returns the time that the last
/// one took.
fn stop_together(cluster: &mut Cluster, nodes: &[usize], apart: Duration) -> Duration {
    let began = Instant::now();
    for &node in nodes {
        cluster.node(node).signal(Signal::TERM);
        std::thread::sleep(apart);
    }
    for &node in nodes {
        assert_eq!(
            cluster.node_mut(node).exit_within(CLEAN_STOP).code(),
            Some(0)
        );
    }
    began.elapsed()
}

fn allocated(cluster: &Cluster, node: usize, name: &str) -> i64 {
    let sequence = cluster.get(node, &format!("/v1/sequences/{name}"));
    integer(&sequence.ok().json()["allocated"])
}

#[test]
fn nodes_that_stop_together_all_release_their_workers_and_values() {
    let mut cluster = with_sequences(3);
    let mut given = Given::default();
    for round in 0..ROUNDS {
        let mut last = BTreeMap::new();
        for node in 0..3 {
            for index in 0..OWN {
                let count = 1 + (index * 13 + round) as u64;
                given.take(&cluster, node, &own(node, index), count);
            }
        }
        for index in 0..SHARED {
            for node in 0..3 {
                // The last node's grant is the latest one, so the returned tails lead back to this
                // value.
                last.insert(shared(index), given.take(&cluster, node, &shared(index), 7));
            }
        }
        // Over the rounds, the leader is stopped first, last, and in the middle.
        let apart = APART[round % APART.len()];
        let order = [round % 3, (round + 1) % 3, (round + 2) % 3];
        let took = stop_together(&mut cluster, &order, apart);
        println!("round {round}: stopped {apart:?} apart in {took:?}");
        cluster.start_all();
        cluster.wait_ready();
        for (name, last) in last {
            assert_eq!(allocated(&cluster, 0, &name), last, "round {round}: {name}");
        }
    }
    for node in 0..3 {
        for index in 0..OWN {
            given.take(&cluster, node, &own(node, index), 1);
        }
    }
    let gaps = given.with_a_gap();
    let (own, shared): (Vec<&str>, Vec<&str>) =
        gaps.into_iter().partition(|name| name.starts_with("own"));
    println!("with a gap: {own:?} of one node's, {shared:?} of all nodes'");
    assert!(own.is_empty(), "{own:?}");
    assert_eq!(shared.len(), SHARED, "behind a later grant there is a gap");
}

#[test]
fn the_windows_of_a_leader_that_nobody_succeeds_are_returned() {
    for count in [1, 3] {
        let mut cluster = Cluster::started(count);
        cluster.create_sequence(0, "ticket", &json!({"mode": "ordered"}));
        let nodes: Vec<usize> = (0..count).collect();
        for (round, apart) in APART.into_iter().enumerate() {
            let first = 5 * i64::try_from(round).unwrap() + 1;
            let drawn = cluster.next(round % count, "ticket", 5);
            assert_eq!(drawn, (first, first + 4), "{count} nodes, round {round}");
            stop_together(&mut cluster, &nodes, apart);
            cluster.start_all();
            cluster.wait_ready();
        }
        assert_eq!(cluster.next(0, "ticket", 1), (11, 11), "{count} nodes");
    }
}

#[test]
fn workers_of_nodes_that_stop_together_are_free_at_once() {
    let mut cluster = Cluster::started(3);
    let workers = |cluster: &Cluster| -> Vec<u64> {
        let worker = |node| {
            let id = cluster.url(node, "/v1/id");
            let id = seqd_tests::http::get(&id).accept_json().reply().ok().json();
            id["worker"].as_u64().unwrap()
        };
        (0..3).map(worker).collect()
    };
    let before = workers(&cluster);
    for _ in 0..2 {
        stop_together(&mut cluster, &[0, 1, 2], Duration::ZERO);
        cluster.start_all();
        cluster.wait_ready();
        assert_eq!(workers(&cluster), before, "each has its worker of before");
    }
}

#[test]
fn two_nodes_that_stop_together_while_one_is_down_release_their_workers_and_values() {
    let mut cluster = with_sequences(3);
    let mut given = Given::default();
    let dead = cluster.leader();
    cluster.node_mut(dead).kill();
    let left: Vec<usize> = (0..3).filter(|node| *node != dead).collect();
    cluster.wait_ready_of(&left, READY);
    for &node in &left {
        for index in 0..OWN {
            given.take(&cluster, node, &own(node, index), 40);
        }
    }
    let took = stop_together(&mut cluster, &left, Duration::ZERO);
    println!("stopped in {took:?}");
    cluster.start_all();
    cluster.wait_ready();
    for &node in &left {
        for index in 0..OWN {
            given.take(&cluster, (node + 1) % 3, &own(node, index), 1);
        }
    }
    assert!(given.with_a_gap().is_empty(), "{:?}", given.with_a_gap());
}

#[test]
fn a_node_that_a_request_holds_up_is_waited_for() {
    let mut cluster = with_sequences(3);
    let mut given = Given::default();
    for round in 0..2 {
        let busy = if round == 0 {
            cluster.follower()
        } else {
            cluster.leader()
        };
        for index in 0..OWN {
            given.take(&cluster, busy, &own(busy, index), 40);
        }
        // A body that never arrives completely: the node waits for the rest until the request's
        // deadline, even if its stop begins before it has read the head.
        let mut held = TcpStream::connect(cluster.address(busy)).unwrap();
        held.write_all(
            b"POST /v1/sequences/shared-0/next HTTP/1.1\r\nhost: localhost\r\n\
              content-type: application/json\r\ncontent-length: 12\r\n\r\n{",
        )
        .unwrap();
        let took = stop_together(&mut cluster, &[0, 1, 2], Duration::ZERO);
        println!("round {round}: stopped in {took:?}");
        cluster.start_all();
        cluster.wait_ready();
        for index in 0..OWN {
            given.take(&cluster, busy, &own(busy, index), 1);
        }
        let gaps = given.with_a_gap();
        assert!(gaps.is_empty(), "{gaps:?}");
    }
}

/// The node that is killed in the middle of a stop.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Leader,
    Follower,
}

#[test]
fn a_kill_during_a_common_stop_delays_no_node_and_repeats_nothing() {
    let mut cluster = with_sequences(3);
    let mut given = Given::default();
    for victim in [Victim::Follower, Victim::Leader] {
        for node in 0..3 {
            for index in 0..OWN {
                given.take(&cluster, node, &own(node, index), 40);
            }
            given.take(&cluster, node, &shared(0), 7);
        }
        let hit = match victim {
            Victim::Leader => cluster.leader(),
            Victim::Follower => cluster.follower(),
        };
        let before = cluster.node(hit).stderr().len();
        let began = Instant::now();
        for node in 0..3 {
            cluster.node(node).signal(Signal::TERM);
        }
        wait::until("the stop has begun", READY, || {
            let stderr = cluster.node(hit).stderr();
            stderr[before..].contains("stopping").then_some(())
        });
        cluster.node_mut(hit).kill();
        for node in (0..3).filter(|node| *node != hit) {
            let ended = cluster.node_mut(node).exit_within(CLEAN_STOP);
            assert_eq!(ended.code(), Some(0));
        }
        let took = began.elapsed();
        cluster.start_all();
        cluster.wait_ready();
        for node in 0..3 {
            for index in 0..OWN {
                given.take(&cluster, node, &own(node, index), 1);
            }
        }
        let gaps = given.with_a_gap();
        println!("{victim:?} killed, stopped in {took:?}, with a gap: {gaps:?}");
        // If a follower is killed, two nodes remain, one of them the leader, and return everything.
        // If the leader is killed, messages that are on their way to it may be lost.
        if matches!(victim, Victim::Follower) {
            let own_of_hit = format!("own-{hit}-");
            let mut others = gaps.iter().filter(|name| name.starts_with("own"));
            assert!(others.all(|name| name.starts_with(&own_of_hit)), "{gaps:?}");
        }
    }
}
