//! The order of a start and of a stop.
//!
//! A start is a chain of types: [`FolderOpen`], [`Identified`], [`OpenedNode`], [`Admitted`],
//! [`Running`]. A method of each type consumes it and returns the next, so that no step can run
//! before the steps that it depends on.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seqd_guards::is_out;
use seqd_net::Listen;
use seqd_peers::file;
use seqd_peers::starts::Peers;
use seqd_peers::table::Start;
use seqd_peers::wire::server;
use seqd_store::folder::Identity;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::bootstrap::{founder, obtain_identity};
use crate::context::NodeContext;
use crate::draws::{Draws, round};
use crate::export;
use crate::handle::{Options, Phase, Stop, StopReason};
use crate::handshake::admission::{self, Admission};
use crate::membership::leader;
use crate::messages::Stopping;
use crate::node::Node;
use crate::platform::{self, NodeTasks};
use crate::proposer::ProposalBatcher;
use crate::receive::Service;
use crate::replica::Replica;
use crate::stopping_together;
use crate::storage::driver;
use crate::storage::opening::Storage;
use crate::tasks::{self, Background};

pub(crate) struct Started {
    pub(crate) node: Arc<Node>,
    pub(crate) batcher: Arc<ProposalBatcher>,
    pub(crate) draws: Arc<Draws>,
    /// Becomes true once this start is registered in the replicated state.
    pub(crate) registered: watch::Receiver<bool>,
    pub(crate) leader_changes: Arc<AtomicU64>,
    pub(crate) exporting: Arc<Semaphore>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// The server of the peers' port; it ends soon after `end` is set.
    server: Mutex<Option<JoinHandle<()>>>,
    end: watch::Sender<bool>,
}

/// Longest time for which a leader that stops waits until all proposals are answered. A commit
/// takes milliseconds, and without a quorum waiting is useless.
const DRAIN: Duration = Duration::from_millis(500);

/// Opens the folder, listens for peers, and brings the node up in the background.
pub(crate) fn start(options: Options) -> Result<Started, Stop> {
    let (folder, listener) = FolderOpen::open(options)?;
    let node = Arc::clone(&folder.node);
    let batcher = Arc::new(ProposalBatcher::start(Arc::clone(&node)));
    let (end, mut ended) = watch::channel(false);
    let until = async move {
        let _ = ended.wait_for(|ended| *ended).await;
    };
    let draws = Arc::new(Draws::new(Arc::clone(&node)));
    let service = Service::new(Arc::clone(&node), Arc::clone(&batcher), Arc::clone(&draws));
    let server = server::serve(listener, Arc::new(service), &NodeTasks, until)
        .map_err(|e| start_failed(format!("cannot listen for peers: {e}")))?;
    let (register, registered) = watch::channel(false);
    let leader_changes = Arc::new(AtomicU64::new(0));
    let background = Background {
        node: Arc::clone(&node),
        batcher: Arc::clone(&batcher),
        register,
        leader_changes: Arc::clone(&leader_changes),
    };
    let tasks = vec![
        platform::spawn(tasks::peers_file::keep(Arc::clone(&node.context))),
        platform::spawn(bring_up(folder, background)),
    ];
    Ok(Started {
        node,
        batcher,
        draws,
        registered,
        leader_changes,
        exporting: Arc::new(Semaphore::new(export::AT_ONCE)),
        tasks: Mutex::new(tasks),
        server: Mutex::new(Some(server)),
        end,
    })
}

/// Brings the node up until its replica runs. Stops the node if it must not run.
async fn bring_up(folder: FolderOpen, background: Background) {
    let context = Arc::clone(&folder.node.context);
    let brought = async {
        let identified = folder.identify().await?;
        let opened = identified.open().await?;
        let admitted = opened.admit().await?;
        admitted.run().await
    };
    match brought.await {
        Ok(running) => running.work(background).await,
        Err(stop) => context.stop(stop),
    }
}

/// Waits for the other nodes that stop too, transfers leadership if this node leads, stops Raft,
/// writes the last checkpoint, drains the log, and unlocks the folder.
pub(crate) async fn stop(started: &Started) {
    let context = &started.node.context;
    if let Some(replica) = started.node.replica() {
        stopping_together::wait_for_others(context, replica).await;
        if replica.is_leader() {
            let target = leader::best_transfer_target(context, replica);
            if target.is_some() && !is_out!(DrainedAtStop) {
                started.batcher.drain(DRAIN).await;
            }
            round::give_back(context, replica).await;
            if let Some(target) = target {
                leader::transfer_leadership(replica, target).await;
            }
        }
        context.set_stopping(Stopping::GaveBack);
        if let Err(error) = replica.stop().await {
            tracing::error!(%error, "the last checkpoint was not written");
        }
        if let Err(error) = tasks::peers_file::write(context) {
            tracing::warn!(%error, "the file `peers` was not written");
        }
    }
    context.set_phase(Phase::Stopped(Stop::new(StopReason::Stopped, "stopped")));
    started.end.send_replace(true);
    let tasks = std::mem::take(&mut *started.tasks.lock().unwrap_or_else(PoisonError::into_inner));
    for task in tasks {
        task.abort();
        // The task's storage is closed once the task has ended.
        let _ = task.await;
    }
    // Awaited, so that peers receive the answers in flight, and no request is processed in a folder
    // that another process may have opened.
    let server = std::mem::take(
        &mut *started
            .server
            .lock()
            .unwrap_or_else(PoisonError::into_inner),
    );
    if let Some(server) = server
        && let Err(error) = server.await
    {
        tracing::error!(%error, "the peers' port failed");
    }
    tasks::peers_file::close(context);
    // An opening continues after its task was aborted.
    let _opening = context.opening.lock().await;
    context.folder.unlock();
}

