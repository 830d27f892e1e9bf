//! The handle: started, asked, and stopped in order.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use seqd_state::{Command, NodeId, Outcome, State};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::duties;
use crate::founding;
use crate::gatherer::Gatherer;
use crate::handle::{
    MemberError, MemberStatus, Options, Phase, ProposeError, Report, Status, Stop, StorageStats,
};
use crate::identity;
use crate::local::{Local, Settings};
use crate::members;
use crate::peers::table::Start;
use crate::peers::{self, Peers};
use crate::status;
use crate::storage::disk_watch;
use crate::storage::export::{self, Export, SnapshotError};
use crate::storage::folder::Folder;
use crate::succession;
use crate::wire::messages::{Changed, MemberChange};
use crate::wire::peer_server::{self, Service};
use crate::wire::transport::Transport;

/// The longest time that a connection to a peer may take to come about.
const CONNECT: Duration = Duration::from_millis(500);

/// A node's part in the cluster. Clones are the same node.
#[derive(Clone)]
pub struct Raft {
    inner: Arc<Inner>,
}

struct Inner {
    service: Arc<Service>,
    started: watch::Receiver<bool>,
    leader_changes: Arc<AtomicU64>,
    exporting: Arc<Semaphore>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    end: watch::Sender<bool>,
}

impl Raft {
    /// Opens the folder, listens for peers, and goes on in the background; `phase` tells how far
    /// it has come.
    ///
    /// # Errors
    /// A [`Stop`] where the folder must not or cannot be used.
    pub async fn start(options: Options) -> Result<Self, Stop> {
        let (local, listener) = open(options)?;
        let gatherer = Arc::new(Gatherer::start(Arc::clone(&local)));
        let service = Arc::new(Service {
            local: Arc::clone(&local),
            gatherer: Arc::clone(&gatherer),
            receiving: tokio::sync::Semaphore::new(1),
        });
        let (end, ended) = watch::channel(false);
        let until = async move {
            let mut ended = ended;
            let _ = ended.wait_for(|ended| *ended).await;
        };
        let server = peer_server::serve(listener, Arc::clone(&service), until)
            .map_err(|e| start_failed(format!("cannot listen for peers: {e}")))?;
        let (register, started) = watch::channel(false);
        let leader_changes = Arc::new(AtomicU64::new(0));
        let tasks = vec![
            server,
            tokio::spawn(founding::bring_up(Arc::clone(&local))),
            tokio::spawn(duties::keep_in_touch(Arc::clone(&local))),
            tokio::spawn(duties::lead(Arc::clone(&local))),
            tokio::spawn(duties::register_start(
                Arc::clone(&local),
                Arc::clone(&gatherer),
                register,
            )),
            tokio::spawn(succession::watch_leaders(Arc::clone(&local))),
            tokio::spawn(peers::file::keep(Arc::clone(&local))),
            tokio::spawn(peers::showing::greet_strangers(Arc::clone(&local))),
            tokio::spawn(disk_watch::watch(Arc::clone(&local))),
            tokio::spawn(count_leader_changes(
                Arc::clone(&local),
                Arc::clone(&leader_changes),
            )),
        ];
        let tasks = Mutex::new(tasks);
        let inner = Inner {
            service,
            started,
            leader_changes,
            exporting: Arc::new(Semaphore::new(export::AT_ONCE)),
            tasks,
            end,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// What the tests look at.
    #[cfg(test)]
    pub(crate) fn local(&self) -> &Local {
        &self.inner.service.local
    }

    /// Where this node is in its life.
    #[must_use]
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.inner.service.local.phase()
    }

    /// Turns true once this start is registered: from then on it may take leases.
    #[must_use]
    pub fn started(&self) -> watch::Receiver<bool> {
        self.inner.started.clone()
    }

    /// This node's ID and the number of this start, once it has an identity.
    #[must_use]
    pub fn boot(&self) -> Option<(NodeId, u64)> {
        let local = &self.inner.service.local;
        local
            .identity()
            .map(|identity| (NodeId(identity.node), local.start.boot))
    }

    /// Proposes commands; returns an outcome for each, in order, once they are applied.
    ///
    /// # Errors
    /// See [`ProposeError`]: only `OutcomeUnknown` leaves open whether they took effect.
    pub async fn propose(
        &self,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, ProposeError> {
        self.inner
            .service
            .gatherer
            .propose(commands, deadline)
            .await
    }

    /// Returns when this node's state holds all that was acknowledged anywhere before the call.
    ///
    /// # Errors
    /// `NoQuorum` if no leader confirms it within the deadline.
    pub async fn read(&self, deadline: Instant) -> Result<(), ProposeError> {
        self.inner.service.gatherer.read(deadline).await
    }

    /// Takes a snapshot to be sent out of the cluster. It holds all that was acknowledged anywhere
    /// before the call; with `stale`, what this node has applied.
    ///
    /// # Errors
    /// See [`SnapshotError`]. The deadline is that of the agreement with the leader.
    pub async fn snapshot(&self, stale: bool, deadline: Instant) -> Result<Export, SnapshotError> {
        let Service {
            local, gatherer, ..
        } = &*self.inner.service;
        export::export(local, gatherer, &self.inner.exporting, stale, deadline).await
    }

    /// Looks at the state that this node has applied. Keep it short: `apply` waits meanwhile.
    pub fn state<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        match self.inner.service.local.replica.get() {
            Some(replica) => look(&replica.applied.read().state),
            None => look(&State::default()),
        }
    }

    /// The cluster as this node sees it.
    #[must_use]
    pub fn status(&self) -> Status {
        let changes = self.inner.leader_changes.load(Ordering::Relaxed);
        status::status(
            &self.inner.service.local,
            changes,
            self.inner.service.gatherer.pending(),
        )
    }

    /// Counters and gauges of the disk.
    #[must_use]
    pub fn storage_stats(&self) -> StorageStats {
        status::storage(&self.inner.service.local)
    }

    /// What this node tells its peers about itself from now on.
    pub fn set_report(&self, report: Report) {
        *self
            .inner
            .service
            .local
            .report
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = report;
    }

    /// Adds a waiting node as a learner.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn member_add(
        &self,
        name: String,
        peer: String,
        http: Option<String>,
        deadline: Instant,
    ) -> Result<MemberStatus, MemberError> {
        self.change(MemberChange::Add { name, peer, http }, deadline)
            .await
            .and_then(member)
    }

