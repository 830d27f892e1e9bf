//! The proposal batcher: collects this node's proposals into groups. On the leader, a group is one
//! log entry; on any other node, it is one message to the leader.
//!
//! - waiting proposals: [`inbox`], and their grouping: [`group`]
//! - the target of a group: [`route`]
//! - groups in flight: [`send`]
//! - an entry of the leader: [`entry`]
//! - linearizable reads: [`read`]
//!
//! No timer delays a single proposal: a group with all queued proposals leaves as soon as fewer
//! than `IN_FLIGHT` groups are in flight. Groups therefore grow with the load.
//!
//! A command that no state accepts is refused here, with the same function that `apply` uses. A
//! proposal that does not fit into an entry is not proposed. Waiting proposals are bounded by count
//! and by bytes. Each tenant has a share of both, and tenants take turns.
//!
//! Invariants:
//! - seqd itself never re-proposes a group whose outcome is unknown.
//! - A caller gets `NoQuorum` or `Overloaded` only if its commands were certainly not proposed.
//! - No proposal can make an entry that cannot be encoded, sent or stored.

pub(crate) mod entry;
mod group;
mod inbox;
pub(crate) mod read;
pub(crate) mod route;
mod send;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use seqd_state::codec::frame::{self, Frame, Framed as _};
use seqd_state::{ClusterMs, Command, MAX_COMMANDS_PER_ENTRY, MAX_ENTRY_BYTES, Outcome, Tenant};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use self::entry::Reply;
use self::group::{Fate, Queued};
use self::inbox::Inbox;
use self::route::not_in_time;
use self::send::{collect, not_proposed, unread};
use crate::handle::{Phase, ProposeError, StopReason};
use crate::messages::{Forward, ForwardRefusal, ForwardReply, ReadPoint};
use crate::node::Node;
use crate::platform;
use crate::pool::{Part, Pool};

/// Largest number of proposals that wait on one node: some seconds of full load, far more than
/// there are connections.
const WAITING: usize = 65_536;

/// Largest total size of the proposals that wait on one node, bytes: as many ordinary proposals as
/// may wait by count, and a few thousand of the largest that a client can send.
const WAITING_BYTES: usize = 8 << 20;

/// Largest size of the commands of one proposal, bytes: an entry's size without its head.
const PROPOSAL_BYTES: usize = MAX_ENTRY_BYTES - (4 << 10);

const _: () = assert!(PROPOSAL_BYTES <= WAITING_BYTES);

/// Pause between two checks of the unanswered proposals at a stop.
const DRAIN_LOOK: Duration = Duration::from_millis(2);

/// Accepts proposals and linearizable reads.
pub(crate) struct ProposalBatcher {
    inbox: Arc<Inbox>,
    /// Proposals that wait or are in flight.
    places: Arc<Pool>,
    /// The bytes of these proposals.
    room: Arc<Pool>,
    waiting: Arc<AtomicUsize>,
    /// True if groups from peers are refused, because this node is about to give up leadership.
    leaving: AtomicBool,
    node: Arc<Node>,
}

impl ProposalBatcher {
    /// Starts to collect proposals; ends when the batcher is dropped.
    pub(crate) fn start(node: Arc<Node>) -> Self {
        let inbox = Arc::new(Inbox::default());
        let share = node.context.settings.tenant_share;
        platform::spawn(collect(Arc::clone(&node), Arc::clone(&inbox)));
        Self {
            inbox,
            places: Pool::new(share, WAITING as u64),
            room: Pool::new(share, WAITING_BYTES as u64),
            waiting: Arc::default(),
            leaving: AtomicBool::new(false),
            node,
        }
    }

