//! A lost leader is replaced soon, however it was lost. A leader that only a single follower cannot
//! reach stays. Nothing waits for a silent node.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata};

use super::net::Link;
use super::nodes::Cluster;
use super::plan::set_disk;
use super::scenarios::{PATIENCE, Scene, leader_of_all_but, median_and_most, next, raft, take_one};
use crate::{MemberError, ProposeError};

#[derive(Clone, Copy, Debug)]
pub(super) enum Loss {
    /// The node's links carry nothing.
    Cut,
    /// The other nodes' messages do not reach the node.
    Deaf,
    /// The node's process is paused, but has not ended.
    Paused,
    /// The node's host has no power.
    Dark,
    /// The node's process is killed. Its host refuses connections.
    Ended,
}

pub(super) fn links_of(cluster: &Cluster, node: usize, each: impl Fn(usize, usize)) {
    for other in (0..cluster.spots.len()).filter(|other| *other != node) {
        each(node, other);
    }
}

pub(super) fn lose(cluster: &Cluster, node: usize, loss: Loss) {
    let net = &cluster.net;
    match loss {
        Loss::Cut => links_of(cluster, node, |own, other| {
            net.cut(own, other);
            net.cut(other, own);
        }),
        Loss::Deaf => links_of(cluster, node, |own, other| net.cut(other, own)),
        Loss::Paused => (cluster.process(node).expect("it runs").scope).pause(),
        Loss::Dark => cluster.kill(node, true),
        Loss::Ended => cluster.kill(node, false),
    }
}

pub(super) async fn give_back(scene: &Scene, cluster: &Arc<Cluster>, node: usize) {
    let net = &cluster.net;
    links_of(cluster, node, |own, other| {
        net.heal(own, other);
        net.heal(other, own);
    });
    scene.start(cluster, node).await;
    (cluster.process(node).expect("it runs").scope).resume();
}

/// The cost of the loss of a leader.
#[derive(Default)]
struct Cost {
    /// Times until a value was returned.
    pauses: Vec<Duration>,
    /// Times until the requests that were sent through the other nodes at the moment of the loss
    /// were answered.
    told: Vec<Duration>,
}

const ROUNDS: usize = 10;

async fn lose_leaders(scene: Scene, cluster: &Arc<Cluster>, loss: Loss, cost: &mut Cost) {
    for round in 0..ROUNDS {
        let leader = leader_of_all_but(cluster, None).await;
        // The loss falls at different moments between two heartbeats and two pings.
        sleep(Duration::from_millis(2_000 + 37 * round as u64)).await;
        lose(cluster, leader, loss);
        let began = Instant::now();
        let others = (0..scene.nodes).filter(|node| *node != leader);
        let told = others.clone().map(|node| async move {
            next(cluster, node).await;
            began.elapsed()
        });
        let pause = async {
            let through = (leader + 1) % scene.nodes;
            while !matches!(next(cluster, through).await, Some(Ok(_))) {
                sleep(Duration::from_millis(5)).await;
            }
            began.elapsed()
        };
        let (told, pause) = tokio::join!(biased; futures_util::future::join_all(told), pause);
        cost.told.extend(told);
        cost.pauses.push(pause);
        leader_of_all_but(cluster, Some(leader)).await;
        give_back(&scene, cluster, leader).await;
    }
}

fn cost_of(loss: Loss, nodes: usize) -> (Duration, Duration, Duration) {
    let mut cost = Cost::default();
    let scene = Scene::near(nodes, nodes as u64);
    scene.play(async |cluster| lose_leaders(scene, cluster, loss, &mut cost).await);
    let (median, most) = median_and_most(&mut cost.pauses);
    let (_, told) = median_and_most(&mut cost.told);
    println!("{loss:?} of {nodes}: no value for {median:?}, at most {most:?}; told after {told:?}");
    (median, most, told)
}

