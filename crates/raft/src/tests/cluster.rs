//! A cluster's life: bootstrap, members, leaders, lost folders.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seqd_disk::{Disk, OsDisk, Space, Tap, Tapped};
use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::Link;
use seqd_state::{Command, NextRequest, SequenceCommand, State};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::harness::{
    Cluster, PATIENCE, assert_ends, create, deadline, free_addr, learner, name, next, pair,
    stopped, wait,
};
use crate::conversation;
use crate::messages::Watch;
use crate::{Peer, Phase, ProposeError};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_proposes_and_all_agree() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(1).await;
    let mut values = Vec::new();
    for round in 0..9 {
        values.push(next(cluster.raft(round % 3), "orders").await.unwrap());
    }
    assert_eq!(values, (1..=9).collect::<Vec<i64>>());
    for at in 0..3 {
        cluster.raft(at).read(deadline()).await.unwrap();
    }
    wait("equal applied means equal digest", || async {
        let seen: Vec<_> = (0..3).map(|at| cluster.raft(at).status()).collect();
        seen.iter().all(|s| s.applied == seen[0].applied)
            && seen.iter().all(|s| s.digest == seen[0].digest)
    })
    .await;
    cluster.stop_all().await;
}

/// A disk whose size is that of a small one.
struct SmallDisk;

const SMALL_DISK_BYTES: u64 = 192 << 20;

