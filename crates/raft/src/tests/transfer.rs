//! Transfers of snapshots that the receiver refuses, and of one that turned bad. None does harm.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use rustix::io::Errno;
use seqd_disk::{Disk, OsDisk, Space, Tap, Tapped};
use seqd_peers::wire::route::Route;
use seqd_peers::wire::sealed;
use seqd_peers::wire::transport::{CallError, Link, Payload, Rejection, RejectionCode};
use seqd_state::Level;
use seqd_state::codec::HEADER_BYTES;
use seqd_store::snapshot_file;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::harness::{Cluster, caught_up, create, deadline, learner, next, pair, wait};
use super::hung_disk::Valve;
use super::stop_reasons::FailingSyncs;
use crate::messages::SnapshotHead;
use crate::records::ToRecord;
use crate::replica::Replica;

/// A route to a node that breaks in the middle of the first large transfers.
pub(super) struct Way {
    pub(super) addr: String,
    pub(super) target: String,
    pub(super) breaks_left: Arc<AtomicU64>,
    /// True if new connections fail.
    pub(super) is_cut: Arc<AtomicBool>,
    /// True while nothing is carried. On a route that does not break, this is set once, in the
    /// middle of a transfer.
    pub(super) is_held: Arc<AtomicBool>,
    /// Bytes that were carried towards the node.
    pub(super) carried: Arc<AtomicU64>,
}

/// The state that all connections of a route share.
#[derive(Clone)]
struct Ways {
    breaks_left: Arc<AtomicU64>,
    is_cut: Arc<AtomicBool>,
    is_held: Arc<AtomicBool>,
    carried: Arc<AtomicU64>,
    holds: Arc<AtomicBool>,
    cut_after: usize,
    stays_cut: bool,
}

impl Way {
    /// Breaks once a connection has carried more than `cut_after` bytes. With `stays_cut`, it stays
    /// broken until `is_cut` is reset.
    pub(super) async fn cut_after(
        target: String,
        breaks: u64,
        cut_after: usize,
        stays_cut: bool,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ways = Ways {
            breaks_left: Arc::new(AtomicU64::new(breaks)),
            is_cut: Arc::default(),
            is_held: Arc::default(),
            carried: Arc::default(),
            holds: Arc::new(AtomicBool::new(breaks == 0)),
            cut_after,
            stays_cut,
        };
        let way = Self {
            addr: listener.local_addr().unwrap().to_string(),
            target: target.clone(),
            breaks_left: Arc::clone(&ways.breaks_left),
            is_cut: Arc::clone(&ways.is_cut),
            is_held: Arc::clone(&ways.is_held),
            carried: Arc::clone(&ways.carried),
        };
        tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                tokio::spawn(carry(caller, target.clone(), ways.clone()));
            }
        });
        way
    }
}

async fn carry(mut caller: TcpStream, target: String, ways: Ways) {
    if ways.is_cut.load(Ordering::SeqCst) {
        return;
    }
    let Ok(mut callee) = TcpStream::connect(target).await else {
        return;
    };
    let (mut from, mut back) = caller.split();
    let (mut answers, mut to) = callee.split();
    let forth = async {
        let (mut chunk, mut carried) = (vec![0; 8 << 10], 0);
        loop {
            let read = from.read(&mut chunk).await.unwrap_or(0);
            carried += read;
            let breaks = carried > ways.cut_after
                && ways
                    .breaks_left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                        left.checked_sub(1)
                    })
                    .is_ok();
            if carried > ways.cut_after && ways.holds.swap(false, Ordering::SeqCst) {
                ways.is_held.store(true, Ordering::SeqCst);
                wait("it goes on", || async {
                    !ways.is_held.load(Ordering::SeqCst)
                })
                .await;
            }
            if breaks {
                ways.is_cut.store(ways.stays_cut, Ordering::SeqCst);
            }
            if read == 0 || breaks || to.write_all(&chunk[..read]).await.is_err() {
                return;
            }
            ways.carried.fetch_add(read as u64, Ordering::SeqCst);
        }
    };
    let answered = tokio::io::copy(&mut answers, &mut back);
    tokio::select! { () = forth => {}, _ = answered => {} }
}

pub(super) fn replica(raft: &crate::Raft) -> Arc<Replica> {
    Arc::clone(raft.node().replica().expect("it runs"))
}

