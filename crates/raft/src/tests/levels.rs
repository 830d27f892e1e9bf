//! Programs of other levels: what a node refuses, and what ends it.

use std::time::Duration;

use seqd_state::Level;
use seqd_state::codec::{HEADER_BYTES, Versioned};

use super::harness::{Cluster, assert_ends, deadline, free_addr, next, options, stopped, wait};
use crate::handshake::hello;
use crate::records::ToRecord;
use crate::wire::messages::{AppendRequest, HelloReply, ReadIndex, Verdict};
use crate::wire::paths;
use crate::wire::sealed;
use crate::wire::transport::{CallError, Link, Payload, Rejection, RejectionCode};
use crate::{LevelRange, MemberError, Raft};

const LIMIT: Duration = Duration::from_secs(10);

/// Sends a message from one node to another as a program would that writes its next version.
async fn send_newer<M: Versioned>(
    cluster: &Cluster,
    (from, to): (usize, usize),
    path: &str,
    message: M,
) -> Rejection {
    let target = cluster.raft(to).status().node_id.unwrap().0;
    let context = &cluster.raft(from).node().context;
    let mut bytes =
        sealed::seal(&context.envelope(target).unwrap(), &message, Level::FIRST).unwrap();
    let (_, message) = sealed::unseal(&bytes).unwrap();
    let version = bytes.len() - message.len() + HEADER_BYTES - 1;
    bytes[version] += 1;
    let addr = &cluster.spots[to].addr;
    let payload = Payload::Bytes(bytes.into());
    let sent = context
        .transport
        .post(Link::Calls, addr, path, payload, LIMIT)
        .await;
    match sent {
        Err(CallError::Rejected(rejection)) => rejection,
        other => panic!("{other:?}"),
    }
}

