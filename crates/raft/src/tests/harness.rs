//! Whole replicas in one process, connected over loopback, each with its own folder.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use seqd_disk::{Disk, OsDisk, Tap, Tapped};
use seqd_net::Lock;
use seqd_peers::wire::transport::Transport;
use seqd_state::idgen::{WallClock, WallMs};
use seqd_state::{
    Command, NextRequest, Outcome, SequenceCommand, SequenceMode, SequenceName, SequenceOutcome,
};
use seqd_store::testing::create_sequence;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use crate::{LevelRange, Options, Peer, Phase, Raft, Role, Settings, Stop, peer_transport};

struct TestClock;

impl WallClock for TestClock {
    fn wall(&self) -> WallMs {
        // Any time after the layouts' epochs, because no test here reads dates. It advances, and is
        // the same for all nodes, so that their clocks agree.
        static BEGAN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
        let passed = u64::try_from(BEGAN.elapsed().as_millis()).unwrap_or(u64::MAX);
        WallMs(1_800_000_000_000 + passed)
    }
}

/// One node of a cluster. It runs while `raft` is set.
pub(crate) struct Spot {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) addr: String,
    pub(crate) disk: Arc<dyn Disk>,
    /// The levels that the node's program supports.
    pub(crate) levels: LevelRange,
    /// Entries between two snapshots.
    pub(crate) snapshot_every: u64,
    pub(crate) raft: Option<Raft>,
    /// Carries the node's messages to the other nodes.
    pub(crate) transport: Arc<dyn Transport>,
}

/// Replicas in this process that list each other as founders.
pub(crate) struct Cluster {
    pub(crate) dir: TempDir,
    pub(crate) spots: Vec<Spot>,
    pub(crate) peers: Vec<Peer>,
}

/// The default of the configuration.
const SNAPSHOT_EVERY: u64 = 20_000;

/// Time limit for a condition to hold. It takes milliseconds on an idle machine; a busy machine is
/// not a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The deadline of a request that is sent now.
pub(crate) fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// The ports of [`free_addr`]. They are below the range from which the kernel takes ports for
/// outgoing connections (32768 on Linux), because one of those could be taken while its node is
/// stopped.
const PORTS: std::ops::Range<u16> = 12_000..32_000;

/// The UDP sockets of the ports that were given out. While one is bound, no other test process, of
/// this crate or of the story harness, takes the TCP port of the same number.
static RESERVED: Lock<Vec<UdpSocket>> = Lock::new(Vec::new());

/// A loopback address that is reserved for this process until it ends, even while no node listens
/// there.
pub(crate) fn free_addr() -> String {
    let mut reserved = RESERVED.lock();
    let count = u32::from(PORTS.end - PORTS.start);
    // Processes begin at different ports, so that they rarely collide.
    let begin = std::process::id().wrapping_mul(97);
    for step in 0..count {
        let taken = u32::try_from(reserved.len()).unwrap();
        let offset = begin.wrapping_add(taken).wrapping_add(step) % count;
        let addr = (
            Ipv4Addr::LOCALHOST,
            PORTS.start + u16::try_from(offset).unwrap(),
        );
        let Ok(reservation) = UdpSocket::bind(addr) else {
            continue;
        };
        if TcpListener::bind(addr).is_ok() {
            reserved.push(reservation);
            return SocketAddrV4::new(addr.0, addr.1).to_string();
        }
    }
    panic!("no free port in {PORTS:?}");
}

impl Cluster {
    pub(crate) async fn new(size: usize) -> Self {
        let mut cluster = Self::planned(size);
        for at in 0..size {
            cluster.start(at).await.unwrap();
        }
        cluster
    }

    /// Like `new`, but starts no node.
    pub(crate) fn planned(size: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let peers: Vec<Peer> = (1..=size)
            .map(|n| Peer {
                name: format!("n{n}"),
                addr: free_addr(),
            })
            .collect();
        let spots = peers
            .iter()
            .map(|peer| Spot {
                name: peer.name.clone(),
                folder: dir.path().join(&peer.name),
                addr: peer.addr.clone(),
                disk: Arc::new(OsDisk),
                levels: LevelRange::OWN,
                snapshot_every: SNAPSHOT_EVERY,
                raft: None,
                transport: peer_transport(Handle::current()),
            })
            .collect();
        Self { dir, spots, peers }
    }

    /// One ready node on a disk with this tap.
    pub(crate) async fn on_disk<T: Tap + 'static>(tap: &Arc<T>) -> Self {
        let mut cluster = Self::planned(1);
        let (disk, tap) = (Arc::new(OsDisk), Arc::clone(tap));
        cluster.spots[0].disk = Arc::new(Tapped { disk, tap });
        cluster.start(0).await.unwrap();
        cluster.create_orders(0).await;
        cluster
    }

    pub(crate) async fn start(&mut self, at: usize) -> Result<(), Stop> {
        let spot = &mut self.spots[at];
        let disk = Arc::clone(&spot.disk);
        let mut options = options(disk, &spot.name, &spot.folder, &spot.addr, &self.peers).await;
        options.settings.levels = spot.levels;
        options.settings.snapshot_every = spot.snapshot_every;
        options.transport = Arc::clone(&spot.transport);
        spot.raft = Some(Raft::start(options).await?);
        Ok(())
    }

    pub(crate) fn raft(&self, at: usize) -> &Raft {
        self.spots[at].raft.as_ref().unwrap()
    }

    pub(crate) async fn stop(&mut self, at: usize) {
        self.spots[at].raft.take().unwrap().stop().await;
    }

    pub(crate) async fn ready(&self) {
        for spot in &self.spots {
            if let Some(raft) = &spot.raft {
                wait("a node is running and started", || async {
                    *raft.started().borrow()
                })
                .await;
            }
        }
    }

    /// Waits until all nodes run, and creates the sequence that most tests use through one of them.
    pub(crate) async fn create_orders(&self, at: usize) {
        self.ready().await;
        let created = self.raft(at).propose(vec![create("orders")], deadline());
        created.await.unwrap();
    }

    pub(crate) fn leader(&self) -> Option<usize> {
        self.spots.iter().position(|spot| {
            spot.raft
                .as_ref()
                .is_some_and(|raft| raft.status().role == Role::Leader)
        })
    }

    pub(crate) async fn stop_all(&mut self) {
        for spot in &mut self.spots {
            if let Some(raft) = spot.raft.take() {
                raft.stop().await;
            }
        }
    }
}