/// Takes two snapshots, and purges the log up to the first of them.
pub(super) async fn purged_up_to_snapshots(cluster: &Cluster) {
    let raft = cluster.raft(0);
    let replica = replica(raft);
    for round in 0..2 {
        // Long names in many rows: some hundred KiB.
        let filler = "n".repeat(100);
        for group in 0..10 {
            let commands = (0..100).map(|n| create(&format!("{filler}{round}.{group}.{n}")));
            raft.propose(commands.collect(), deadline()).await.unwrap();
        }
        let applied = raft.status().applied;
        replica.raft.trigger().snapshot().await.unwrap();
        wait("the snapshot is taken", || async {
            let taken = replica.raft.metrics().borrow_watched().snapshot;
            taken.is_some_and(|id| id.index() >= applied)
        })
        .await;
    }
    let upto = raft.status().applied;
    // A snapshot exists before openraft has recorded it, and until then openraft purges nothing, so
    // the purge is repeated.
    wait("the log is purged", || async {
        replica.raft.trigger().purge_log(upto).await.unwrap();
        replica.wal.first_index() > 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_turned_bad_under_its_leader_is_set_aside_and_the_learner_gets_another() {
    let mut cluster = Cluster::new(1).await;
    cluster.ready().await;
    purged_up_to_snapshots(&cluster).await;
    let context = &cluster.raft(0).node().context;
    let (disk, snapshots) = (context.folder.disk(), context.folder.snapshots());
    let kept = || snapshot_file::list(&**disk, &snapshots).unwrap();
    let newest = kept()[0].path.clone();
    let mut bytes = std::fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&newest, bytes).unwrap();

    let learner = learner("n2", &cluster).await;
    caught_up(cluster.raft(0), &learner).await;
    assert!(seqd_disk::sibling(&newest, ".bad").exists());
    wait("another is taken", || async {
        kept().len() == 2 && cluster.raft(0).storage_stats().snapshots_set_aside == 1
    })
    .await;
    for file in kept() {
        assert_eq!(snapshot_file::find_bad(&**disk, &file).unwrap(), None);
    }
    learner.stop().await;
    cluster.stop_all().await;
}

/// The head of a snapshot's transfer from one node to another, which announces `len` bytes.
fn announced(cluster: &Cluster, from: usize, to: usize, len: u64) -> Vec<u8> {
    let replica = replica(cluster.raft(from));
    let target = cluster.raft(to).status().node_id.unwrap().0;
    let message = SnapshotHead {
        vote: replica.current_vote().record(),
        last: replica.applied.read().applied.record(),
        membership: replica.applied.read().membership.record(),
        len,
    };
    let envelope = cluster.raft(from).node().context.envelope(target).unwrap();
    let head = sealed::seal(&envelope, &message, Level::FIRST).unwrap();
    [&u32::try_from(head.len()).unwrap().to_le_bytes()[..], &head].concat()
}

/// A node's rejection of a snapshot's transfer.
async fn sent(cluster: &Cluster, from: usize, to: usize, body: Vec<u8>) -> Rejection {
    let transport = &cluster.raft(from).node().context.transport;
    let (addr, route) = (&cluster.spots[to].addr, Route::Snapshot);
    let payload = Payload::Bytes(body.into());
    let limit = Duration::from_secs(20);
    let sent = transport.post(Link::Snapshots, addr, route, payload, limit.into());
    match sent.await {
        Err(CallError::Rejected(refused)) => refused,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_without_room_is_refused_and_its_receiver_keeps_running() {
    let (mut cluster, leader, follower) = pair().await;
    let body = announced(&cluster, leader, follower, u64::MAX);
    let refused = sent(&cluster, leader, follower, body).await;
    assert_eq!(refused.code, RejectionCode::NotRunning, "{refused}");
    assert!(refused.detail.contains("bytes free"), "{refused}");
    let snapshots = cluster.spots[follower].folder.join("snap");
    assert_eq!(std::fs::read_dir(snapshots).unwrap().count(), 0);
    // The follower still accepts the leader's entries, without which there is no quorum.
    assert_eq!(next(cluster.raft(follower), "orders").await, Some(1));
    cluster.stop_all().await;
}

/// Holds the checks of the space for snapshots.
#[derive(Default)]
struct HeldSpace(Valve);

impl Tap for HeldSpace {
    fn space(&self, below: &dyn Disk, path: &Path) -> io::Result<Space> {
        if path.ends_with("snap") {
            self.0.wait();
        }
        below.space(path)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_receipt_that_waits_for_its_disk_keeps_another_from_beginning() {
    let spaces: [Arc<HeldSpace>; 2] = Default::default();
    let mut cluster = Cluster::planned(2);
    for (spot, space) in cluster.spots.iter_mut().zip(&spaces) {
        let (disk, tap) = (Arc::new(OsDisk), Arc::clone(space));
        spot.disk = Arc::new(Tapped { disk, tap });
    }
    for at in 0..2 {
        cluster.start(at).await.unwrap();
    }
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    let body = announced(&cluster, leader, 1 - leader, 0);
    let valve = &spaces[1 - leader].0;
    valve.hold(true);
    // The other call is that of the task that watches the space.
    let has_begun = || async { valve.waits.load(Ordering::SeqCst) == 2 };
    tokio::select! {
        refused = sent(&cluster, leader, 1 - leader, body.clone()) => panic!("{refused}"),
        () = wait("the receipt begins", has_begun) => {}
    }
    let second = sent(&cluster, leader, 1 - leader, body);
    let second = timeout(Duration::from_secs(5), second).await;
    // Before the assertion, because a failing test ends only once nothing is held.
    valve.hold(false);
    let refused = second.expect("the second transfer is refused at once");
    assert!(refused.detail.contains("another snapshot"), "{refused}");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_receiver_s_disk_does_not_make_the_snapshot_malformed() {
    let syncs = Arc::new(FailingSyncs::default());
    let mut cluster = Cluster::planned(2);
    for spot in &mut cluster.spots {
        let (disk, tap) = (Arc::new(OsDisk), Arc::clone(&syncs));
        spot.disk = Arc::new(Tapped { disk, tap });
    }
    for at in 0..2 {
        cluster.start(at).await.unwrap();
    }
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    *syncs.0.lock().unwrap() = Some(("snap", Errno::IO));
    let body = announced(&cluster, leader, 1 - leader, 0);
    let refused = sent(&cluster, leader, 1 - leader, body).await;
    assert_eq!(refused.code, RejectionCode::NotRunning, "{refused}");
    assert!(refused.detail.contains("Input/output error"), "{refused}");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_in_a_newer_envelope_is_not_reported_as_damaged() {
    let (mut cluster, leader, follower) = pair().await;
    let mut body = announced(&cluster, leader, follower, 0);
    // The version byte, after the lengths of the head and of the envelope.
    body[8 + HEADER_BYTES - 1] += 1;
    let refused = sent(&cluster, leader, follower, body).await;
    assert_eq!(refused.code, RejectionCode::NewerFormat, "{refused}");
    cluster.stop_all().await;
}
