//! The start and the stop of a node, each in one function and in order.

use std::future::Future;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use seqd_idgen::{ClockPolicy, Layout, StoredMark};
use seqd_net::Listen;
use seqd_raft::{FactsSource, LevelRange, Options, Peer, Phase, Raft, Settings, Stop, StopReason};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::access::{Access, TinyIdTokens, TokenFile};
use crate::admission::Closing;
use crate::config::{Config, ConfigError};
use crate::connections::{IsHot, Port};
use crate::drain;
use crate::handlers::Router;
use crate::http::{Bodies, Context, Hosts, RequestIds, SlowLog, serve};
use crate::metrics::Metrics;
use crate::minting::last_tick::{self, LastTick, LastTickWriter};
use crate::minting::{ClockWatch, Keeper, Minters};
use crate::ports::Ports;
use crate::protocols;
use crate::replica::layout;
use crate::report;
use crate::runs_out;
use crate::sequences::SegmentBuffers;
use crate::services::{Parts, Services};
use crate::times::millis;
use crate::tls::Tls;
use crate::trends;

/// The time for which a stopping node responds `draining` before it closes its port. Within this
/// time, an active client sends a request, receives the refusal and turns to another node, so that
/// no request is cut off.
const LINGER: Duration = Duration::from_millis(250);

/// Time that a stop allows for requests in flight.
const GRACE: Duration = Duration::from_secs(5);

/// Time allowed for requests in flight after the node has stopped on its own: they can only fail.
const GRACE_AT_FAILURE: Duration = Duration::from_secs(1);

/// Time that a stop allows for the return of leases and segments to the cluster.
const GIVE_BACK: Duration = Duration::from_secs(2);

/// The future of a start or a stop. It is boxed, so that its code is compiled in this crate only,
/// and not again in each crate that awaits it.
pub type Step<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub struct Node {
    raft: Raft,
    clock: Arc<ClockWatch>,
    minters: Arc<Minters>,
    segments: Arc<SegmentBuffers>,
    services: Arc<Services>,
    closing: Closing,
    /// Becomes true when the drain of a stop must end early.
    hurry: watch::Sender<bool>,
    addr: SocketAddr,
    before: LastTick,
    ended: watch::Receiver<Phase>,
    running: Mutex<Running>,
}

/// The parts of a running node that a stop takes.
struct Running {
    /// The ports for clients; that of HTTP is first.
    ports: Vec<Port>,
    marks: Option<LastTickWriter>,
    tasks: JoinSet<()>,
}