#[test]
fn a_silent_leader_is_replaced_within_a_second_and_waiters_get_an_error() {
    for loss in [Loss::Cut, Loss::Deaf, Loss::Paused, Loss::Dark] {
        for nodes in [3, 5] {
            let (median, most, told) = cost_of(loss, nodes);
            assert!(median <= Duration::from_millis(900), "{median:?}");
            assert!(most <= Duration::from_millis(1_500), "{most:?}");
            assert!(told <= Duration::from_millis(1_000), "{told:?}");
        }
    }
}

#[test]
fn a_leader_whose_process_has_ended_is_replaced_before_its_lease_ends() {
    for nodes in [3, 5] {
        let (median, most, told) = cost_of(Loss::Ended, nodes);
        // The leader's lease is 600 ms, the middle of the election timeouts.
        assert!(median < Duration::from_millis(400), "{median:?}");
        assert!(most <= Duration::from_millis(900), "{most:?}");
        assert!(told <= Duration::from_millis(1_000), "{told:?}");
    }
}

fn hang(cluster: &Cluster, node: usize, is_hung: bool) {
    set_disk(cluster, node, Duration::from_millis(1), is_hung);
}

/// A value that the cluster must return.
pub(super) async fn value(cluster: &Arc<Cluster>, node: usize) -> i64 {
    match next(cluster, node).await {
        Some(Ok(value)) => value,
        other => panic!("n{}: {other:?}", node + 1),
    }
}

#[test]
fn a_follower_whose_connections_to_the_leader_are_refused_deposes_no_leader() {
    Scene::near(3, 7).play(async |cluster| {
        let leader = leader_of_all_but(cluster, None).await;
        let (refused, other) = ((leader + 1) % 3, (leader + 2) % 3);
        let term = raft(cluster, other).status().term;
        cluster.net.refuse(refused, leader, true);
        cluster.net.reset(refused, leader);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            value(cluster, other).await;
            sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(raft(cluster, other).status().term, term);
        assert_eq!(leader_of_all_but(cluster, None).await, leader);
    });
}

/// The callers give up while their groups are being tried, or have disconnected. The groups must
/// end on their own.
#[test]
fn a_refused_follower_serves_no_late_request_and_continues_once_accepted() {
    let round_trip = Duration::from_millis(50);
    let scene = Scene {
        link: Link::far(round_trip),
        ..Scene::near(3, 15)
    };
    scene.play(async |cluster| {
        let leader = leader_of_all_but(cluster, None).await;
        let refused = (leader + 1) % 3;
        let before = value(cluster, leader).await;
        cluster.net.refuse(refused, leader, true);
        cluster.net.reset(refused, leader);
        for gone in [20 * round_trip, 2 * round_trip] {
            for _ in 0..4 {
                let deadline = Instant::now() + 4 * round_trip;
                let asked = cluster.ask(refused, gone, |raft| async move {
                    raft.propose(vec![take_one()], deadline).await
                });
                let answer = asked.await;
                assert!(!matches!(answer, Some(Ok(_))), "{answer:?}");
            }
        }
        // The last deadline passes.
        sleep(4 * round_trip).await;
        cluster.net.refuse(refused, leader, false);
        assert_eq!(value(cluster, refused).await, before + 1);
    });
}

/// The follower finds the leader's port closed some fifty times a second, and receives its
/// heartbeats ten times.
#[test]
fn a_follower_whose_connections_are_refused_logs_once_that_it_runs_for_leader() {
    // Set for all threads. With a subscriber for this thread alone, a log line that another test
    // reaches first is disabled for this test as well.
    tracing::subscriber::set_global_default(RunsForLeader).unwrap();
    tracing::callsite::rebuild_interest_cache();
    Scene::near(3, 7).play(async |cluster| {
        let leader = leader_of_all_but(cluster, None).await;
        // The first of the voters that may run.
        let refused = usize::from(leader == 0);
        let before = LINES.get();
        cluster.net.refuse(refused, leader, true);
        cluster.net.reset(refused, leader);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(LINES.get() - before, 1);
    });
}