impl Tap for SmallDisk {
    fn space(&self, _: &dyn Disk, _: &Path) -> io::Result<Space> {
        let (total, free) = (SMALL_DISK_BYTES, SMALL_DISK_BYTES);
        Ok(Space { total, free })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_segment_of_each_founder_s_log_fits_a_small_disk() {
    let mut cluster = Cluster::planned(2);
    for spot in &mut cluster.spots {
        let (disk, tap) = (Arc::new(OsDisk), Arc::new(SmallDisk));
        spot.disk = Arc::new(Tapped { disk, tap });
    }
    for at in 0..2 {
        cluster.start(at).await.unwrap();
    }
    cluster.ready().await;
    for spot in &cluster.spots {
        let first = std::fs::metadata(spot.folder.join("wal/0000000001.seg"));
        let len = first.unwrap().len();
        assert!(len <= SMALL_DISK_BYTES / 64, "{}: {len}", spot.name);
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_checkpoint_is_rebuilt_to_the_same_digest() {
    let mut cluster = Cluster::new(3).await;
    cluster.ready().await;
    for n in 0..20 {
        cluster
            .raft(0)
            .propose(vec![create(&format!("s{n}"))], deadline())
            .await
            .unwrap();
    }
    cluster.stop(2).await;
    let folder = cluster.spots[2].folder.clone();
    for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("state-") {
            std::fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    cluster.start(2).await.unwrap();
    cluster.ready().await;
    assert_eq!(cluster.raft(2).storage_stats().checkpoint_rebuilds, 1);
    cluster.raft(2).read(deadline()).await.unwrap();
    let (ours, theirs) = (cluster.raft(2), cluster.raft(0));
    wait("the digests agree", || async {
        let (one, other) = (ours.status(), theirs.status());
        one.applied == other.applied && one.digest == other.digest
    })
    .await;
    let count = |state: &State| state.sequences("", None).count();
    assert_eq!(ours.state(count), 20);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_at_a_member_s_address_keeps_no_honest_node_from_starting() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    cluster.stop(0).await;
    cluster.stop(2).await;
    let mut stranger = Cluster::new(1).await;
    stranger.ready().await;
    stranger.stop(0).await;
    stranger.spots[0].addr = cluster.spots[0].addr.clone();
    stranger.start(0).await.unwrap();
    // With a leader, the stranger counts as a whole cluster. The one remaining voter has no leader.
    wait("the stranger leads", || async {
        stranger.leader().is_some()
    })
    .await;
    cluster.start(2).await.unwrap();
    runs_in_spite_of(stranger, cluster).await;
}

/// Asserts that the third node, which was started, is not refused because of the stranger, and
/// serves.
async fn runs_in_spite_of(mut stranger: Cluster, mut cluster: Cluster) {
    wait("it runs, or is refused", || async {
        !matches!(*cluster.raft(2).phase().borrow(), Phase::Waiting { .. })
    })
    .await;
    assert_eq!(*cluster.raft(2).phase().borrow(), Phase::Running);
    wait("the two are led", || async { cluster.leader().is_some() }).await;
    assert_eq!(next(cluster.raft(2), "orders").await, Some(1));
    cluster.stop_all().await;
    stranger.stop_all().await;
}

/// More than the size of the frame that opens a connection, and less than that of an answer.
const OPENING_BYTES: usize = 64;

/// A route to a node on which the node answers once and is silent afterwards. The task ends when
/// another request arrives.
async fn way_for_one_answer(target: String) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let asked_again = tokio::spawn(async move {
        // On a busy machine, a caller may give up a request before it is answered.
        loop {
            let (caller, _) = listener.accept().await.unwrap();
            let callee = TcpStream::connect(&target).await.unwrap();
            if carry_one_answer(caller, callee).await {
                return;
            }
        }
    });
    (addr, asked_again)
}

/// Carries bytes until the caller, after an answer, sends another request or disconnects. Returns
/// `false` if either side disconnects before there is an answer.
async fn carry_one_answer(mut caller: TcpStream, mut callee: TcpStream) -> bool {
    let (mut asked, mut answered) = (vec![0; 8 << 10], vec![0; 8 << 10]);
    let (mut answered_bytes, mut has_answered) = (0, false);
    loop {
        tokio::select! {
            read = caller.read(&mut asked) => {
                let read = read.unwrap_or(0);
                if has_answered || read == 0 {
                    return has_answered;
                }
                callee.write_all(&asked[..read]).await.unwrap();
            }
            read = callee.read(&mut answered), if !has_answered => {
                let read = read.unwrap_or(0);
                if read == 0 || caller.write_all(&answered[..read]).await.is_err() {
                    return false;
                }
                // The first bytes open the connection.
                answered_bytes += read;
                has_answered = answered_bytes > OPENING_BYTES;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voter_that_welcomed_a_start_outweighs_a_stranger_when_it_is_silent_later() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(0).await;
    cluster.stop(0).await;
    cluster.stop(2).await;
    let stranger = Cluster::new(1).await;
    wait("the stranger leads", || async {
        stranger.leader().is_some()
    })
    .await;
    let (way, asked_again) = way_for_one_answer(cluster.spots[1].addr.clone()).await;
    let own = cluster.spots[2].addr.clone();
    // No node listens at the last address, so the start needs more than one round.
    let addrs = [stranger.spots[0].addr.clone(), way, own, free_addr()];
    let peers = (1..).zip(addrs).map(|(n, addr)| {
        let name = format!("n{n}");
        Peer { name, addr }
    });
    cluster.peers = peers.collect();
    cluster.start(2).await.unwrap();
    let silent = timeout(PATIENCE, asked_again).await;
    silent.expect("the voter is asked again").unwrap();
    runs_in_spite_of(stranger, cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_alone_is_a_cluster() {
    let mut cluster = Cluster::new(1).await;
    cluster.create_orders(0).await;
    assert_eq!(next(cluster.raft(0), "orders").await, Some(1));
    // A transfer to the leader itself is already complete, and must not silence the leader.
    let moved = cluster
        .raft(0)
        .leader_move(Some("n1".into()), deadline())
        .await;
    assert_eq!(moved.unwrap(), "n1");
    assert_eq!(next(cluster.raft(0), "orders").await, Some(2));
    cluster.stop(0).await;
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    assert_eq!(next(cluster.raft(0), "orders").await, Some(3));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_founder_without_its_log_is_refused() {
    let mut cluster = Cluster::new(3).await;
    cluster.ready().await;
    cluster.stop(0).await;
    let folder = cluster.spots[0].folder.clone();
    for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "wal" || name == "snap" || name.starts_with("state-") {
            std::fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    cluster.start(0).await.unwrap();
    let stop = stopped(cluster.raft(0)).await;
    assert_ends(&stop, 9, "wiped-voter");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survivor_names_no_leader_and_refuses_within_the_deadline() {
    let mut cluster = Cluster::new(3).await;
    cluster.create_orders(2).await;
    cluster.stop(0).await;
    cluster.stop(1).await;
    let survivor = cluster.raft(2);
    wait("no leader is named", || async {
        survivor.status().leader.is_none()
    })
    .await;
    let asked = Instant::now();
    let limit = asked + Duration::from_secs(3);
    let request = NextRequest {
        name: name("orders"),
        count: 1,
    };
    let command = Command::Sequences(SequenceCommand::Next(request));
    let refused = survivor.propose(vec![command], limit).await.unwrap_err();
    assert!(
        matches!(refused, ProposeError::NoQuorum { .. }),
        "{refused:?}"
    );
    assert!(
        survivor
            .read(Instant::now() + Duration::from_secs(1))
            .await
            .is_err()
    );
    cluster.start(0).await.unwrap();
    wait("a value is given again", || async {
        next(cluster.raft(2), "orders").await.is_some()
    })
    .await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_answers_the_requests_of_peers() {
    let (mut cluster, leader, follower) = pair().await;
    let target = cluster.raft(leader).status().node_id.unwrap().0;
    let context = &cluster.raft(follower).node().context;
    // The node answers these requests when it stops, and not earlier.
    let asked = (0..50).map(|_| {
        let (context, addr) = (Arc::clone(context), cluster.spots[leader].addr.clone());
        tokio::spawn(async move {
            let (to, route) = ((target, addr.as_str()), Route::Watch);
            let limit = Duration::from_secs(20);
            conversation::call::<Watch, Watch>(&context, Link::Watch, to, route, Watch, limit).await
        })
    });
    let watchers = || Arc::strong_count(cluster.raft(leader).node().context.stopped());
    let before = watchers();
    let asked: Vec<_> = asked.collect();
    wait("all have arrived", || async { watchers() >= before + 50 }).await;
    assert!(asked.iter().all(|asked| !asked.is_finished()));
    cluster.stop(leader).await;
    for asked in asked {
        let answer = asked.await.unwrap();
        assert!(answer.is_ok(), "{:?}", answer.err());
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_returns_the_member_as_the_leader_had_it() {
    let (mut cluster, _, follower) = pair().await;
    let learner = learner("n3", &cluster).await;
    let raft = cluster.raft(follower);
    let removed = raft.member_remove("n3".to_owned(), deadline()).await;
    let removed = removed.unwrap();
    assert_eq!(removed.name, "n3");
    assert_eq!(Some(removed.id), learner.status().node_id);
    learner.stop().await;
    cluster.stop_all().await;
}