impl Node {
    /// Starts a node. It serves `/livez` and `/readyz` at once, and everything else as soon as it
    /// is a running member of its cluster.
    ///
    /// # Errors
    /// The message and the exit code of the process, for example if the data folder is refused.
    pub fn start(config: Config, ports: Ports) -> Step<'static, Result<Node, Stop>> {
        Box::pin(async move {
            let Ports {
                clock,
                disk,
                http_listener,
                peer_listener,
                health_listener,
                protocols: protocol_listeners,
                consensus,
            } = ports;

            let tls =
                Tls::load(&config, &*clock).map_err(|error| start_failed(error.to_string()))?;
            let (operator, tiny_id) = tokens(&config)?;
            let wall = Arc::clone(&clock);

            // Consensus first: it locks the folder and checks that the folder belongs to this node.
            let peers = (peer_listener, consensus.clone());
            let options = options(&config, &tls, peers, &clock, &disk)?;
            let started = consensus.spawn(Raft::start(options)).await;
            let raft = started
                .map_err(|error| Stop::invariant(format!("consensus did not start: {error}")))??;

            // Minting: the mark of the last start, the clock guard, the lease of the default
            // layout.
            let before = last_tick::read(&*disk, &config.node.data_dir)?;
            let (policy, mark) = (policy(&config), before.mark);
            let clock = Arc::new(ClockWatch::new(clock, policy, mark, raft.clocks()));
            let keeper = keeper(&config, &raft, &clock)?;
            let minters = Arc::new(Minters::start(keeper, default_layout(&raft)?));
            let marks = mark_writer(disk, &config, Arc::clone(&minters), before)?;

            // Serving: the segment buffers, the services, then HTTP.
            let metrics = Arc::new(Metrics::new());
            let segments = SegmentBuffers::new(Arc::new(raft.clone()), Arc::clone(&metrics));
            let segments = Arc::new(segments);
            let window = config.clock.window;
            let access = Access::new(operator, Arc::new(raft.clone()), Arc::clone(&wall), window);
            let mut context = http_context(&config, &raft, &metrics)?;
            context.admission.access = access.clone();
            let mut for_health = http_context(&config, &raft, &metrics)?;
            for_health.hosts = Hosts::any();
            let parts = Parts {
                raft: raft.clone(),
                clock: Arc::clone(&clock),
                minters: Arc::clone(&minters),
                segments: Arc::clone(&segments),
                metrics,
                tls: tls.clone(),
                callers: access,
                tiny_id,
                wall: Arc::clone(&wall),
                worker_counts: Arc::default(),
            };
            let hot: Option<IsHot> = config.http.hot_path.then_some(Router::is_hot);
            let services = Arc::new(Services::new(config, &parts));
            let admission = context.admission.clone();
            let router = Router::new(context, &services);
            let server = serve_http(tls.at_clients_port(http_listener), router, hot)?;
            let addr = server.addr();
            let mut ports = vec![server];
            let health = Router::health(for_health, &services);
            ports.extend(serve_health(health_listener, health)?);
            let counters = &parts.metrics.protocols;
            let others =
                protocols::start(protocol_listeners, &tls, &services, &admission, counters);
            ports.extend(others.map_err(|error| start_failed(error.to_string()))?);

            // The background tasks.
            let mut tasks = background(&parts, &services);
            tasks.spawn(admission.lanes.keep());

            let running = Mutex::new(Running {
                ports,
                marks: Some(marks),
                tasks,
            });
            Ok(Node {
                ended: raft.phase(),
                raft,
                clock,
                minters,
                segments,
                services,
                closing: admission.closing,
                hurry: watch::Sender::new(false),
                addr,
                before,
                running,
            })
        })
    }

    /// Stops cleanly: first drains, then requests in flight may finish within the grace period, the
    /// node returns what it holds, and a leader transfers its leadership. A second call does
    /// nothing.
    pub fn stop(&self) -> Step<'_, ()> {
        Box::pin(async move {
            self.services.health.stop();
            self.drain().await;
            // Requests that wait for a lock must continue on another node.
            self.services.locks.stop();
            self.raft.begin_stop();
            let mut running = self.running.lock().await;
            running.tasks.shutdown().await;
            let ports = std::mem::take(&mut running.ports);
            if !ports.is_empty() {
                self.closing.begin();
                tokio::time::sleep(LINGER).await;
                stop_all(ports, GRACE).await;
            }
            let Some(marks) = running.marks.take() else {
                return;
            };
            let deadline = Instant::now() + GIVE_BACK;
            // Minting ends before leases are returned, so no ID is minted after the return.
            self.minters.stop(deadline).await;
            self.segments.stop(deadline).await;
            marks.stop(self.last_mark()).await;
            self.raft.stop().await;
        })
    }

    /// Ends the drain of a stop early. The stop remains clean. Returns `false`
    /// if there is no such drain in progress.
    pub fn end_drain(&self) -> bool {
        self.hurry.send_replace(true);
        // Only a drain in progress has a receiver.
        self.hurry.receiver_count() > 0
    }

    /// Serves requests for `http.drain`, while balancers find out that this node is not ready and
    /// another node takes over leadership. In the second half, each response ends its connection,
    /// because a client without a balancer, or with a balancer that does not inspect connections,
    /// would otherwise keep its connection. The time since an operator began a drain counts.
    async fn drain(&self) {
        let drain = self.services.config.http.drain;
        if drain.is_zero() || matches!(*self.ended.borrow(), Phase::Stopped(_)) {
            return;
        }
        self.raft.drain_to_stop();
        let began = self.raft.draining().borrow().unwrap_or_else(Instant::now);
        let mut hurry = self.hurry.subscribe();
        let hurry = hurry.wait_for(|is_over| *is_over);
        let drained = async {
            sleep_until(began + drain / 2).await;
            self.closing.announce();
            sleep_until(began + drain).await;
        };
        tokio::select! {
            () = drained => {}
            _ = hurry => {}
        }
    }

    /// Waits until the node stops on its own, stops serving, and returns the reason.
    pub fn stopped(&self) -> Step<'_, Stop> {
        Box::pin(async move {
            let mut ended = self.ended.clone();
            let is_over = |phase: &Phase| matches!(phase, Phase::Stopped(_));
            let stop = match ended.wait_for(is_over).await.as_deref() {
                Ok(Phase::Stopped(stop)) => stop.clone(),
                _ => Stop::invariant("consensus ended without a reason".to_owned()),
            };
            self.services.health.stop();
            let ports = std::mem::take(&mut self.running.lock().await.ports);
            stop_all(ports, GRACE_AT_FAILURE).await;
            stop
        })
    }

    /// The last tick minted by this process or by earlier ones.
    fn last_mark(&self) -> StoredMark {
        let last = self.clock.last_used();
        // After a reset, the mark that the start found no longer counts.
        let is_forgotten = self.minters.obeyed_reset() != self.before.obeyed_reset;
        match self.before.mark.filter(|_| !is_forgotten) {
            Some(before) if before.last_minted >= last => before,
            _ => StoredMark::stopped(last),
        }
    }

    pub fn http_addr(&self) -> SocketAddr {
        self.addr
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Node")
            .field("name", &self.services.node())
            .finish_non_exhaustive()
    }
}