/// A cluster of two, and which of them leads and which follows.
async fn pair() -> (Cluster, usize, usize) {
    let cluster = Cluster::new(2).await;
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    (cluster, leader, 1 - leader)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_cannot_read_its_leader_s_entries_stops_as_newer_format() {
    let (mut cluster, leader, follower) = pair().await;
    let vote = cluster.raft(leader).node().replica().unwrap();
    let append = AppendRequest {
        vote: vote.current_vote().record(),
        prev: None,
        entries: Vec::new(),
        commit: None,
        synced: None,
        acknowledged: Vec::new(),
    };
    let refused = send_newer(&cluster, (leader, follower), paths::APPEND, append).await;
    assert_eq!(refused.code, RejectionCode::NewerFormat, "{refused}");
    let stop = stopped(cluster.raft(follower)).await;
    assert_ends(&stop, 9, "newer-format");
    assert!(
        stop.message.contains("put the newer program back"),
        "{}",
        stop.message
    );
    // Its folder is not refused: with the newer program it goes on.
    cluster.stop(follower).await;
    cluster.start(follower).await.unwrap();
    cluster.ready().await;
    assert_eq!(next(cluster.raft(follower), "orders").await, Some(1));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_newer_program_is_refused_as_such_and_ends_nobody() {
    let (mut cluster, leader, follower) = pair().await;
    let question = ReadIndex { timeout_ms: 1_000 };
    let both = (follower, leader);
    let refused = send_newer(&cluster, both, paths::READ_INDEX, question).await;
    assert_eq!(refused.code, RejectionCode::NewerFormat, "{refused}");
    assert_eq!(next(cluster.raft(leader), "orders").await, Some(1));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_below_the_cluster_s_level_is_refused_in_the_handshake() {
    let (mut cluster, leader, follower) = pair().await;
    // The level rises once both know each other; here it must not rise in between.
    at_newest(&cluster).await;
    let context = &cluster.raft(follower).node().context;
    let mut hello = hello::own_hello(context);
    let level = context.level();
    hello.levels = LevelRange {
        oldest: 0,
        newest: level.0 - 1,
    };
    let addr = &cluster.spots[leader].addr;
    let reply: HelloReply = hello::ask(context, addr, paths::HELLO, hello, LIMIT)
        .await
        .unwrap();
    assert_eq!(reply.verdict, Verdict::LeftBehind { level });
    assert!(reply.levels.contains(level));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_member_s_levels_are_known_to_the_others() {
    let (mut cluster, leader, _) = pair().await;
    wait("all have sent what they speak", || async {
        let status = cluster.raft(leader).status();
        let known = |member: &crate::MemberStatus| {
            member
                .levels
                .is_some_and(|levels| levels.contains(Level(status.level)))
        };
        status.members.len() == 2 && status.members.iter().all(known)
    })
    .await;
    cluster.stop_all().await;
}

/// A program that speaks the first level alone.
const OLD: LevelRange = LevelRange {
    oldest: Level::FIRST.0,
    newest: Level::FIRST.0,
};

fn levels(cluster: &Cluster) -> Vec<u32> {
    let running = cluster.spots.iter().filter_map(|spot| spot.raft.as_ref());
    running.map(|raft| raft.status().level).collect()
}

/// Waits until the running nodes have raised the level as far as they can.
async fn at_newest(cluster: &Cluster) {
    wait("the level is the newest", || async {
        levels(cluster)
            .iter()
            .all(|level| *level == Level::NEWEST.0)
    })
    .await;
}

/// Whether a node knows what each of three members speaks.
fn knows_all(raft: &Raft) -> bool {
    let members = raft.status().members;
    members.len() == 3 && members.iter().all(|member| member.levels.is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_level_rises_once_the_last_member_speaks_it_and_an_older_program_is_refused_then() {
    let mut cluster = Cluster::planned(3);
    cluster.spots[2].levels = OLD;
    for at in 0..3 {
        cluster.start(at).await.unwrap();
    }
    cluster.create_orders(0).await;
    wait("every node knows what the others speak", || async {
        cluster
            .spots
            .iter()
            .all(|spot| knows_all(spot.raft.as_ref().unwrap()))
    })
    .await;
    // The leader looks ten times a second, and these take longer than a look.
    for value in 1..=20 {
        assert_eq!(next(cluster.raft(0), "orders").await, Some(value));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(levels(&cluster), [1, 1, 1]);

    // While it is away nobody knows what it comes back as.
    cluster.stop(2).await;
    for value in 21..=40 {
        assert_eq!(next(cluster.raft(0), "orders").await, Some(value));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(levels(&cluster), [1, 1]);

    cluster.spots[2].levels = LevelRange::OWN;
    cluster.start(2).await.unwrap();
    at_newest(&cluster).await;
    assert_eq!(next(cluster.raft(2), "orders").await, Some(41));

    cluster.stop(2).await;
    cluster.spots[2].levels = OLD;
    cluster.start(2).await.unwrap();
    let stop = stopped(cluster.raft(2)).await;
    assert_ends(&stop, 9, "newer-format");
    let wanted = format!(
        "this program speaks levels {OLD}, the cluster is at {}: put the newer program back",
        Level::NEWEST
    );
    assert_eq!(stop.message, wanted);

    cluster.stop(2).await;
    cluster.spots[2].levels = LevelRange::OWN;
    cluster.start(2).await.unwrap();
    cluster.ready().await;
    assert_eq!(next(cluster.raft(2), "orders").await, Some(42));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_speak_the_cluster_s_level_is_not_added() {
    let mut cluster = Cluster::new(1).await;
    cluster.ready().await;
    at_newest(&cluster).await;
    let (spot, addr) = (&cluster.spots[0], free_addr());
    let folder = cluster.dir.path().join("n2");
    let disk = std::sync::Arc::clone(&spot.disk);
    let mut options = options(disk, "n2", &folder, &addr, &cluster.peers).await;
    options.settings.levels = OLD;
    let older = Raft::start(options).await.unwrap();
    let added = cluster
        .raft(0)
        .member_add("n2".to_owned(), addr, None, deadline())
        .await;
    let Err(MemberError::Unfit { detail }) = added else {
        panic!("{added:?}");
    };
    assert!(detail.contains("speaks levels 1..1"), "{detail}");
    assert_eq!(cluster.raft(0).status().members.len(), 1);
    older.stop().await;
    cluster.stop_all().await;
}