    /// Refuses further groups from peers and waits for at most `limit` until all proposals,
    /// including this node's own, are answered. Under the next leader, their outcome would not be
    /// known.
    pub(crate) async fn drain(&self, limit: Duration) {
        self.leaving.store(true, Ordering::SeqCst);
        let until = Instant::now() + limit;
        while self.pending() > 0 && Instant::now() < until {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    }

    pub(crate) fn pending(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Proposes this node's own commands.
    pub(crate) async fn propose(&self, commands: Vec<Command>, deadline: Instant) -> Reply {
        self.propose_for(Tenant::OPERATOR, commands, deadline).await
    }

    /// Proposes commands of one of this node's callers.
    pub(crate) async fn propose_for(
        &self,
        tenant: Tenant,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> Reply {
        let answer = self.submit(Some(tenant), commands, deadline).await;
        answer.map_err(|refused| match refused {
            ForwardRefusal::Propose(error) => error,
            ForwardRefusal::NotLeader => ProposeError::no_leader(),
        })
    }

    pub(crate) async fn forwarded(&self, group: Forward) -> ForwardReply {
        let deadline = Instant::now() + Duration::from_millis(group.timeout_ms);
        let outcomes = self.take_forwarded(&group.commands, deadline).await;
        ForwardReply(outcomes.map_err(ForwardRefusal::of_peer))
    }

    async fn take_forwarded(
        &self,
        commands: &[Frame],
        deadline: Instant,
    ) -> Result<Vec<Frame>, ForwardRefusal> {
        let commands = frame::read_all(commands).map_err(|error| not_proposed(&error))?;
        let outcomes = self.submit(None, commands, deadline).await?;
        Ok(frame::write_all(&outcomes).map_err(|error| unread(&error))?)
    }

    /// Refuses the commands that no state accepts, in their places in the answer, and proposes the
    /// others. `own` is the tenant of this node's caller, or `None` if a peer that considers this
    /// node the leader has forwarded the commands.
    async fn submit(
        &self,
        own: Option<Tenant>,
        mut commands: Vec<Command>,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, ForwardRefusal> {
        let mut refused = Vec::new();
        let mut at = 0;
        commands.retain(|command| {
            let checked = command.check();
            refused.extend(checked.err().map(|refusal| (at, refusal)));
            at += 1;
            refused.last().is_none_or(|(last, _)| last + 1 != at)
        });
        if refused.is_empty() {
            return self.queue(own, commands, deadline).await;
        }
        let mut outcomes = if commands.is_empty() {
            Vec::new()
        } else {
            self.queue(own, commands, deadline).await?
        };
        for (at, refusal) in refused {
            outcomes.insert(at.min(outcomes.len()), Outcome::Refused(refusal));
        }
        Ok(outcomes)
    }

    async fn queue(
        &self,
        own: Option<Tenant>,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, ForwardRefusal> {
        self.check_stopped()?;
        self.check_space(&commands)?;
        let (tenant, forwarded) = (own.unwrap_or(Tenant::OPERATOR), own.is_none());
        let (bytes, room) = self.room_for(tenant, &commands)?;
        let (reply, answer) = oneshot::channel();
        let fate = Arc::new(Fate::default());
        let item = Queued {
            count: commands.len(),
            needs_known_clock: commands.iter().any(Command::needs_known_clock),
            bytes,
            commands,
            deadline,
            fate: Arc::clone(&fate),
            forwarded,
            reply,
            _room: Some(room),
        };
        let _counted = PendingCount::new(&self.waiting);
        if forwarded && self.leaving.load(Ordering::SeqCst) {
            return Err(ForwardRefusal::NotLeader);
        }
        self.inbox.push(tenant, item);
        let error = match timeout_at(deadline, answer).await {
            Ok(Ok(outcomes)) => return outcomes,
            // The group was dropped. The caller's answer depends on whether it had been sent.
            Ok(Err(_)) if fate.abandon() => match self.node.context.is_stopped() {
                true => ProposeError::Stopping,
                false => ProposeError::no_leader(),
            },
            Ok(Err(_)) => ProposeError::unknown("this node stopped before the response arrived"),
            Err(_) if fate.abandon() => not_in_time(&self.node),
            Err(_) => ProposeError::unknown("no response within the deadline"),
        };
        Err(error.into())
    }

    fn check_stopped(&self) -> Result<(), ProposeError> {
        match &*self.node.context.phase().borrow() {
            Phase::Stopped(stop) if stop.reason == StopReason::NodeRemoved => {
                Err(ProposeError::NodeRemoved)
            }
            Phase::Stopped(_) => Err(ProposeError::Stopping),
            Phase::Waiting { .. } | Phase::Running => Ok(()),
        }
    }

    /// Refuses clients' commands that need room while a disk has only its reserve left.
    fn check_space(&self, commands: &[Command]) -> Result<(), ProposeError> {
        let Some(replica) = self.node.replica() else {
            return Ok(());
        };
        let space = &self.node.context.disk.space;
        let Some(detail) = space.refusal(|| replica.is_leader()) else {
            return Ok(());
        };
        let core = replica.applied.read();
        let mut commands = commands.iter();
        let is_leader = replica.is_leader();
        if commands.any(|command| space.refuses(&core.state, command, is_leader)) {
            return Err(ProposeError::NoRoom { detail });
        }
        Ok(())
    }

    /// The size of a proposal in bytes, and its part of the proposals and bytes that may wait.
    fn room_for(
        &self,
        tenant: Tenant,
        commands: &[Command],
    ) -> Result<(usize, [Part; 2]), ProposeError> {
        let too_large = |detail| Err(ProposeError::TooLarge { detail });
        let count = commands.len();
        if count > MAX_COMMANDS_PER_ENTRY {
            return too_large(format!(
                "{count} commands at once; at most {MAX_COMMANDS_PER_ENTRY} are allowed"
            ));
        }
        let frames = commands.iter().map(|command| command.frame_bytes());
        let bytes = frames.sum::<Result<usize, _>>();
        let bytes = bytes.map_err(|error| not_proposed(&error))?;
        if bytes > PROPOSAL_BYTES {
            return too_large(format!(
                "the commands have {bytes} bytes; at most {PROPOSAL_BYTES} are allowed at \
                 once"
            ));
        }
        let place = self.places.take(tenant, 1);
        let place = place.ok_or(ProposeError::Overloaded { limit: WAITING })?;
        let room = self.room.take(tenant, bytes as u64);
        let room = room.ok_or(ProposeError::OverloadedBytes {
            limit_bytes: WAITING_BYTES,
        })?;
        Ok((bytes, [place, room]))
    }

    /// Returns when this node's state contains everything acknowledged before the call. Returns the
    /// leader's cluster clock at a moment during the call.
    pub(crate) async fn read(&self, deadline: Instant) -> Result<ClusterMs, ProposeError> {
        let ReadPoint { index, cluster_ms } =
            match timeout_at(deadline, read::point(&self.node, deadline)).await {
                Ok(point) => point?,
                Err(_) => return Err(not_in_time(&self.node)),
            };
        let Some(replica) = self.node.replica() else {
            return Err(ProposeError::no_leader());
        };
        let applied = &replica.applied.index;
        let reached = timeout_at(deadline, applied.wait_for(|at| at >= index)).await;
        reached
            .map(|_| cluster_ms)
            .map_err(|_| ProposeError::NoQuorum {
                detail: format!("this node has not applied entry {index} within the deadline"),
            })
    }
}

impl Drop for ProposalBatcher {
    fn drop(&mut self) {
        self.inbox.close();
    }
}

/// Counts one proposal until it is dropped.
struct PendingCount(Arc<AtomicUsize>);

impl PendingCount {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        // A proposal is counted before `leaving` is read, and `drain` sets `leaving` before it
        // reads the count. With weaker orderings, both could miss the other's write.
        counter.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counter))
    }
}

impl Drop for PendingCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
