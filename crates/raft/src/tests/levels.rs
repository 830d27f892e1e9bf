//! Programs of other levels: what a node refuses, and what ends it.

use std::time::Duration;

use seqd_state::codec::HEADER_BYTES;

use super::harness::{Cluster, next, stopped};
use crate::handshake::hello;
use crate::levels::LevelRange;
use crate::records::ToRecord;
use crate::wire::messages::{AppendRequest, HelloReply, Message, ReadIndex, Verdict};
use crate::wire::paths;
use crate::wire::sealed;
use crate::wire::transport::{CallError, Link, Payload, Rejection, RejectionCode};

const LIMIT: Duration = Duration::from_secs(10);

/// Sends a message from one node to another as a program would that writes its next version.
async fn send_newer<M: Message>(
    cluster: &Cluster,
    (from, to): (usize, usize),
    path: &str,
    message: M,
) -> Rejection {
    let target = cluster.raft(to).status().node_id.unwrap().0;
    let context = &cluster.raft(from).node().context;
    let mut bytes = sealed::seal(&context.envelope(target).unwrap(), message).unwrap();
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
    assert_eq!((stop.exit(), stop.code()), (9, "newer-format"));
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
    let context = &cluster.raft(follower).node().context;
    let mut hello = hello::own_hello(context);
    let level = context.level();
    hello.levels = LevelRange {
        oldest: 0,
        newest: level - 1,
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
    super::harness::wait("all have said what they speak", || async {
        let status = cluster.raft(leader).status();
        let known = |member: &crate::MemberStatus| {
            member
                .levels
                .is_some_and(|levels| levels.contains(status.level))
        };
        status.members.len() == 2 && status.members.iter().all(known)
    })
    .await;
    cluster.stop_all().await;
}
