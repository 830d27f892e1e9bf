//! Entries that take seconds on a slow link are delivered, without an election meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use seqd_state::{Command, SequenceMode};
use seqd_store::testing::create_sequence;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

use super::harness::{Cluster, caught_up, deadline, free_addr, learner_at, next};

/// About 8 Mbit/s.
const BYTES_A_SECOND: u32 = 1 << 20;

/// Bytes that one connection sends at a time, while the others wait.
const TURN: usize = 4 << 10;

/// Opens a slow link to `target` that all its connections share.
async fn slow_way_to(target: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let free_at = Arc::new(Mutex::new(Instant::now()));
    tokio::spawn(async move {
        while let Ok((caller, _)) = listener.accept().await {
            tokio::spawn(carry(caller, target.clone(), Arc::clone(&free_at)));
        }
    });
    addr
}

async fn carry(mut caller: TcpStream, target: String, free_at: Arc<Mutex<Instant>>) {
    let Ok(mut callee) = TcpStream::connect(target).await else {
        return;
    };
    let (mut from, mut back) = caller.split();
    let (mut answers, mut to) = callee.split();
    let forth = async {
        let mut chunk = vec![0; TURN];
        loop {
            let read = from.read(&mut chunk).await.unwrap_or(0);
            let until = {
                let mut free_at = free_at.lock().unwrap();
                let takes = Duration::from_secs(1) * u32::try_from(read).unwrap() / BYTES_A_SECOND;
                *free_at = (*free_at).max(Instant::now()) + takes;
                *free_at
            };
            sleep_until(until).await;
            if read == 0 || to.write_all(&chunk[..read]).await.is_err() {
                return;
            }
        }
    };
    let answered = tokio::io::copy(&mut answers, &mut back);
    tokio::select! { () = forth => {}, _ = answered => {} }
}

/// The commands of one proposal, and therefore of one entry, with more than a KiB for each
/// creation.
pub(super) fn creations(group: u32, count: u32) -> Vec<Command> {
    let description = "d".repeat(1024);
    let create = |n| create_sequence(&format!("s{group}.{n}"), SequenceMode::Strict, &description);
    (0..count).map(create).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_that_take_seconds_on_a_slow_link_are_committed_under_the_same_leader() {
    let mut cluster = Cluster::planned(2);
    cluster.peers[1].addr = slow_way_to(cluster.spots[1].addr.clone()).await;
    for at in 0..2 {
        cluster.start(at).await.unwrap();
    }
    cluster.create_orders(0).await;
    let raft = cluster.raft(0);
    let moved = raft.leader_move(Some("n1".to_owned()), deadline()).await;
    assert_eq!(moved.unwrap(), "n1");
    let term = || raft.node().replica().unwrap().current_vote().leader_id.term;
    let before = term();
    let began = Instant::now();
    let outcomes = raft.propose(creations(0, 2_600), deadline()).await.unwrap();
    assert_eq!(outcomes.len(), 2_600);
    assert!(
        began.elapsed() > Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(next(cluster.raft(1), "orders").await, Some(1));
    assert_eq!(term(), before);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_that_lacks_megabytes_catches_up_on_a_slow_link() {
    let mut cluster = Cluster::new(1).await;
    cluster.create_orders(0).await;
    let raft = cluster.raft(0);
    for group in 0..4 {
        raft.propose(creations(group, 1_050), deadline())
            .await
            .unwrap();
    }
    let own = free_addr();
    let way = slow_way_to(own.clone()).await;
    let learner = learner_at("n2", &cluster, (own, way)).await;
    caught_up(raft, &learner).await;
    learner.stop().await;
    cluster.stop_all().await;
}
