//! The order of a start and of a stop.
//!
//! Each step of a start takes the results of the steps that it depends on: the folder, the
//! identity, the storage, the admission by the peers, the replica.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use seqd_guards::is_out;
use seqd_net::Listen;
use seqd_net::Lock;
use seqd_peers::file;
use seqd_peers::starts::Peers;
use seqd_peers::table::Start;
use seqd_peers::wire::server;
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
    tasks: Lock<Vec<JoinHandle<()>>>,
    /// The server of the peers' port; it ends soon after `end` is set.
    server: Lock<Option<JoinHandle<()>>>,
    end: watch::Sender<bool>,
}

/// Longest time for which a leader that stops waits until all proposals are answered. A commit
/// takes milliseconds, and without a quorum waiting is useless.
const DRAIN: Duration = Duration::from_millis(500);

/// Opens the folder, listens for peers, and brings the node up in the background.
pub(crate) fn start(options: Options) -> Result<Started, Stop> {
    let (node, listener) = open_folder(options)?;
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
        platform::spawn(bring_up(Arc::clone(&node), background)),
    ];
    Ok(Started {
        node,
        batcher,
        draws,
        registered,
        leader_changes,
        exporting: Arc::new(Semaphore::new(export::AT_ONCE)),
        tasks: Lock::new(tasks),
        server: Lock::new(Some(server)),
        end,
    })
}

/// Brings the node up, and watches its replica. Stops the node if it must not run.
async fn bring_up(node: Arc<Node>, background: Background) {
    let context = &node.context;
    match bring_to_run(&node).await {
        Ok(replica) => {
            // The tasks end when this future is dropped.
            let _tasks = tasks::spawn_all(context, &replica, background);
            replica.watch(context).await;
        }
        Err(stop) => context.stop(stop),
    }
}

/// Brings the node up until its replica runs. After an error, the storage is closed when this
/// returns.
async fn bring_to_run(node: &Node) -> Result<Arc<Replica>, Stop> {
    let context = &node.context;
    let identity = obtain_identity::obtain_identity(context).await?;
    let opening = Arc::clone(&context.opening).lock_owned().await;
    let storage = Storage::open(Arc::clone(&context.folder), &identity, opening).await?;
    // From here on, hellos carry the state with which this start began.
    context.set_history(!storage.is_pristine(), storage.began());
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
    // The peers have no objection to this start, or have all taken the founder's identities.
    let replica = Replica::start(context, &identity, storage).await?;
    node.set_replica(&replica);
    if begins_log {
        founder::initialize(context, &identity, &replica).await?;
    }
    context.set_phase(Phase::Running);
    tracing::info!("this node runs");
    Ok(replica)
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
    let tasks = std::mem::take(&mut *started.tasks.lock());
    for task in tasks {
        task.abort();
        // The task's storage is closed once the task has ended.
        let _ = task.await;
    }
    // Awaited, so that peers receive the answers in flight, and no request is processed in a folder
    // that another process may have opened.
    let server = std::mem::take(&mut *started.server.lock());
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

/// Opens and locks the folder and raises the boot number. Returns the node and the peers'
/// listener.
pub(crate) fn open_folder(options: Options) -> Result<(Arc<Node>, Box<dyn Listen>), Stop> {
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
    Ok((Arc::new(Node::new(context)), listener))
}

fn start_failed(message: String) -> Stop {
    Stop::new(StopReason::StartFailed, message)
}
