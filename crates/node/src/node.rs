//! A node from start to stop, each in one function and in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::http::HeaderValue;
use seqd_idgen::{ClockPolicy, Layout, StoredMark};
use seqd_raft::{Options, Peer, Phase, Raft, Stop};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::app::App;
use crate::config::Config;
use crate::http::RequestIds;
use crate::http::routes::Front;
use crate::http::server::Server;
use crate::metrics::Metrics;
use crate::minting::mark::{self, MarkWriter};
use crate::minting::uuids::UuidSource;
use crate::minting::{ClockWatch, Keeper, Minters};
use crate::ports::Ports;
use crate::replica::{Replica, layout};
use crate::report;
use crate::sequences::Segments;

/// How long requests in flight may take to finish at a stop.
const GRACE: Duration = Duration::from_secs(5);

/// How long requests in flight may take once the node has ended by itself: they only fail.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long the cluster may take to take back what this node held.
const GIVE_BACK: Duration = Duration::from_secs(2);

/// A running node.
pub struct Node {
    app: Arc<App>,
    addr: SocketAddr,
    before: Option<StoredMark>,
    ended: watch::Receiver<Phase>,
    running: Mutex<Running>,
}

/// What a stop takes away, each part once.
struct Running {
    server: Option<Server>,
    marks: Option<MarkWriter>,
    tasks: JoinSet<()>,
}

impl Node {
    /// Starts a node. It serves `/livez` and `/readyz` at once, and all else as soon as it is a
    /// running member of its cluster.
    ///
    /// # Errors
    /// What the process should say and exit with: a folder that is refused, for example.
    pub async fn start(config: Config, ports: Ports) -> Result<Node, Stop> {
        let Ports {
            clock,
            disk,
            http_listener,
            peer_listener,
        } = ports;

        // Consensus first: it locks the folder and says whether it is this node's own.
        let raft = Raft::start(options(&config, peer_listener, &clock, &disk)).await?;
        let replica: Arc<dyn Replica> = Arc::new(raft.clone());
        let metrics = Arc::new(Metrics::new());

        // Minting: the mark that the last start left, the guard, the default layout's lease.
        let before = mark::read(&*disk, &config.node.data_dir);
        let policy = policy(&config);
        let watch = Arc::new(ClockWatch::new(clock, policy, before));
        let terms = Keeper {
            replica: Arc::clone(&replica),
            clock: Arc::clone(&watch),
            policy,
            owner: config.node.name.clone(),
            datacenter: config.node.datacenter,
            window_ms: u64::try_from(config.clock.window.as_millis()).unwrap_or(u64::MAX),
            seed: draw()?,
        };
        let minters = Arc::new(Minters::start(terms, default_layout(replica.as_ref())?));
        let folder = config.node.data_dir.clone();
        let marks = MarkWriter::start(disk, folder, Arc::clone(&minters), before)
            .map_err(|error| broken(format!("no thread for the clock's mark: {error}")))?;

        // Serving.
        let segments = Arc::new(Segments::new(replica, Arc::clone(&metrics)));
        let ended = raft.phase();
        let app = Arc::new(App {
            node_header: HeaderValue::try_from(&config.node.name)
                .map_err(|error| broken(error.to_string()))?,
            request_ids: RequestIds::new(draw()? as u32),
            uuids: UuidSource::default(),
            stopping: AtomicBool::new(false),
            ids_per_second: AtomicU64::new(0),
            clock: watch,
            config,
            raft,
            minters,
            segments,
            metrics,
        });
        let server = Server::start(http_listener, Front::new(&app))
            .map_err(|error| broken(format!("http.listen: {error}")))?;
        let mut tasks = JoinSet::new();
        tasks.spawn(report::tell_peers(Arc::clone(&app)));
        tasks.spawn(report::print_waiting(Arc::clone(&app)));
        let (addr, marks) = (server.addr(), Some(marks));
        let running = Mutex::new(Running {
            server: Some(server),
            marks,
            tasks,
        });
        Ok(Node {
            app,
            addr,
            before,
            ended,
            running,
        })
    }

    /// Stops cleanly: no request is cut short within the grace, what this node held is given back,
    /// and a leader hands over. A second call finds nothing left to do.
    pub async fn stop(&self) {
        let app = &self.app;
        app.stopping.store(true, Ordering::Release);
        let mut running = self.running.lock().await;
        running.tasks.shutdown().await;
        if let Some(server) = running.server.take() {
            server.stop(GRACE).await;
        }
        let Some(marks) = running.marks.take() else {
            return;
        };
        let deadline = Instant::now() + GIVE_BACK;
        // Minting ends before anything is given back; so nothing is used after it was returned.
        app.minters.stop(deadline).await;
        app.segments.stop(deadline).await;
        marks.stop(self.last_mark()).await;
        app.raft.stop().await;
    }

    /// Waits until the node ends by itself, stops serving, and says why.
    pub async fn stopped(&self) -> Stop {
        let mut ended = self.ended.clone();
        let stop = match ended
            .wait_for(|phase| matches!(phase, Phase::Stopped(_)))
            .await
            .as_deref()
        {
            Ok(Phase::Stopped(stop)) => stop.clone(),
            _ => broken("consensus ended without a word".to_owned()),
        };
        self.app.stopping.store(true, Ordering::Release);
        if let Some(server) = self.running.lock().await.server.take() {
            server.stop(LAST_WORDS).await;
        }
        stop
    }

    /// How far this process and those before it have minted.
    fn last_mark(&self) -> StoredMark {
        let last = self.app.clock.last_used();
        match self.before {
            Some(before) if before.last_minted >= last => before,
            _ => StoredMark::stopped(last),
        }
    }

    /// Where clients are served.
    pub fn http_addr(&self) -> SocketAddr {
        self.addr
    }

    /// This node's name.
    pub fn name(&self) -> &str {
        self.app.name()
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Node")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

fn options(
    config: &Config,
    listener: std::net::TcpListener,
    clock: &Arc<dyn seqd_idgen::WallClock>,
    disk: &Arc<dyn seqd_disk::Disk>,
) -> Options {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let peers = config.peer.peers.iter();
    Options {
        name: config.node.name.clone(),
        data_dir: config.node.data_dir.clone(),
        listener,
        peer_advertise: config.peer.advertise.clone(),
        http_advertise: config.http.advertise.clone(),
        peers: peers
            .map(|(name, addr)| Peer {
                name: name.clone(),
                addr: addr.clone(),
            })
            .collect(),
        heartbeat: config.raft.heartbeat,
        election: config.raft.election,
        snapshot_every: config.raft.snapshot_every,
        window_ms: ms(config.clock.window),
        max_peer_skew_ms: ms(config.clock.max_peer_skew),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock: Arc::clone(clock),
        disk: Arc::clone(disk),
    }
}

fn policy(config: &Config) -> ClockPolicy {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    ClockPolicy {
        max_backward_wait_ms: ms(config.clock.max_backward_wait),
        on_rollback: config.clock.on_rollback,
        max_forward_jump_ms: ms(config.clock.max_forward_jump),
    }
}

fn default_layout(replica: &dyn Replica) -> Result<Layout, Stop> {
    layout(replica, "default").ok_or_else(|| broken("the default layout is missing".to_owned()))
}

/// Eight random bytes.
fn draw() -> Result<u64, Stop> {
    getrandom::u64().map_err(|error| broken(format!("no random bytes: {error}")))
}

fn broken(message: String) -> Stop {
    Stop::invariant(message)
}
