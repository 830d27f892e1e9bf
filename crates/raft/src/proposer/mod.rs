//! The proposal batcher: proposals of this node, collected into groups. On the leader a group is one
//! log entry, on any other node one message to the leader.
//!
//! - where a group goes: [`route`]
//! - an entry of the leader: [`entry`]
//! - linearizable reads: [`read`]
//!
//! No timer delays a lonely proposal: a group leaves as soon as fewer than `IN_FLIGHT` are on
//! their way, with all that has queued up meanwhile. So groups grow with the load.
//!
//! Invariants:
//! - A group whose fate is unknown is never proposed again by seqd itself.
//! - A caller gets `NoQuorum` or `Overloaded` only if its commands were certainly not proposed.

pub(crate) mod entry;
mod read;
pub(crate) mod route;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use seqd_state::codec::frame::{self, Frame, Framed as _};
use seqd_state::{CodecError, Command, Level, Outcome, check_command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use self::entry::Reply;
use self::route::{RETRY, Route, replaced, route, time_left};
use crate::conversation;
use crate::handle::{Phase, ProposeError, StopReason};
use crate::leadership::Leading;
use crate::node::Node;
use crate::peer_stops;
use crate::wire;
use crate::wire::messages::{Forward, ForwardRefusal, ForwardReply};
use crate::wire::transport::Link;

/// Groups on their way at once. One keeps the entries largest; a second lets the next group's
/// network and disk time overlap with the first's, which is what a lonely proposal needs.
const IN_FLIGHT: usize = 2;

/// Commands in one entry: bounds an entry to a few hundred KiB of ordinary commands.
const GROUP_COMMANDS: usize = 1024;

/// Proposals waiting on one node: some seconds of full load, far more than there are connections.
const WAITING: usize = 65_536;

/// Pause between two checks of what is still to be answered at a stop.
const DRAIN_LOOK: Duration = Duration::from_millis(2);

/// No command needs a higher level than this.
static HIGHEST_NEEDED: LazyLock<Level> = LazyLock::new(|| {
    let rows = Command::frame_rows();
    rows.iter()
        .map(|row| row.since)
        .max()
        .unwrap_or(Level::FIRST)
});

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

struct Item {
    /// Taken while they are on their way as an entry of this node.
    commands: Vec<Command>,
    count: usize,
    deadline: Instant,
    fate: Arc<Fate>,
    /// Whether it came from a peer, which took this node for the leader.
    forwarded: bool,
    reply: oneshot::Sender<Result<Vec<Outcome>, ForwardRefusal>>,
}

/// Takes proposals and linearizable reads.
pub(crate) struct ProposalBatcher {
    queue: mpsc::Sender<Item>,
    waiting: Arc<AtomicUsize>,
    /// Whether groups of peers are refused, since this node is about to give up leadership.
    leaving: AtomicBool,
    node: Arc<Node>,
}

impl ProposalBatcher {
    /// Starts collecting; ends when the batcher is dropped.
    pub(crate) fn start(node: Arc<Node>) -> Self {
        let (queue, inbox) = mpsc::channel(WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        tokio::spawn(collect(Arc::clone(&node), inbox));
        Self {
            queue,
            waiting,
            leaving: AtomicBool::new(false),
            node,
        }
    }

    /// Takes no more groups of peers and waits until all proposals are answered, this node's own too,
    /// for `limit` at most: under the next leader their outcome would not be known.
    pub(crate) async fn drain(&self, limit: Duration) {
        self.leaving.store(true, Ordering::SeqCst);
        let until = Instant::now() + limit;
        while self.pending() > 0 && Instant::now() < until {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    }

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

    pub(crate) async fn forwarded(&self, group: Forward) -> ForwardReply {
        let deadline = Instant::now() + Duration::from_millis(group.timeout_ms);
        ForwardReply(self.take_forwarded(&group.commands, deadline).await)
    }

    async fn take_forwarded(
        &self,
        commands: &[Frame],
        deadline: Instant,
    ) -> Result<Vec<Frame>, ForwardRefusal> {
        let commands = frame::read_all(commands);
        let commands = commands.map_err(|error| ForwardRefusal::Propose(not_proposed(&error)))?;
        let outcomes = self.submit(commands, deadline, true).await?;
        frame::write_all(&outcomes).map_err(|error| ForwardRefusal::Propose(unread(&error)))
    }

    async fn submit(
        &self,
        commands: Vec<Command>,
        deadline: Instant,
        forwarded: bool,
    ) -> Result<Vec<Outcome>, ForwardRefusal> {
        if let Phase::Stopped(stop) = &*self.node.context.phase().borrow() {
            let removed = stop.reason == StopReason::NodeRemoved;
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
            count: commands.len(),
            commands,
            deadline,
            fate: Arc::clone(&fate),
            forwarded,
            reply,
        };
        let _counted = Counted::new(&self.waiting);
        if forwarded && self.leaving.load(Ordering::SeqCst) {
            return Err(ForwardRefusal::NotLeader);
        }
        if self.queue.try_send(item).is_err() {
            return Err(ForwardRefusal::Propose(ProposeError::Overloaded {
                limit: WAITING,
            }));
        }
        match timeout_at(deadline, answer).await {
            Ok(Ok(outcomes)) => outcomes,
            // The group was dropped: whether it had left decides the caller's answer.
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
        let index = match timeout_at(deadline, read::index(&self.node, deadline)).await {
            Ok(index) => index?,
            Err(_) => return Err(ProposeError::no_leader()),
        };
        let Some(replica) = self.node.replica() else {
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

    /// The index that a linearizable read must have applied, if this node leads.
    pub(crate) async fn read_index_here(&self) -> Result<u64, ForwardRefusal> {
        read::index_here(&self.node).await
    }
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

async fn collect(node: Arc<Node>, mut inbox: mpsc::Receiver<Item>) {
    let slots = Arc::new(Semaphore::new(IN_FLIGHT));
    let mut left_over = None;
    loop {
        let first = match left_over.take() {
            Some(item) => Some(item),
            None => inbox.recv().await,
        };
        let (Some(first), Ok(slot)) = (first, Arc::clone(&slots).acquire_owned().await) else {
            return;
        };
        let level = node.context.level();
        let is_above = |item: &Item| {
            level < *HIGHEST_NEEDED
                && (item.commands.iter()).any(|command| check_command(command, level).is_err())
        };
        let group;
        (group, left_over) = take_group(first, &mut inbox, is_above);
        tokio::spawn(send(Arc::clone(&node), group, slot));
    }
}

/// Collects what has queued up behind `first`. Commands above the cluster's level, which the leader
/// may refuse, go alone: a refusal is the answer to the whole group. Returns what was taken from the
/// queue and begins the next group.
fn take_group(
    first: Item,
    inbox: &mut mpsc::Receiver<Item>,
    is_above: impl Fn(&Item) -> bool,
) -> (Vec<Item>, Option<Item>) {
    let goes_alone = is_above(&first);
    let mut count = first.count;
    let mut group = vec![first];
    while !goes_alone
        && count < GROUP_COMMANDS
        && let Ok(item) = inbox.try_recv()
    {
        if is_above(&item) {
            return (group, Some(item));
        }
        count += item.count;
        group.push(item);
    }
    (group, None)
}

/// Finds the leader, hands it the group, and answers each caller.
async fn send(node: Arc<Node>, mut group: Vec<Item>, slot: OwnedSemaphorePermit) {
    let _slot = slot;
    loop {
        let forwarded = group.iter().all(|item| item.forwarded);
        let Some(deadline) = group.iter().map(|item| item.deadline).max() else {
            return;
        };
        let route = route(&node, deadline, forwarded).await;
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
        let Some(outcomes) = (match route {
            Route::Here(leading) => propose_here(&node, leading, &mut group).await,
            Route::There { node: leader, addr } => {
                forward(&node, leader, &addr, deadline, &group).await
            }
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

async fn propose_here(node: &Node, leading: Leading, group: &mut [Item]) -> Option<Reply> {
    let replica = node.replica()?;
    let taken = group
        .iter_mut()
        .map(|item| std::mem::take(&mut item.commands));
    let commands: Vec<Command> = taken.flatten().collect();
    let proposal = match entry::encode(&node.context, replica, leading, commands) {
        Ok(proposal) => proposal,
        Err(error) => return Some(Err(error)),
    };
    let sent = entry::propose_entry(replica, leading, proposal.clone()).await;
    if sent.is_none() {
        let mut commands = proposal.0.commands.iter().cloned();
        for item in group {
            item.commands = commands.by_ref().take(item.count).collect();
        }
    }
    sent
}

async fn forward(
    node: &Node,
    leader: u64,
    addr: &str,
    deadline: Instant,
    group: &[Item],
) -> Option<Reply> {
    let (left, timeout_ms) = time_left(deadline);
    let commands = match frame::write_all(group.iter().flat_map(|item| &item.commands)) {
        Ok(commands) => commands,
        Err(error) => return Some(Err(not_proposed(&error))),
    };
    let message = Forward {
        commands,
        timeout_ms,
    };
    let (link, to, route) = (Link::Forward, (leader, addr), wire::route::Route::Forward);
    let asked = conversation::call(&node.context, link, to, route, message, left);
    let answer = tokio::select! {
        answer = asked => answer,
        () = replaced(node, leader) => {
            return Some(Err(ProposeError::unknown("the leader was replaced")));
        }
    };
    match answer {
        Ok(ForwardReply(Ok(outcomes))) => {
            let outcomes = frame::read_all(&outcomes);
            Some(outcomes.map_err(|error| {
                if error.is_newer() {
                    let levels = node.context.settings.levels;
                    node.context
                        .stop(peer_stops::unreadable(levels, &error.to_string()));
                }
                unread(&error)
            }))
        }
        Ok(ForwardReply(Err(ForwardRefusal::NotLeader))) => None,
        Ok(ForwardReply(Err(ForwardRefusal::Propose(error)))) => Some(Err(error)),
        Err(error) if error.is_unsent() => None,
        Err(error) => {
            let detail = format!("the leader's answer was lost: {error}");
            Some(Err(ProposeError::unknown(detail)))
        }
    }
}

/// The commands cannot be written, or not be read where they came to.
fn not_proposed(error: &CodecError) -> ProposeError {
    ProposeError::NoQuorum {
        detail: error.to_string(),
    }
}

/// The commands were applied, and their outcomes cannot be written, or not be read here.
fn unread(error: &CodecError) -> ProposeError {
    ProposeError::unknown(format!("the outcomes cannot be read: {error}"))
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
                let own = outcomes.by_ref().take(item.count).collect();
                let _ = item.reply.send(Ok(own));
            }
        }
        Err(error) => answer_all(group, &ForwardRefusal::Propose(error)),
    }
}