thread_local! {
    /// The number of log lines about runs for leader by nodes on this thread.
    static LINES: Cell<u64> = const { Cell::new(0) };
}

/// Counts the lines in [`LINES`].
struct RunsForLeader;

impl tracing::Subscriber for RunsForLeader {
    fn enabled(&self, line: &Metadata<'_>) -> bool {
        line.target().ends_with("tasks::elections") && *line.level() == Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        LINES.set(LINES.get() + 1);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_transfer_to_a_silent_node_fails_and_delays_no_request() {
    Scene::near(3, 8).play(async |cluster| {
        let leader = leader_of_all_but(cluster, None).await;
        let silent = (leader + 1) % 3;
        let term = raft(cluster, leader).status().term;
        lose(cluster, silent, Loss::Cut);
        // By then, the leader has noticed that the silent node does not answer.
        sleep(Duration::from_secs(1)).await;
        let asked = Instant::now();
        let moved = cluster.ask(leader, Duration::from_secs(30), |raft| async move {
            let until = asked + Duration::from_secs(10);
            raft.leader_move(Some(format!("n{}", silent + 1)), until)
                .await
        });
        let (moved, value) = tokio::join!(biased; moved, next(cluster, leader));
        assert!(
            matches!(moved, Some(Err(MemberError::Unfit { .. }))),
            "{moved:?}"
        );
        assert!(matches!(value, Some(Ok(_))), "{value:?}");
        let took = asked.elapsed();
        assert!(took < Duration::from_millis(50), "{took:?}");
        assert_eq!(raft(cluster, leader).status().term, term);
    });
}

#[test]
fn an_isolated_leader_answers_waiting_requests_and_then_each_at_once() {
    let scene = Scene::near(3, 9);
    scene.play(async |cluster| {
        let leader = leader_of_all_but(cluster, None).await;
        let before = value(cluster, leader).await;
        lose(cluster, leader, Loss::Cut);
        let began = Instant::now();
        let waits = (0..40u32).map(|turn| async move {
            sleep(Duration::from_millis(5) * turn).await;
            (next(cluster, leader).await, began.elapsed())
        });
        let answers = futures_util::future::join_all(waits).await;
        let last = answers.iter().map(|(_, told)| *told).max();
        println!("the last of {} was told after {last:?}", answers.len());
        assert!(last <= Some(Duration::from_millis(1_000)), "{last:?}");
        for (answer, _) in &answers {
            let is_told = matches!(
                answer,
                Some(Err(
                    ProposeError::OutcomeUnknown { .. } | ProposeError::NoQuorum { .. }
                ))
            );
            assert!(is_told, "{answer:?}");
        }
        let asked = Instant::now();
        let refused = next(cluster, leader).await;
        let is_refused = matches!(refused, Some(Err(ProposeError::NoQuorum { .. })));
        assert!(is_refused, "{refused:?}");
        assert_eq!(asked.elapsed(), Duration::ZERO);
        // None of these requests is committed, or proposed again once the node is back.
        let other = leader_of_all_but(cluster, Some(leader)).await;
        assert_eq!(value(cluster, other).await, before + 1);
        give_back(&scene, cluster, leader).await;
        assert_eq!(leader_of_all_but(cluster, None).await, other);
        assert_eq!(value(cluster, leader).await, before + 2);
        assert_eq!(value(cluster, other).await, before + 3);
    });
}

/// The leader still sends heartbeats, so nobody runs for leader.
#[test]
fn a_follower_that_hears_a_leader_without_a_quorum_has_no_quorum_contact() {
    let scene = Scene::near(5, 11);
    scene.play(async |cluster| {
        let leader = leader_of_all_but(cluster, None).await;
        let term = raft(cluster, leader).status().term;
        let others: Vec<usize> = (0..5).filter(|node| *node != leader).collect();
        let (follower, lost) = (others[0], &others[1..]);
        for node in lost {
            lose(cluster, *node, Loss::Ended);
        }
        let election_max = raft(cluster, follower).node().context.settings.election.1;
        sleep(election_max * 2).await;
        for node in [leader, follower] {
            let status = raft(cluster, node).status();
            assert!(!status.has_quorum_contact, "n{}", node + 1);
            assert_eq!((status.leader, status.term), (None, term));
            assert!(
                status.out_of_contact_for >= Some(election_max),
                "{status:?}"
            );
        }
        let asked = Instant::now();
        let refused = next(cluster, follower).await;
        let is_refused = matches!(refused, Some(Err(ProposeError::NoQuorum { .. })));
        assert!(is_refused, "{refused:?}");
        assert!(asked.elapsed() < Duration::from_millis(10));

        scene.start(cluster, lost[0]).await;
        assert_eq!(leader_of_all_but(cluster, None).await, leader);
        assert_eq!(raft(cluster, follower).status().term, term);
        assert!(raft(cluster, follower).status().has_quorum_contact);
        value(cluster, follower).await;
    });
}

#[test]
fn an_entry_on_the_leader_s_disk_alone_is_not_acknowledged() {
    Scene::near(3, 10).play(async |cluster| {
        let leader = leader_of_all_but(cluster, None).await;
        let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
        let first = value(cluster, leader).await;
        // Two disks of three are enough.
        hang(cluster, others[0], true);
        assert_eq!(value(cluster, leader).await, first + 1);
        hang(cluster, others[1], true);
        let unknown = next(cluster, leader).await;
        let is_unknown = matches!(unknown, Some(Err(ProposeError::OutcomeUnknown { .. })));
        assert!(is_unknown, "{unknown:?}");
        others.iter().for_each(|node| hang(cluster, *node, false));
        leader_of_all_but(cluster, None).await;
        let later = value(cluster, leader).await;
        assert!(later == first + 2 || later == first + 3, "{later}");
    });
}

/// A former leader restarts while the first entry of its term is still to be applied.
#[test]
fn a_start_leads_by_no_entry_of_before_it() {
    let scene = Scene::near(3, 1);
    let mut looks = 0;
    scene.play(async |cluster| {
        let lost = leader_of_all_but(cluster, None).await;
        cluster.kill(lost, false);
        let (leader, term) = next_leader(cluster).await;
        // The nodes are killed before a checkpoint contains the first entry of the term, and after
        // its commit is stored.
        for _ in 0..3 {
            let value = next(cluster, leader).await;
            assert!(matches!(value, Some(Ok(_))), "{value:?}");
        }
        for node in 0..scene.nodes {
            cluster.kill(node, false);
        }
        for node in 0..scene.nodes {
            scene.start(cluster, node).await;
        }
        let until = Instant::now() + PATIENCE;
        while raft(cluster, leader).status().term <= term {
            let raft = raft(cluster, leader);
            if let Some(replica) = raft.node().replica() {
                let blank = replica.applied.read().blank;
                if blank.is_some_and(|blank| blank.term == term) {
                    looks += 1;
                    assert!(replica.leading().is_none(), "it leads by what it replayed");
                    assert!(!replica.has_quorum_contact(), "it has heard of nobody");
                }
            }
            assert!(Instant::now() < until, "no election within {PATIENCE:?}");
            sleep(Duration::from_millis(1)).await;
        }
        leader_of_all_but(cluster, None).await;
    });
    assert!(looks > 0, "nothing of the term was replayed");
}

/// The first running node that may propose, and its term.
async fn next_leader(cluster: &Arc<Cluster>) -> (usize, u64) {
    let until = Instant::now() + PATIENCE;
    loop {
        for node in cluster.running() {
            let raft = raft(cluster, node);
            if let Some(leading) = raft.node().replica().and_then(|it| it.leading()) {
                return (node, leading.term);
            }
        }
        assert!(Instant::now() < until, "no leader within {PATIENCE:?}");
        sleep(Duration::from_millis(1)).await;
    }
}
