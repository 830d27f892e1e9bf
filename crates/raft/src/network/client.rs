//! The client of one peer: sends entries, heartbeats and votes as messages, and returns the answers
//! as openraft's results.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::entry::RaftEntry;
use openraft::errors::{NetworkError, RPCError, Timeout, Unreachable};
use openraft::network::{RPCOption, RPCTypes};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use seqd_guards::is_out;
use seqd_net::Lock;
use seqd_peers::wire::envelope::Envelope;
use seqd_peers::wire::route::Route;
use seqd_peers::wire::sealed::Sealed;
use seqd_peers::wire::transport::{CallError, Limit, Link};
use seqd_state::codec::Versioned;

use crate::batch::{Batch, Room};
use crate::context::NodeContext;
use crate::conversation;
use crate::messages::{AppendReply, AppendRequest, BallotReply, BallotRequest};
use crate::records::{self, Restore, ToRecord};
use crate::storage::checkpointer::Scrubber;
use crate::storage::synced::Synced;
use crate::transfers::Transfers;
use crate::types::{LogId, TypeConfig, Vote};

/// Longest time without progress in the transfer of entries, and then without an answer, before the
/// connection is opened again. Long enough for a slow sync.
const STALLED: Duration = Duration::from_secs(1);

/// The parts that the clients of all peers share.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) context: Arc<NodeContext>,
    /// The position up to which this node's own log is synced.
    pub(crate) synced: Arc<Synced>,
    pub(crate) scrubber: Scrubber,
    pub(crate) transfers: Transfers,
    /// Shared by the messages in flight to all peers.
    pub(crate) room: Room,
    /// The highest commit index that this node has sent.
    pub(crate) committed: Arc<AtomicU64>,
}

pub(crate) struct PeerClient {
    pub(super) network: Network,
    pub(super) target: u64,
    /// The address of the target; looked up again after a failed call.
    pub(super) addr: Lock<Arc<str>>,
    /// The link for its entries and snapshots. All other messages use the control link.
    pub(super) link: Link,
    pub(super) batch: Batch,
}

impl PeerClient {
    pub(super) fn addr(&self) -> Arc<str> {
        Arc::clone(&self.addr.lock())
    }

    /// Updates the address from the membership in force, because it may have changed since openraft
    /// created this client.
    pub(super) fn look_up_addr(&self) {
        let view = self.network.context.view();
        let member = view.and_then(|view| view.member(self.target));
        let mut addr = self.addr.lock();
        if let Some(member) = member.filter(|member| *member.peer != **addr) {
            *addr = member.peer.into();
        }
    }

    pub(super) async fn call<M, R>(
        &self,
        (link, route): (Link, Route),
        message: M,
        option: &RPCOption,
        action: RPCTypes,
    ) -> Result<Sealed<R>, RPCError<TypeConfig>>
    where
        M: Versioned,
        R: Versioned,
    {
        let (moving, answer) = (STALLED, STALLED);
        let (timeout, limit) = match link {
            Link::Log => (STALLED, Limit::Progress { moving, answer }),
            _ => (option.hard_ttl(), Limit::Total(option.hard_ttl())),
        };
        let addr = self.addr();
        let to = (self.target, &*addr);
        let answer =
            conversation::call_sealed(&self.network.context, link, to, route, message, limit).await;
        answer.map_err(|error| self.describe(&error, action, timeout))
    }

    /// A node whose disk hangs neither leads nor runs for leader, so it sends nothing.
    pub(super) fn may_send(&self) -> Result<(), RPCError<TypeConfig>> {
        if self.network.context.disk.is_silent() {
            let why = CallError::Unsent("this node's disk hangs".to_owned());
            return Err(RPCError::Unreachable(Unreachable::new(&why)));
        }
        Ok(())
    }

    /// Records the position that the target has acknowledged as synced.
    pub(super) fn record<R>(&self, reply: &Sealed<R>, vote: &Vote, last: Option<LogId>) {
        let Envelope { from, start, .. } = reply.envelope;
        let synced = records::synced_position(Some(vote), last.as_ref());
        self.network.context.peers.record(from, start, synced);
    }