/// The tokens that files contain.
type Tokens = (Option<TokenFile>, Option<Arc<TinyIdTokens>>);

fn tokens(config: &Config) -> Result<Tokens, Stop> {
    let load = || Ok((TokenFile::load(config)?, TinyIdTokens::load(config)?));
    load().map_err(|error: ConfigError| start_failed(error.to_string()))
}

/// Starts the tasks that keep the node's own view fresh.
fn background(parts: &Parts, services: &Services) -> JoinSet<()> {
    let format = services.config.log.format;
    let is_text = format.is_text(std::io::stderr().is_terminal());
    let mut tasks = JoinSet::new();
    let (raft, minters) = (parts.raft.clone(), Arc::clone(&parts.minters));
    let health = &services.health;
    tasks.spawn(report::keep_fresh(raft, minters, Arc::clone(health)));
    tasks.spawn(report::print_waiting(Arc::clone(health), is_text));
    tasks.spawn(Arc::clone(&parts.clock).follow_peers());
    tasks.spawn(runs_out::watch(parts));
    let held = (Arc::clone(&parts.minters), Arc::clone(&parts.segments));
    tasks.spawn(drain::watch(
        parts.raft.clone(),
        held,
        services.config.http.drain,
    ));
    let trends = Arc::clone(&services.facts.trends);
    tasks.spawn(trends::keep(trends, parts.raft.clone()));
    parts.raft.set_facts(facts_source(services));
    tasks.spawn(parts.callers.clone().keep_fresh());
    tasks.spawn(parts.tls.clone().keep_fresh(Arc::clone(&parts.wall)));
    if let Some(tiny_id) = &parts.tiny_id {
        tasks.spawn(Arc::clone(tiny_id).keep_fresh());
    }
    tasks
}

/// The facts that other members receive. The source holds no part of the node, because the node
/// holds the source.
fn facts_source(services: &Services) -> FactsSource {
    let facts = Arc::downgrade(&services.facts);
    Box::new(move || {
        let own = facts.upgrade().map(|facts| facts.own());
        serde_json::to_vec(&own.unwrap_or_default()).unwrap_or_default()
    })
}

/// Serves the clients' HTTP port.
fn serve_http(listener: Box<dyn Listen>, router: Router, hot: Option<IsHot>) -> Result<Port, Stop> {
    let (unreadable, answer) = (router.unreadable(), move |it, by| router.answer(it, by));
    serve(listener, answer, unreadable, hot)
        .map_err(|error| start_failed(format!("http.listen: {error}")))
}

/// Serves the port of health checks and metrics, if there is one.
fn serve_health(listener: Option<Box<dyn Listen>>, router: Router) -> Result<Option<Port>, Stop> {
    let serve = |listener| serve_http(listener, router, None);
    listener.map(serve).transpose()
}

