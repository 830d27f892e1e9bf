//! openraft's network over the peers' transport: one client per peer and purpose.
//!
//! openraft's limits (`RPCOption`) are those of heartbeats and votes, which openraft ends at the hard
//! one by itself. It ends neither an append that carries entries nor a snapshot: these go on for as
//! long as their bytes move.
//!
//! - entries and heartbeats, and how many are under way: [`appends`]
//! - snapshots: [`snapshots`]
//!
//! Pre-vote and leader transfer are implemented; openraft's defaults would silently do nothing.

mod appends;
mod snapshot_stream;
mod snapshots;
pub(crate) mod transfers;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use openraft::OptionalSend;
use openraft::base::{BoxFuture, BoxStream};
use openraft::entry::RaftEntry;
use openraft::errors::{
    NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::{
    Backoff, RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2, stream_append_sequential,
};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult,
    TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use seqd_state::codec::{self, Versioned};

use self::transfers::Transfers;
use crate::batch::{Batch, Room};
use crate::context::NodeContext;
use crate::conversation;
use crate::records::{self, Restore, ToRecord};
use crate::storage::applied::{Snapshot, SnapshotHandle};
use crate::storage::checkpointer::Scrubber;
use crate::storage::synced::Synced;
use crate::types::{LogId, Member, TypeConfig, Vote};
use crate::wire::messages::{
    AppendReply, AppendRequest, BallotReply, BallotRequest, Envelope, TransferReply,
    TransferRequest,
};
use crate::wire::route::Route;
use crate::wire::sealed::Sealed;
use crate::wire::transport::{CallError, Limit, Link};

/// Pause before an unreachable peer is tried again: half a heartbeat at most, for a node that is
/// started again should be back at once.
const RETRY_EVERY: Duration = Duration::from_millis(50);

/// How long entries may go without a sign that the peer takes them, and without an answer once it has:
/// the connection is opened again then. Long enough for a slow sync.
const STALLED: Duration = Duration::from_secs(1);

pub(crate) struct Network {
    pub(crate) context: Arc<NodeContext>,
    /// What this node's own log has synced.
    pub(crate) synced: Arc<Synced>,
    pub(crate) scrubber: Scrubber,
    pub(crate) transfers: Transfers,
    /// For what is under way to all peers.
    pub(crate) room: Room,
}

impl Network {
    fn client(&self, target: u64, node: &Member, link: Link) -> PeerClient {
        let context = Arc::clone(&self.context);
        PeerClient {
            context,
            target,
            addr: node.peer.clone(),
            link,
            batch: Batch::new(),
            synced: Arc::clone(&self.synced),
            scrubber: self.scrubber.clone(),
            transfers: self.transfers.clone(),
            room: self.room.clone(),
        }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = PeerClient;

    async fn new_client(&mut self, target: u64, node: &Member) -> PeerClient {
        self.client(target, node, Link::Log)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Member) -> PeerClient {
        self.client(target, node, Link::Control)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Member) -> PeerClient {
        self.client(target, node, Link::Snapshots)
    }
}

type Appends<'s> = BoxStream<'s, Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>>;

pub(crate) struct PeerClient {
    context: Arc<NodeContext>,
    target: u64,
    addr: String,
    /// The link of its entries and snapshots; all else is control.
    link: Link,
    batch: Batch,
    synced: Arc<Synced>,
    scrubber: Scrubber,
    transfers: Transfers,
    room: Room,
}

impl PeerClient {
    async fn call<M, R>(
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
        let (timeout, limit) = match link {
            Link::Log => (
                STALLED,
                Limit::Progress {
                    moving: STALLED,
                    answer: STALLED,
                },
            ),
            _ => (option.hard_ttl(), Limit::Total(option.hard_ttl())),
        };
        let to = (self.target, self.addr.as_str());
        let answer =
            conversation::call_sealed(&self.context, link, to, route, message, limit).await;
        answer.map_err(|error| self.describe(&error, action, timeout))
    }

    /// A node whose disk hangs neither leads nor runs for leader: it sends nothing.
    fn may_send(&self) -> Result<(), RPCError<TypeConfig>> {
        if self.context.disk.is_silent() {
            let why = CallError::Unsent("this node's disk hangs".to_owned());
            return Err(RPCError::Unreachable(Unreachable::new(&why)));
        }
        Ok(())
    }

    /// Records what the target has acknowledged as synced.
    fn record<R>(&self, reply: &Sealed<R>, vote: &Vote, last: Option<LogId>) {
        let Envelope { from, start, .. } = reply.envelope;
        let synced = records::synced_position(Some(vote), last.as_ref());
        self.context.peers.record(from, start, synced);
    }

    fn describe(
        &self,
        error: &CallError,
        action: RPCTypes,
        limit: Duration,
    ) -> RPCError<TypeConfig> {
        match error {
            CallError::NoAnswer => RPCError::Timeout(Timeout {
                action,
                id: self.context.envelope(self.target).map_or(0, |own| own.from),
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

    /// Sends entries, or a message without any.
    async fn append(
        &self,
        mut rpc: AppendEntriesRequest<TypeConfig>,
        option: &RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.may_send()?;
        let fitting = self.batch.fitting(&rpc.entries);
        let is_cut = fitting < rpc.entries.len();
        rpc.entries.truncate(fitting);
        let _room = self.room.take(&rpc.entries).await;
        let acknowledged = match self.link {
            Link::Control => self.context.peers.rows().0,
            _ => Vec::new(),
        };
        let entries: io::Result<Vec<_>> = (rpc.entries.iter())
            .map(|entry| entry.record().record())
            .collect();
        let message = AppendRequest {
            vote: rpc.vote.record(),
            prev: rpc.prev_log_id.record(),
            entries: entries.map_err(|error| RPCError::Network(NetworkError::new(&error)))?,
            commit: rpc.leader_commit.record(),
            synced: self.synced.last_under(&rpc.vote),
            acknowledged,
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

    async fn ballot(
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

fn ballot_answer(reply: &BallotReply) -> VoteResponse<TypeConfig> {
    let vote = reply.vote.restore();
    VoteResponse::new(vote, reply.last.restore(), reply.granted)
}

impl RaftNetworkV2<TypeConfig> for PeerClient {
    type SnapshotData = SnapshotHandle;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        match self.link {
            Link::Control => appends::heartbeat(self, rpc, &option).await,
            _ => self.append(rpc, &option).await,
        }
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<Appends<'s>, RPCError<TypeConfig>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        if self.link == Link::Control {
            return stream_append_sequential(self, input, option);
        }
        let answers = appends::stream(self, input, option);
        Box::pin(async move { Ok(answers) })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let asked = rpc.vote;
        let reply = self.ballot(Route::Vote, rpc, &option).await?;
        let answer = ballot_answer(&reply.message);
        if answer.vote_granted && answer.vote == asked {
            self.record(&reply, &asked, None);
        }
        Ok(answer)
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        // Nothing is stored for a pre-vote, so nothing of it is recorded.
        let reply = self.ballot(Route::PreVote, rpc, &option).await?;
        Ok(ballot_answer(&reply.message))
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = self.send_snapshot(vote, snapshot, option.hard_ttl()) => {
                sent.map_err(|e| StreamingError::Unreachable(Unreachable::new(&e)))
            }
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        let message = TransferRequest {
            from: req.from_leader().record(),
            to: *req.to_node_id(),
            last: req.last_log_id().map(ToRecord::record),
        };
        let by = (Link::Control, Route::Transfer);
        let reply = self
            .call(by, message, &option, RPCTypes::TransferLeader)
            .await?;
        Ok(match reply.message {
            TransferReply::Accepted => Ok(()),
            TransferReply::VoteChanged { expected, actual } => {
                Err(TransferLeaderError::VoteChanged {
                    expected: expected.restore(),
                    actual: actual.restore(),
                })
            }
            TransferReply::LogNotFlushed { expected, actual } => {
                Err(TransferLeaderError::LogNotFlushed {
                    expected: expected.restore(),
                    actual: actual.restore(),
                })
            }
        })
    }

    fn backoff(&self) -> Option<Backoff> {
        Some(Backoff::new(std::iter::repeat(RETRY_EVERY)))
    }
}

/// Whether a message of this kind can be read at all: the codec's own limit stands above it.
const _: () = assert!(crate::wire::transport::MESSAGE_BYTES <= codec::LIMIT_BYTES);