    /// Makes a learner that has caught up a voter.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn member_promote(
        &self,
        name: String,
        deadline: Instant,
    ) -> Result<MemberStatus, MemberError> {
        self.change(MemberChange::Promote { name }, deadline)
            .await
            .and_then(member)
    }

    /// Removes a member for good; a leader hands over first.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn member_remove(&self, name: String, deadline: Instant) -> Result<(), MemberError> {
        self.change(MemberChange::Remove { name }, deadline)
            .await
            .map(|_| ())
    }

    /// Hands leadership to a voter, the one with the longest log if none is named; returns the
    /// name of the one that leads then.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn leader_move(
        &self,
        to: Option<String>,
        deadline: Instant,
    ) -> Result<String, MemberError> {
        match self
            .change(MemberChange::MoveLeader { to }, deadline)
            .await?
        {
            Changed::Leader(name) => Ok(name),
            Changed::Member(_) | Changed::Removed => Err(confused().into()),
        }
    }

    async fn change(
        &self,
        change: MemberChange,
        deadline: Instant,
    ) -> Result<Changed, MemberError> {
        members::change(&self.inner.service, change, deadline).await
    }

    /// Hands over if this node leads, stops Raft, writes the last checkpoint, drains the log.
    pub async fn stop(&self) {
        let local = &self.inner.service.local;
        let mut is_clean = false;
        if let Some(replica) = local.replica.get() {
            if replica.raft.as_leader().is_ok()
                && let Some(heir) = members::best_heir(local, replica)
            {
                members::hand_over(replica, heir).await;
            }
            match replica.stop().await {
                Ok(()) => is_clean = true,
                Err(error) => tracing::error!(%error, "the disk did not take the last checkpoint"),
            }
            if let Err(error) = peers::file::write(local) {
                tracing::warn!(%error, "the file `peers` was not written");
            }
        }
        local.set_phase(Phase::Stopped(Stop {
            exit: 0,
            code: "stopped",
            message: "stopped".to_owned(),
        }));
        self.inner.end.send_replace(true);
        let tasks = std::mem::take(
            &mut *self
                .inner
                .tasks
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        for task in tasks {
            task.abort();
        }
        peers::file::close(local);
        let at_rest = match local.replica.get().filter(|_| is_clean) {
            Some(replica) => replica.settle().await,
            None => true,
        };
        if at_rest {
            local.folder.unlock();
        }
    }
}

/// A node before its first step: its folder is open and locked, and this start is counted.
pub(crate) fn open(options: Options) -> Result<(Arc<Local>, TcpListener), Stop> {
    let folder = Folder::open(options.disk, &options.data_dir)?;
    let identity = folder.identity()?;
    let boot = folder.raise_boot()?;
    let mut nonce = [0; 8];
    identity::fill_random(&mut nonce)?;
    let transport = Transport::new(CONNECT).map_err(start_failed)?;
    let settings = Settings {
        name: options.name,
        peer_advertise: options.peer_advertise,
        http_advertise: options.http_advertise,
        peers: options.peers,
        heartbeat: options.heartbeat,
        election: options.election,
        snapshot_every: options.snapshot_every,
        window_ms: options.window_ms,
        max_peer_skew_ms: options.max_peer_skew_ms,
        version: options.version,
        clock: options.clock,
    };
    let nonce = u64::from_be_bytes(nonce);
    let cluster_id = identity.as_ref().map(|own| own.cluster_id.as_str());
    let peers = Peers::new(peers::file::load(&folder, cluster_id));
    let start = Start { boot, nonce };
    let local = Local::new(settings, folder, identity, start, transport, peers);
    Ok((Arc::new(local), options.listener))
}

fn start_failed(message: String) -> Stop {
    Stop {
        exit: 1,
        code: "start-failed",
        message,
    }
}

fn member(changed: Changed) -> Result<MemberStatus, MemberError> {
    match changed {
        Changed::Member(member) => Ok(member),
        Changed::Removed | Changed::Leader(_) => Err(confused().into()),
    }
}

fn confused() -> ProposeError {
    ProposeError::OutcomeUnknown {
        detail: "the leader answered another question".to_owned(),
    }
}

async fn count_leader_changes(local: Arc<Local>, changes: Arc<AtomicU64>) {
    let mut phase = local.phase();
    if phase.wait_for(Phase::is_running).await.is_err() {
        return;
    }
    let Some(replica) = local.replica.get() else {
        return;
    };
    let mut metrics = replica.raft.server_metrics();
    let mut last = None;
    loop {
        let leader = metrics.borrow_watched().current_leader;
        if leader.is_some() && leader != last {
            last = leader;
            changes.fetch_add(1, Ordering::Relaxed);
        }
        if metrics.changed().await.is_err() {
            return;
        }
    }
}