/// The folder is open and locked, and the boot number is raised for this start.
pub(crate) struct FolderOpen {
    pub(crate) node: Arc<Node>,
}

struct Identified {
    node: Arc<Node>,
    identity: Identity,
}

struct OpenedNode {
    node: Arc<Node>,
    identity: Identity,
    storage: Storage,
}

/// The peers have no objection to this start, or have all taken the founder's identities.
struct Admitted {
    node: Arc<Node>,
    identity: Identity,
    storage: Storage,
    /// True if this start begins the cluster's log.
    begins_log: bool,
}

struct Running {
    context: Arc<NodeContext>,
    replica: Arc<Replica>,
}

impl FolderOpen {
    /// Opens and locks the folder and raises the boot number. Returns the peers' listener, too.
    pub(crate) fn open(options: Options) -> Result<(Self, Box<dyn Listen>), Stop> {
        let folder = driver::open_folder(options.disk, &options.data_dir)?;
        let identity = folder.identity()?;
        let boot = folder.raise_boot()?;
        let mut nonce = [0; 8];
        platform::fill_random(&mut nonce)?;
        let nonce = u64::from_be_bytes(nonce);
        let cluster_id = identity.as_ref().map(|own| own.cluster_id.as_str());
        let peers = Peers::new(file::load(&folder, cluster_id)?);
        let start = Start { boot, nonce };
        let Options {
            settings,
            transport,
            listener,
            ..
        } = options;
        let context = NodeContext::new(settings, folder, identity, start, transport, peers);
        let context = Arc::new(context);
        let who = Arc::downgrade(&context);
        context
            .transport
            .know(Arc::new(move |addr| who.upgrade()?.name_at(addr)));
        let node = Arc::new(Node::new(context));
        Ok((Self { node }, listener))
    }

    async fn identify(self) -> Result<Identified, Stop> {
        let identity = obtain_identity::obtain_identity(&self.node.context).await?;
        Ok(Identified {
            node: self.node,
            identity,
        })
    }
}

impl Identified {
    /// Opens and checks the log and the state. From here on, hellos carry the state with which this
    /// start began.
    async fn open(self) -> Result<OpenedNode, Stop> {
        let Self { node, identity } = self;
        let context = &node.context;
        let opening = Arc::clone(&context.opening).lock_owned().await;
        let storage = Storage::open(Arc::clone(&context.folder), &identity, opening).await?;
        context.set_history(!storage.is_pristine(), storage.began());
        Ok(OpenedNode {
            node,
            identity,
            storage,
        })
    }
}

impl OpenedNode {
    /// Asks the peers for admission; a founder with an empty log prepares them instead.
    async fn admit(self) -> Result<Admitted, Stop> {
        let Self {
            node,
            identity,
            storage,
        } = self;
        let context = &node.context;
        let begins_log = identity.founder && storage.is_pristine();
        if begins_log {
            founder::prepare_all(context, &identity).await?;
        } else {
            if identity.founder {
                founder::finish(context)?;
            }
            let in_log = storage.log.voters_after(storage.loaded.position).await;
            let in_log = in_log.map_err(|e| Stop::of_io("the log cannot be read", &e))?;
            let admission = Admission::of(context, &identity, &storage.loaded, in_log);
            admission::ask(context, &identity, admission).await?;
        }
        Ok(Admitted {
            node,
            identity,
            storage,
            begins_log,
        })
    }
}

impl Admitted {
    async fn run(self) -> Result<Running, Stop> {
        let context = Arc::clone(&self.node.context);
        let replica = Replica::start(&context, &self.identity, self.storage).await?;
        self.node.set_replica(&replica);
        if self.begins_log {
            founder::initialize(&context, &self.identity, &replica).await?;
        }
        context.set_phase(Phase::Running);
        tracing::info!("this node runs");
        Ok(Running { context, replica })
    }
}

impl Running {
    async fn work(self, background: Background) {
        let Self { context, replica } = self;
        // The tasks end when this future is dropped.
        let _tasks = tasks::spawn_all(&context, &replica, background);
        replica.watch(&context).await;
    }
}

fn start_failed(message: String) -> Stop {
    Stop::new(StopReason::StartFailed, message)
}