/// Stops all ports at the same time.
async fn stop_all(ports: Vec<Port>, grace: Duration) {
    join_all(ports.into_iter().map(|port| port.stop(grace))).await;
}

fn mark_writer(
    disk: Arc<dyn seqd_disk::Disk>,
    config: &Config,
    minters: Arc<Minters>,
    before: LastTick,
) -> Result<LastTickWriter, Stop> {
    let marks = LastTickWriter::start(disk, config.node.data_dir.clone(), minters, before);
    marks.map_err(|error| start_failed(format!("cannot start the thread last-tick: {error}")))
}

fn options(
    config: &Config,
    tls: &Tls,
    (listener, consensus): (Box<dyn Listen>, Handle),
    clock: &Arc<dyn seqd_idgen::WallClock>,
    disk: &Arc<dyn seqd_disk::Disk>,
) -> Result<Options, Stop> {
    let peers = config.peer.peers.iter();
    let settings = Settings {
        name: config.node.name.clone(),
        peer_advertise: config.peer.advertise.clone(),
        peer_is_configured: config.is_peer_address_configured(),
        http_advertise: config.http.advertise.clone(),
        peers: peers
            .map(|(name, addr)| Peer {
                name: name.clone(),
                addr: addr.clone(),
            })
            .collect(),
        heartbeat: config.raft.heartbeat,
        election: config.raft.election,
        found_after: config.peer.found_after,
        snapshot_every: config.raft.snapshot_every,
        window_ms: millis(config.clock.window),
        max_peer_skew_ms: millis(config.clock.max_peer_skew),
        tenant_share: config.limits.tenant_share,
        levels: LevelRange::OWN,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock: Arc::clone(clock),
    };
    Ok(Options {
        data_dir: config.node.data_dir.clone(),
        disk: Arc::clone(disk),
        listener: tls.at_peers_port(listener),
        transport: tls.transport(consensus),
        settings,
    })
}

fn policy(config: &Config) -> ClockPolicy {
    ClockPolicy {
        max_backward_wait_ms: millis(config.clock.max_backward_wait),
        on_rollback: config.clock.on_rollback,
        max_forward_jump_ms: millis(config.clock.max_forward_jump),
    }
}

fn keeper(config: &Config, raft: &Raft, clock: &Arc<ClockWatch>) -> Result<Keeper, Stop> {
    Ok(Keeper {
        replica: Arc::new(raft.clone()),
        clock: Arc::clone(clock),
        policy: policy(config),
        owner: config.node.name.clone(),
        datacenter: config.node.datacenter,
        window_ms: millis(config.clock.window),
        workers: config.clock.workers,
        drained: Arc::default(),
        seed: draw()?,
    })
}

fn http_context(config: &Config, raft: &Raft, metrics: &Metrics) -> Result<Context, Stop> {
    let status = raft.clone();
    let (name, timeout) = (&config.node.name, config.http.request_timeout);
    let request_ids = RequestIds::new(draw()? as u32);
    let cluster = Box::new(move || status.status().cluster_id);
    let context = Context::new(name, request_ids, timeout, &metrics.http, cluster);
    let mut context =
        context.ok_or_else(|| Stop::invariant(format!("{name:?} cannot be a header")))?;
    let http = &config.http;
    context.hosts = Hosts::new(http.listen, &http.advertise, &http.hosts);
    context.bodies = Bodies::new(config.limits.tenant_share);
    context.slow = slow_log(config, raft);
    Ok(context)
}

fn slow_log(config: &Config, raft: &Raft) -> SlowLog {
    let raft = raft.clone();
    let leader = move || {
        let status = raft.status();
        status.leader_member().map(|member| member.name.clone())
    };
    SlowLog::new(
        config.log.slow_requests,
        &config.node.name,
        Box::new(leader),
    )
}

fn default_layout(raft: &Raft) -> Result<Layout, Stop> {
    layout(raft, "default")
        .ok_or_else(|| Stop::invariant("the default layout is missing".to_owned()))
}

fn start_failed(why: String) -> Stop {
    Stop::new(StopReason::StartFailed, why)
}

fn draw() -> Result<u64, Stop> {
    getrandom::u64().map_err(|error| Stop::invariant(format!("no random bytes: {error}")))
}
