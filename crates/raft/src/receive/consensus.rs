//! Raft's own messages: entries, votes, a transfer of leadership.

use std::time::Duration;

use bytes::Bytes;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest,
    VoteRequest, VoteResponse,
};
use seqd_peers::wire::transport::Rejection;

use super::service::{AcceptedMessage, Service, not_running, replica, sealed};
use crate::messages::{
    AppendReply, AppendRequest, BallotReply, BallotRequest, TransferReply, TransferRequest,
};
use crate::records::{self, Restore, ToRecord};
use crate::replica::Replica;
use crate::types::{LogId, TypeConfig};

pub(super) async fn append(service: &Service, body: AcceptedMessage) -> Result<Bytes, Rejection> {
    sealed(
        service,
        body,
        |envelope, message: AppendRequest| async move {
            let context = &service.node.context;
            if let Some(synced) = message.synced {
                let vote = message.vote.restore();
                let synced = records::synced_position(Some(&vote), Some(&synced.restore()));
                context.peers.record(envelope.from, envelope.start, synced);
            }
            context.peers.merge(envelope.to, message.acknowledged);
            let replica = replica(service)?;
            let vote = message.vote.restore();
            let without_quorum_for = message.without_quorum_ms.map(Duration::from_millis);
            // Recorded before the append, so that it also counts while entries wait for a slow
            // disk.
            replica.heard_if_followed(&vote, without_quorum_for);
            if !message.entries.is_empty() && context.disk.space.is_at_floor() {
                let (free, _) = context.disk.space.bytes();
                return Err(not_running(format!(
                    "the disk of this node is full ({free} bytes free): it accepts no entries \
                     until there is room"
                )));
            }
            let entries: Result<Vec<_>, _> = message
                .entries
                .into_iter()
                .map(|entry| entry.restore()?.restore())
                .collect();
            let leader_commit: Option<LogId> = message.commit.restore();
            let request = AppendEntriesRequest::<TypeConfig> {
                vote,
                prev_log_id: message.prev.restore(),
                entries: entries.map_err(|e| service.unread::<AppendRequest>(&e))?,
                leader_commit,
            };
            let reply = replica
                .raft
                .append_entries(request)
                .await
                .map_err(not_running)?;
            if !matches!(reply, AppendEntriesResponse::HigherVote(_)) {
                replica.heard_if_followed(&vote, None);
                replica.note_commit(leader_commit.map_or(0, |id| id.index()));
            }
            Ok(match reply {
                AppendEntriesResponse::Success => AppendReply::Success,
                AppendEntriesResponse::PartialSuccess(id) => AppendReply::Partial(id.record()),
                AppendEntriesResponse::Conflict => AppendReply::Conflict,
                AppendEntriesResponse::HigherVote(vote) => AppendReply::HigherVote(vote.record()),
            })
        },
    )
    .await
}

fn ballot(message: BallotRequest) -> VoteRequest<TypeConfig> {
    VoteRequest {
        vote: message.vote.restore(),
        last_log_id: message.last.restore(),
        leadership_transfer: message.leadership_transfer,
    }
}

/// The answer to a candidate. A candidate that this node supports has the time of a vote to win.
fn given(service: &Service, replica: &Replica, reply: &VoteResponse<TypeConfig>) -> BallotReply {
    if reply.vote_granted {
        let (shortest, _) = service.node.context.settings.election;
        replica.contact.support(shortest);
    }
    BallotReply {
        vote: reply.vote.record(),
        granted: reply.vote_granted,
        last: reply.last_log_id.record(),
    }
}

pub(super) async fn vote(service: &Service, body: AcceptedMessage) -> Result<Bytes, Rejection> {
    sealed(service, body, |_, message| async move {
        let replica = replica(service)?;
        let reply = replica.raft.vote(ballot(message)).await;
        Ok(given(service, replica, &reply.map_err(not_running)?))
    })
    .await
}

/// A voter that follows a leader supports no other node, however long openraft's lease is.
pub(super) async fn pre_vote(service: &Service, body: AcceptedMessage) -> Result<Bytes, Rejection> {
    sealed(service, body, |envelope, message| async move {
        let replica = replica(service)?;
        if !replica.may_support_another().await {
            return Ok(BallotReply {
                vote: replica.current_vote().record(),
                granted: false,
                last: None,
            });
        }
        replica.end_lease_of_ended_leader(Some(envelope.from)).await;
        let reply = replica.raft.pre_vote(ballot(message)).await;
        Ok(given(service, replica, &reply.map_err(not_running)?))
    })
    .await
}

pub(super) async fn transfer(service: &Service, body: AcceptedMessage) -> Result<Bytes, Rejection> {
    sealed(service, body, |_, message: TransferRequest| async move {
        let raft = &replica(service)?.raft;
        let last = message.last.restore();
        let request = TransferLeaderRequest::new(message.from.restore(), message.to, last);
        let reply = raft.handle_transfer_leader(request).await;
        Ok(match reply.map_err(not_running)? {
            Ok(()) => TransferReply::Accepted,
            Err(TransferLeaderError::VoteChanged { expected, actual }) => {
                TransferReply::VoteChanged {
                    expected: expected.record(),
                    actual: actual.record(),
                }
            }
            Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
                TransferReply::LogNotFlushed {
                    expected: expected.record(),
                    actual: actual.record(),
                }
            }
        })
    })
    .await
}