/// A cluster of two nodes, the index of the leader, and the index of the follower.
pub(crate) async fn pair() -> (Cluster, usize, usize) {
    let cluster = Cluster::new(2).await;
    cluster.create_orders(0).await;
    let leader = cluster.leader().expect("there is a leader");
    (cluster, leader, 1 - leader)
}

pub(crate) async fn start(
    name: &str,
    folder: &Path,
    addr: &str,
    peers: &[Peer],
) -> Result<Raft, Stop> {
    Raft::start(options(Arc::new(OsDisk), name, folder, addr, peers).await).await
}

/// The options of a node, with a listener that is already bound.
pub(crate) async fn options(
    disk: Arc<dyn Disk>,
    name: &str,
    folder: &Path,
    addr: &str,
    peers: &[Peer],
) -> Options {
    let mut bound = TcpListener::bind(addr);
    let until = deadline();
    while bound.is_err() && Instant::now() < until {
        sleep(Duration::from_millis(20)).await;
        bound = TcpListener::bind(addr);
    }
    let settings = Settings {
        name: name.to_owned(),
        peer_advertise: addr.to_owned(),
        peer_is_configured: true,
        http_advertise: format!("http://{name}.invalid:7400"),
        peers: peers.to_vec(),
        heartbeat: Duration::from_millis(100),
        // Longer than a busy machine makes a node wait. The tests in virtual time cover shorter
        // timeouts.
        found_after: Duration::ZERO,
        election: (Duration::from_secs(1), Duration::from_secs(2)),
        snapshot_every: SNAPSHOT_EVERY,
        window_ms: 30_000,
        max_peer_skew_ms: 500,
        version: "test".to_owned(),
        tenant_share: seqd_state::Share::WHOLE,
        levels: LevelRange::OWN,
        clock: Arc::new(TestClock),
    };
    Options {
        data_dir: folder.to_owned(),
        disk,
        listener: bound.unwrap().into(),
        transport: peer_transport(Handle::current()),
        settings,
    }
}

pub(crate) async fn wait<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let until = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < until, "within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Starts another node and adds it to the cluster as a learner.
pub(crate) async fn learner(name: &str, cluster: &Cluster) -> Raft {
    let addr = free_addr();
    learner_at(name, cluster, (addr.clone(), addr)).await
}

/// Like `learner`, with the node's own listening address and the address at which the others reach
/// it.
pub(crate) async fn learner_at(
    name: &str,
    cluster: &Cluster,
    (own, way): (String, String),
) -> Raft {
    let folder = cluster.dir.path().join(name);
    let learner = start(name, &folder, &own, &cluster.peers).await.unwrap();
    let raft = cluster.raft(0);
    let added = raft.member_add(name.to_owned(), way, None, deadline());
    added.await.unwrap();
    learner
}

/// Waits until a learner has everything that the leader has.
pub(crate) async fn caught_up(leader: &Raft, learner: &Raft) {
    wait("the learner has what the leader has", || async {
        let (one, other) = (leader.status(), learner.status());
        one.applied == other.applied && one.digest == other.digest
    })
    .await;
}

/// Waits until a node's folder contains only complete snapshots.
pub(crate) async fn is_clean(folder: &Path) {
    wait("the folder of the snapshots is clean", || async {
        let names = std::fs::read_dir(folder.join("snap")).unwrap();
        names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .all(|name| name.ends_with(".snap"))
    })
    .await;
}

pub(crate) fn name(text: &str) -> SequenceName {
    text.parse().unwrap()
}

pub(crate) fn create(text: &str) -> Command {
    create_sequence(text, SequenceMode::Strict, "")
}

pub(crate) async fn next(raft: &Raft, sequence: &str) -> Option<i64> {
    let request = NextRequest {
        name: name(sequence),
        count: 1,
    };
    let command = Command::Sequences(SequenceCommand::Next(request));
    match raft.propose(vec![command], deadline()).await.ok()?.pop()? {
        Outcome::Sequences(SequenceOutcome::Next(grant)) => Some(grant.ranges[0].first),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn assert_ends(stop: &Stop, exit: u8, code: &str) {
    assert_eq!((stop.exit(), stop.code()), (exit, code), "{stop}");
}

pub(crate) async fn stopped(raft: &Raft) -> Stop {
    let mut phase = raft.phase();
    let over = phase.wait_for(|phase| matches!(phase, Phase::Stopped(_)));
    match &*timeout(PATIENCE, over)
        .await
        .expect("the node ends")
        .unwrap()
    {
        Phase::Stopped(stop) => stop.clone(),
        _ => unreachable!("wait_for returned"),
    }
}