    fn describe(
        &self,
        error: &CallError,
        action: RPCTypes,
        limit: Duration,
    ) -> RPCError<TypeConfig> {
        self.look_up_addr();
        let own = self.network.context.with_identity(|own| own.node);
        match error {
            CallError::NoAnswer => RPCError::Timeout(Timeout {
                action,
                id: own.unwrap_or(0),
                target: self.target,
                timeout: limit,
            }),
            CallError::Broken(_) => RPCError::Network(NetworkError::new(error)),
            CallError::Refused
            | CallError::Unsent(_)
            | CallError::Unwritable(_)
            | CallError::Rejected(_) => RPCError::Unreachable(Unreachable::new(error)),
        }
    }

    fn without_quorum_ms(&self) -> Option<u64> {
        let silent = self.network.context.view()?.without_quorum_for()?;
        Some(u64::try_from(silent.as_millis()).unwrap_or(u64::MAX))
    }

    /// Sends entries, or a message without entries.
    pub(super) async fn append(
        &self,
        mut rpc: AppendEntriesRequest<TypeConfig>,
        option: &RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.may_send()?;
        let fitting = self.batch.fitting(&rpc.entries);
        let is_cut = fitting < rpc.entries.len();
        rpc.entries.truncate(fitting);
        let _room = self.network.room.take(&rpc.entries).await;
        let acknowledged = match self.link {
            Link::Control => self.network.context.peers.rows().0,
            _ => Vec::new(),
        };
        if let Some(commit) = rpc.leader_commit
            && !is_out!(CommitNoted)
        {
            // Recorded before the target can answer a read from these entries, so that a later read
            // includes them.
            self.network
                .committed
                .fetch_max(commit.index(), Ordering::SeqCst);
        }
        let entries = rpc.entries.iter().map(|entry| entry.record().record());
        let message = AppendRequest {
            vote: rpc.vote.record(),
            prev: rpc.prev_log_id.record(),
            entries: entries.collect(),
            commit: rpc.leader_commit.record(),
            synced: self.network.synced.last_under(&rpc.vote),
            acknowledged,
            without_quorum_ms: self.without_quorum_ms(),
        };
        let sent = rpc.entries.last().map(|entry| entry.log_id());
        let by = (self.link, Route::Append);
        let reply = self
            .call(by, message, option, RPCTypes::AppendEntries)
            .await;
        if !rpc.entries.is_empty() {
            match &reply {
                Ok(_) => self.batch.answered(),
                Err(RPCError::Timeout(_)) => self.batch.timed_out(),
                Err(_) => {}
            }
        }
        let reply = reply?;
        Ok(match reply.message {
            AppendReply::Success => {
                self.record(&reply, &rpc.vote, sent.max(rpc.prev_log_id));
                // openraft sends the rest next.
                if is_cut {
                    AppendEntriesResponse::PartialSuccess(sent)
                } else {
                    AppendEntriesResponse::Success
                }
            }
            AppendReply::Partial(id) => {
                let id = id.restore();
                self.record(&reply, &rpc.vote, id);
                AppendEntriesResponse::PartialSuccess(id)
            }
            AppendReply::Conflict => AppendEntriesResponse::Conflict,
            AppendReply::HigherVote(vote) => AppendEntriesResponse::HigherVote(vote.restore()),
        })
    }

    pub(super) async fn ballot(
        &self,
        route: Route,
        rpc: VoteRequest<TypeConfig>,
        option: &RPCOption,
    ) -> Result<Sealed<BallotReply>, RPCError<TypeConfig>> {
        self.may_send()?;
        let message = BallotRequest {
            vote: rpc.vote.record(),
            last: rpc.last_log_id.record(),
            leadership_transfer: rpc.leadership_transfer,
        };
        let by = (Link::Control, route);
        self.call(by, message, option, RPCTypes::Vote).await
    }
}

pub(super) fn ballot_answer(reply: &BallotReply) -> VoteResponse<TypeConfig> {
    let vote = reply.vote.restore();
    VoteResponse::new(vote, reply.last.restore(), reply.granted)
}
