//! openraft's network over the peers' transport: one client per peer and purpose.
//!
//! openraft's limits (`RPCOption`) apply to heartbeats and votes, and openraft itself aborts these
//! at the hard limit. It aborts neither an append with entries nor a snapshot; these continue for
//! as long as their bytes make progress.
//!
//! - one peer's client: [`client`]
//! - entries and heartbeats, and the number in flight: [`appends`]
//! - snapshots: [`snapshots`]
//!
//! Pre-vote and leader transfer are implemented here, because openraft's defaults silently do
//! nothing.

mod appends;
mod client;
mod snapshot_stream;
mod snapshots;

use std::future::Future;
use std::time::Duration;

use futures_util::Stream;
use openraft::OptionalSend;
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{
    Backoff, RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2, stream_append_sequential,
};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult,
    TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use seqd_net::Lock;
use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::Link;
use seqd_state::codec;

pub(crate) use self::client::Network;
use self::client::{PeerClient, ballot_answer};
use crate::batch::Batch;
use crate::messages::{TransferReply, TransferRequest};
use crate::records::{Restore, ToRecord};
use crate::storage::applied::{Snapshot, SnapshotHandle};
use crate::types::{Member, TypeConfig, Vote};

/// Pause before an unreachable peer is tried again: at most half a heartbeat, so that a restarted
/// node is reached at once.
const RETRY_EVERY: Duration = Duration::from_millis(50);

impl Network {
    fn client(&self, target: u64, node: &Member, link: Link) -> PeerClient {
        PeerClient {
            network: self.clone(),
            target,
            addr: Lock::new(node.peer.as_str().into()),
            link,
            batch: Batch::new(),
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
        // A pre-vote stores nothing, so nothing is recorded.
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

/// A message of the largest allowed size is within the codec's own limit.
const _: () = assert!(seqd_peers::wire::transport::MESSAGE_BYTES <= codec::LIMIT_BYTES);
