//! A leader that is stopped transfers leadership after it has answered, and no request is lost.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::net::{LAN, Link};
use super::nodes::Cluster;
use super::scenarios::{Scene, leader_of_all_but, next};
use crate::ChangeOfMembers;

/// The leader's messages to a follower take longer than the election of the next leader.
const LATE: Link = Link {
    delay: Duration::from_millis(50),
    ..LAN
};

const SLOW: Link = Link {
    delay: Duration::from_millis(10),
    ..LAN
};

const PATIENT: Duration = Duration::from_secs(5);

#[test]
fn an_answer_after_the_notice_of_the_next_leader_is_awaited() {
    let scene = Scene::near(3, 1);
    scene.play(async |cluster| {
        for after_ms in 0..20 {
            let leader = leader_of_all_but(cluster, None).await;
            let asked = (leader + 1) % scene.nodes;
            cluster.net.set_link(leader, asked, LATE);
            let stop = async {
                sleep(Duration::from_millis(after_ms)).await;
                cluster.stop(leader).await;
            };
            let (answer, ()) = tokio::join!(biased; next(cluster, asked), stop);
            assert!(
                matches!(answer, Some(Ok(_))),
                "{after_ms} ms before the leader was stopped: {answer:?}"
            );
            cluster.net.set_link(leader, asked, LAN);
            scene.start(cluster, leader).await;
        }
    });
}

/// A cluster whose leader cannot hand its leadership over: each follower answers the leader, but
/// connects to no node, so it cannot request votes.
async fn leader_without_an_heir_that_wins(cluster: &Cluster) -> usize {
    let leader = leader_of_all_but(cluster, None).await;
    for from in (0..3).filter(|node| *node != leader) {
        for to in (0..3).filter(|to| *to != from) {
            cluster.net.refuse(from, to, true);
            cluster.net.reset(from, to);
        }
    }
    leader
}

/// Drains the leader, with this deadline. Returns the time until the answer.
async fn drain(cluster: &Cluster, leader: usize, deadline: Duration) -> Duration {
    let began = Instant::now();
    let drained = cluster.ask(leader, PATIENT, move |raft| async move {
        let name = format!("n{}", leader + 1);
        let change = ChangeOfMembers::Drain { name, drains: true };
        raft.change_member(change, began + deadline).await
    });
    let drained = drained.await;
    assert!(matches!(drained, Some(Ok(_))), "{drained:?}");
    began.elapsed()
}

#[test]
fn a_drain_with_a_short_deadline_is_answered_within_it() {
    Scene::near(3, 3).play(async |cluster| {
        let leader = leader_without_an_heir_that_wins(cluster).await;
        // By now the leader has reconnected, but has not yet noticed that the others' pings are
        // missing.
        sleep(Duration::from_secs(1)).await;
        let short = Duration::from_millis(500);
        let took = drain(cluster, leader, short).await;
        assert!(took < short, "{took:?}");
    });
}

/// openraft never takes back a transfer that has begun, so the cluster would stay without a leader.
#[test]
fn a_voter_that_cannot_connect_to_the_leader_is_no_heir() {
    Scene::near(3, 4).play(async |cluster| {
        let leader = leader_without_an_heir_that_wins(cluster).await;
        sleep(PATIENT).await;
        let to = format!("n{}", (leader + 1) % 3 + 1);
        let moved = cluster.ask(leader, PATIENT, move |raft| async move {
            raft.leader_move(Some(to), Instant::now() + PATIENT).await
        });
        let refused = format!("{:?}", moved.await);
        assert!(refused.contains("none of its pings arrives"), "{refused}");
        drain(cluster, leader, PATIENT).await;
        let answer = next(cluster, leader).await;
        assert!(matches!(answer, Some(Ok(_))), "{answer:?}");
    });
}

async fn move_leader(cluster: &Cluster, from: usize, to: usize) {
    let moved = cluster.ask(from, PATIENT, move |raft| async move {
        let until = Instant::now() + PATIENT;
        raft.leader_move(Some(format!("n{}", to + 1)), until).await
    });
    let moved = moved.await;
    assert!(matches!(moved, Some(Ok(_))), "{moved:?}");
}

/// The time for which a request waits for a leader is counted from the last contact with a quorum,
/// not from the last message of the leader before this node's own leadership.
#[test]
fn a_node_that_gave_up_a_long_leadership_refuses_no_request() {
    let scene = Scene::near(3, 2);
    scene.play(async |cluster| {
        let first = leader_of_all_but(cluster, None).await;
        let (leader, third) = ((first + 1) % 3, (first + 2) % 3);
        move_leader(cluster, first, leader).await;
        // The next leader needs this leader's vote, which is given long before the next leader's
        // first message arrives.
        for (from, to, link) in [(first, third, LATE), (first, leader, SLOW)] {
            cluster.net.set_link(from, to, link);
            cluster.net.set_link(to, from, link);
        }
        sleep(Duration::from_secs(60)).await;
        let requests = (0..200).map(|after_ms| async move {
            sleep(Duration::from_millis(after_ms)).await;
            (after_ms, next(cluster, leader).await)
        });
        let moved = move_leader(cluster, leader, first);
        let ((), answers) = tokio::join!(biased; moved, join_all(requests));
        for (after_ms, answer) in &answers {
            assert!(
                matches!(answer, Some(Ok(_))),
                "after {after_ms} ms: {answer:?}"
            );
        }
    });
}
