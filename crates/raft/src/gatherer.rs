//! Proposals from this node, gathered into groups: one log entry a group on the leader, one
//! message a group to it from any other node.
//!
//! No timer delays a lonely proposal: a group leaves as soon as fewer than `IN_FLIGHT` are on
//! their way, with all that has queued up meanwhile. So groups grow with the load.
//!
//! Invariants:
//! - A group whose fate is unknown is never proposed again by seqd itself.
//! - A caller is told `NoQuorum` or `Overloaded` only if its commands were certainly not proposed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use openraft::ReadPolicy;
use openraft::errors::ClientWriteError;
use openraft::impls::ProgressResponder;
use seqd_state::{Command, Entry as StateEntry, Outcome, Stamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::handle::{Phase, ProposeError};
use crate::local::Local;
use crate::replica::{Leading, Replica};
use crate::types::{self, Proposal};
use crate::wire::messages::{Forward, ForwardRefusal, ForwardReply, ReadIndex, ReadIndexReply};
use crate::wire::paths;
use crate::wire::transport::Link;

/// Groups on their way at once. One keeps the entries largest; a second lets the next group's
/// network and disk time overlap with the first's, which is what a lonely proposal needs.
const IN_FLIGHT: usize = 2;

/// Commands in one entry: bounds an entry to a few hundred KiB of ordinary commands.
const GROUP_COMMANDS: usize = 1024;

/// Proposals waiting on one node: some seconds of full load, far more than there are connections.
const WAITING: usize = 65_536;

/// Pause before a group looks for the leader again.
const RETRY: Duration = Duration::from_millis(5);

const UNSENT: u8 = 0;
const SENT: u8 = 1;
const ABANDONED: u8 = 2;

/// Whether a proposal has left, decided between the group that takes it and the caller that
/// gives up: exactly one of the two wins.
#[derive(Default)]
struct Fate(AtomicU8);

impl Fate {
    fn change(&self, from: u8, to: u8) -> bool {
        self.0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

type Reply = Result<Vec<Outcome>, ProposeError>;

struct Item {
    commands: Vec<Command>,
    deadline: Instant,
    fate: Arc<Fate>,
    /// Whether it came from a peer, which took this node for the leader.
    forwarded: bool,
    reply: oneshot::Sender<Result<Vec<Outcome>, ForwardRefusal>>,
}

/// Takes proposals and linearizable reads.
pub(crate) struct Gatherer {
    queue: mpsc::Sender<Item>,
    waiting: Arc<AtomicUsize>,
    local: Arc<Local>,
}

enum Route {
    Here(Leading),
    There { node: u64, addr: String },
    NotLeader,
    Nowhere(ProposeError),
}

impl Gatherer {
    /// Starts gathering; ends when the gatherer is dropped.
    pub(crate) fn start(local: Arc<Local>) -> Self {
        let (queue, inbox) = mpsc::channel(WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        tokio::spawn(gather(Arc::clone(&local), inbox));
        Self {
            queue,
            waiting,
            local,
        }
    }

    /// Proposals that have no answer yet.
    pub(crate) fn pending(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Proposes commands of this node's own callers.
    pub(crate) async fn propose(&self, commands: Vec<Command>, deadline: Instant) -> Reply {
        let answer = self.submit(commands, deadline, false).await;
        answer.map_err(|refused| match refused {
            ForwardRefusal::Propose(error) => error,
            ForwardRefusal::NotLeader => ProposeError::no_leader(),
        })
    }

    /// Proposes a group that a peer forwarded.
    pub(crate) async fn forwarded(&self, group: Forward) -> ForwardReply {
        let deadline = Instant::now() + Duration::from_millis(group.timeout_ms);
        self.submit(group.commands, deadline, true).await
    }

    async fn submit(
        &self,
        commands: Vec<Command>,
        deadline: Instant,
        forwarded: bool,
    ) -> Result<Vec<Outcome>, ForwardRefusal> {
        if let Phase::Stopped(stop) = &*self.local.phase().borrow() {
            let removed = stop.code == "node-removed";
            let error = if removed {
                ProposeError::NodeRemoved
            } else {
                ProposeError::Stopping
            };
            return Err(ForwardRefusal::Propose(error));
        }
        let (reply, answer) = oneshot::channel();
        let fate = Arc::new(Fate::default());
        let item = Item {
            commands,
            deadline,
            fate: Arc::clone(&fate),
            forwarded,
            reply,
        };
        let _counted = Counted::new(&self.waiting);
        if self.queue.try_send(item).is_err() {
            return Err(ForwardRefusal::Propose(ProposeError::Overloaded {
                limit: WAITING,
            }));
        }
        match timeout_at(deadline, answer).await {
            Ok(Ok(outcomes)) => outcomes,
            // The group was dropped: whether it had left decides what its caller may be told.
            Ok(Err(_)) if fate.change(UNSENT, ABANDONED) => {
                Err(ForwardRefusal::Propose(ProposeError::Stopping))
            }
            Ok(Err(_)) => Err(ForwardRefusal::Propose(ProposeError::unknown(
                "this node stopped before the answer came",
            ))),
            Err(_) if fate.change(UNSENT, ABANDONED) => {
                Err(ForwardRefusal::Propose(ProposeError::no_leader()))
            }
            Err(_) => Err(ForwardRefusal::Propose(ProposeError::unknown(
                "no answer within the deadline",
            ))),
        }
    }

    /// Returns when this node's state holds all that was acknowledged before the call.
    pub(crate) async fn read(&self, deadline: Instant) -> Result<(), ProposeError> {
        let index = match timeout_at(deadline, self.read_index(deadline)).await {
            Ok(index) => index?,
            Err(_) => return Err(ProposeError::no_leader()),
        };
        let Some(replica) = self.local.replica.get() else {
            return Err(ProposeError::no_leader());
        };
        let mut applied = replica.applied.index();
        let reached = timeout_at(deadline, applied.wait_for(|at| *at >= index)).await;
        match reached {
            Ok(Ok(_)) => Ok(()),
            _ => Err(ProposeError::NoQuorum {
                detail: format!("this node has not applied entry {index} within the deadline"),
            }),
        }
    }

    async fn read_index(&self, deadline: Instant) -> Result<u64, ProposeError> {
        loop {
            match route(&self.local, deadline, false).await {
                Route::Here(_) => {
                    if let Ok(index) = self.read_index_here().await {
                        return Ok(index);
                    }
                }
                Route::There { node, addr } => {
                    let (left, timeout_ms) = time_left(deadline);
                    let ask = ReadIndex { timeout_ms };
                    let to = (node, addr.as_str());
                    let path = paths::READ_INDEX;
                    let asked = self.local.call(Link::Calls, to, path, ask, left).await;
                    if let Ok(ReadIndexReply::Ok(index)) = asked {
                        return Ok(index);
                    }
                }
                Route::NotLeader => {}
                Route::Nowhere(error) => return Err(error),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// The index that a linearizable read must have applied, if this node leads.
    pub(crate) async fn read_index_here(&self) -> Result<u64, ForwardRefusal> {
        let replica = self.local.replica.get().ok_or(ForwardRefusal::NotLeader)?;
        let read = replica
            .raft
            .ensure_linearizable(ReadPolicy::ReadIndex)
            .await;
        match read {
            Ok(id) => Ok(id.log_id().index()),
            Err(_) => Err(ForwardRefusal::NotLeader),
        }
    }
}

/// The time until a deadline, also as the milliseconds that a message carries.
pub(crate) fn time_left(deadline: Instant) -> (Duration, u64) {
    let left = deadline.saturating_duration_since(Instant::now());
    (left, u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

/// Counts one proposal for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(counter))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn gather(local: Arc<Local>, mut inbox: mpsc::Receiver<Item>) {
    let slots = Arc::new(Semaphore::new(IN_FLIGHT));
    while let Some(first) = inbox.recv().await {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let mut count = first.commands.len();
        let mut group = vec![first];
        while count < GROUP_COMMANDS
            && let Ok(item) = inbox.try_recv()
        {
            count += item.commands.len();
            group.push(item);
        }
        tokio::spawn(send(Arc::clone(&local), group, slot));
    }
}

/// Finds the leader, hands it the group, and tells each caller what became of it.
async fn send(local: Arc<Local>, mut group: Vec<Item>, slot: OwnedSemaphorePermit) {
    let _slot = slot;
    loop {
        let forwarded = group.iter().all(|item| item.forwarded);
        let Some(deadline) = group.iter().map(|item| item.deadline).max() else {
            return;
        };
        let route = route(&local, deadline, forwarded).await;
        if let Route::Nowhere(error) = route {
            return answer_all(group, &ForwardRefusal::Propose(error));
        }
        if !matches!(route, Route::Here(_)) {
            // What a peer forwarded goes back to it: a second hop could run in circles.
            let (theirs, own) = group.into_iter().partition(|item| item.forwarded);
            answer_all(theirs, &ForwardRefusal::NotLeader);
            group = own;
        }
        group.retain(|item| item.fate.change(UNSENT, SENT));
        if group.is_empty() {
            return;
        }
        let (Ok(outcomes) | Err(Sent::Answered(outcomes))) = (match route {
            Route::Here(leading) => propose_here(&local, leading, &group).await,
            Route::There { node, addr } => forward(&local, node, &addr, deadline, &group).await,
            Route::NotLeader | Route::Nowhere(_) => return,
        }) else {
            for item in &group {
                item.fate.change(SENT, UNSENT);
            }
            tokio::time::sleep(RETRY).await;
            continue;
        };
        return hand_out(group, outcomes);
    }
}

/// How sending a group went, other than well.
enum Sent {
    /// It has its answer, which is a refusal or unknown.
    Answered(Reply),
    /// Nothing was proposed: look for the leader again.
    NotAtAll,
}

async fn propose_here(local: &Local, leading: Leading, group: &[Item]) -> Result<Reply, Sent> {
    let Some(replica) = local.replica.get() else {
        return Err(Sent::NotAtAll);
    };
    let commands: Vec<Command> = group
        .iter()
        .flat_map(|item| item.commands.iter().cloned())
        .collect();
    propose_entry(local, replica, leading, commands).await
}

/// Stamps one entry, proposes it under this leadership and waits for its outcomes.
async fn propose_entry(
    local: &Local,
    replica: &Replica,
    leading: Leading,
    commands: Vec<Command>,
) -> Result<Reply, Sent> {
    let started = Instant::now();
    let stamp = Stamp {
        wall_ms: local.settings.clock.wall(),
        cluster_ms: leading.cluster_ms(),
    };
    let (responder, applied) = ProgressResponder::complete_only();
    let leader = *types::log_id(leading.term, 0).committed_leader_id();
    let submitted = replica
        .raft
        .write(Proposal(Arc::new(StateEntry { stamp, commands })))
        .with_leader(leader)
        .responder(responder)
        .await;
    if submitted.is_err() {
        return Err(Sent::Answered(Err(ProposeError::unknown(
            "this node's Raft has stopped",
        ))));
    }
    match applied.await {
        Ok(Ok(written)) => {
            replica.commits.record(started.elapsed());
            Ok(Ok(written.data.0))
        }
        Ok(Err(ClientWriteError::ForwardToLeader(_))) => Err(Sent::NotAtAll),
        Ok(Err(error)) => Err(Sent::Answered(Err(ProposeError::unknown(
            error.to_string(),
        )))),
        Err(_) => Err(Sent::Answered(Err(ProposeError::unknown(
            "this node's Raft has stopped",
        )))),
    }
}

/// Proposes commands of the leader itself, and only as this leadership.
pub(crate) async fn propose_as(
    local: &Local,
    replica: &Replica,
    leading: Leading,
    commands: Vec<Command>,
) -> Option<Vec<Outcome>> {
    propose_entry(local, replica, leading, commands)
        .await
        .ok()?
        .ok()
}

async fn forward(
    local: &Local,
    node: u64,
    addr: &str,
    deadline: Instant,
    group: &[Item],
) -> Result<Reply, Sent> {
    let (left, timeout_ms) = time_left(deadline);
    let commands = group
        .iter()
        .flat_map(|item| item.commands.iter().cloned())
        .collect();
    let message = Forward {
        commands,
        timeout_ms,
    };
    let asked = local.call(Link::Calls, (node, addr), paths::FORWARD, message, left);
    let answer = tokio::select! {
        answer = asked => answer,
        () = replaced(local, node) => {
            return Err(Sent::Answered(Err(ProposeError::unknown("the leader was replaced"))));
        }
    };
    match answer {
        Ok(ForwardReply::Ok(outcomes)) => Ok(Ok(outcomes)),
        Ok(ForwardReply::Err(ForwardRefusal::NotLeader)) => Err(Sent::NotAtAll),
        Ok(ForwardReply::Err(ForwardRefusal::Propose(error))) => Err(Sent::Answered(Err(error))),
        Err(error) if error.is_unsent() => Err(Sent::NotAtAll),
        Err(error) => Err(Sent::Answered(Err(ProposeError::unknown(format!(
            "the leader's answer was lost: {error}"
        ))))),
    }
}

/// Returns when another node than `leader` leads.
async fn replaced(local: &Local, leader: u64) {
    let Some(replica) = local.replica.get() else {
        return std::future::pending().await;
    };
    let mut metrics = replica.raft.server_metrics();
    loop {
        let now = replica.leader();
        if now.is_some_and(|now| now != leader) {
            return;
        }
        if openraft::async_runtime::WatchReceiver::changed(&mut metrics)
            .await
            .is_err()
        {
            return std::future::pending().await;
        }
    }
}

/// Finds where a group goes; waits for a leader as long as one may still come.
async fn route(local: &Local, deadline: Instant, forwarded: bool) -> Route {
    let patience = local.settings.election.1 * 3;
    let began = Instant::now();
    loop {
        if local.is_stopped() {
            return Route::Nowhere(ProposeError::Stopping);
        }
        if let Some(replica) = local.replica.get() {
            if replica.raft.as_leader().is_ok() {
                let founded = replica.applied.read().state.is_founded();
                if let Some(leading) = replica.leading().filter(|_| founded) {
                    if replica.has_quorum_contact() {
                        return Route::Here(leading);
                    }
                    return Route::Nowhere(ProposeError::NoQuorum {
                        detail: "this node leads, but no quorum has answered it for an election \
                                 time"
                            .to_owned(),
                    });
                }
            } else if forwarded {
                return Route::NotLeader;
            } else if replica.has_quorum_contact()
                && let Some(node) = replica.leader()
                && let Some(member) = replica.member(node)
            {
                return Route::There {
                    node,
                    addr: member.peer,
                };
            }
            let silent = replica.silent_for().unwrap_or_else(|| began.elapsed());
            if silent >= patience {
                return Route::Nowhere(ProposeError::no_leader());
            }
        }
        if Instant::now() >= deadline {
            return Route::Nowhere(ProposeError::no_leader());
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn answer_all(group: Vec<Item>, refused: &ForwardRefusal) {
    for item in group {
        let _ = item.reply.send(Err(refused.clone()));
    }
}

fn hand_out(group: Vec<Item>, reply: Reply) {
    match reply {
        Ok(outcomes) => {
            let mut outcomes = outcomes.into_iter();
            for item in group {
                let own = outcomes.by_ref().take(item.commands.len()).collect();
                let _ = item.reply.send(Ok(own));
            }
        }
        Err(error) => answer_all(group, &ForwardRefusal::Propose(error)),
    }
}
