//! The peers' port: every message that another node may send, checked and handed on.
//!
//! It listens from the first moment of a start, so that nodes which are not yet part of a cluster
//! can answer each other's hellos.

mod snapshot;

use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest,
    VoteRequest,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bootstrap::take;
use crate::conversation;
use crate::handle::Phase;
use crate::handshake::introduce;
use crate::membership;
use crate::node::Node;
use crate::peers::table::Shown;
use crate::proposer::ProposalBatcher;
use crate::records;
use crate::replica::Replica;
use crate::tasks::ping;
use crate::types::{TypeConfig, Vote};
use crate::wire::acceptor::Bounded;
use crate::wire::messages::{
    AppendReply, AppendRequest, BallotReply, BallotRequest, ChangeReply, ChangeRequest, Envelope,
    Forward, Open, Ping, ReadIndex, Sealed, TransferReply, TransferRequest,
};
use crate::wire::paths;
use crate::wire::transport::{MESSAGE_BYTES, Rejection, RejectionCode};

/// Connections at once: 64 members with three links of a few connections each.
const CONNECTIONS: usize = 1024;

/// The longest time that a watching peer is kept waiting before it asks again.
const WATCH: Duration = Duration::from_secs(30);

/// What handlers work with.
pub(crate) struct Service {
    node: Arc<Node>,
    batcher: Arc<ProposalBatcher>,
    /// One snapshot is received at a time: two would only take each other's place.
    receiving: tokio::sync::Semaphore,
}

impl Service {
    pub(crate) fn new(node: Arc<Node>, batcher: Arc<ProposalBatcher>) -> Self {
        let receiving = tokio::sync::Semaphore::new(1);
        Self {
            node,
            batcher,
            receiving,
        }
    }
}

type Shared = Arc<Service>;

/// Serves the peers' port until `until` is over.
pub(crate) fn serve(
    listener: TcpListener,
    service: Shared,
    until: impl Future<Output = ()> + Send + 'static,
) -> io::Result<tokio::task::JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let listener = Bounded::new(tokio::net::TcpListener::from_std(listener)?, CONNECTIONS);
    let router = Router::new()
        .route(paths::APPEND, post(append))
        .route(paths::VOTE, post(vote))
        .route(paths::PRE_VOTE, post(pre_vote))
        .route(paths::TRANSFER, post(transfer))
        .route(paths::FORWARD, post(forward))
        .route(paths::READ_INDEX, post(read_index))
        .route(paths::MEMBERS, post(change_members))
        .route(paths::PING, post(ping))
        .route(paths::WATCH, post(watch))
        .route(paths::HELLO, post(hello))
        .route(paths::PREPARE, post(prepare))
        .route(paths::ADOPT, post(adopt))
        .layer(DefaultBodyLimit::max(MESSAGE_BYTES))
        .route(paths::SNAPSHOT, post(snapshot::receive))
        .with_state(service);
    Ok(tokio::spawn(async move {
        // Connections of peers never end by themselves: the task is dropped with them at the end.
        let serving = async { axum::serve(listener, router).await };
        tokio::select! { _ = serving => {}, () = until => {} }
    }))
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let status = match self.code {
            RejectionCode::Malformed => StatusCode::BAD_REQUEST,
            RejectionCode::WrongCluster | RejectionCode::WrongTarget => {
                StatusCode::MISDIRECTED_REQUEST
            }
            RejectionCode::StaleBoot | RejectionCode::Superseded | RejectionCode::Removed => {
                StatusCode::FORBIDDEN
            }
            RejectionCode::Unintroduced => StatusCode::PRECONDITION_REQUIRED,
            RejectionCode::NotRunning => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, self.to_string()).into_response()
    }
}

fn malformed(error: impl std::fmt::Display) -> Rejection {
    Rejection::new(RejectionCode::Malformed, error.to_string())
}

fn not_running(error: impl std::fmt::Display) -> Rejection {
    Rejection::new(RejectionCode::NotRunning, error.to_string())
}

/// Opens a sealed message, answers it with `answer`, and seals that.
async fn sealed<M, R, F>(
    service: &Service,
    body: &[u8],
    answer: impl FnOnce(Envelope, M) -> F,
) -> Result<Bytes, Rejection>
where
    M: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
    F: Future<Output = Result<R, Rejection>>,
{
    let Sealed { envelope, message }: Sealed<M> = records::decode(body).map_err(malformed)?;
    conversation::accept(&service.node.context, &envelope)?;
    let from = envelope.from;
    let reply = answer(envelope, message).await?;
    seal(service, from, reply)
}

fn seal<R: Serialize + DeserializeOwned>(
    service: &Service,
    to: u64,
    message: R,
) -> Result<Bytes, Rejection> {
    let envelope = service
        .node
        .context
        .envelope(to)
        .ok_or_else(|| not_running("this node has no identity yet"))?;
    records::encode(&Sealed { envelope, message })
        .map(Bytes::from)
        .map_err(malformed)
}

fn replica(service: &Service) -> Result<&Arc<Replica>, Rejection> {
    service
        .node
        .replica()
        .ok_or_else(|| not_running("this node's Raft does not run yet"))
}

async fn append(State(service): State<Shared>, body: Bytes) -> Result<Bytes, Rejection> {
    let service = &*service;
    sealed(
        service,
        &body,
        |envelope, message: AppendRequest| async move {
            let context = &service.node.context;
            if let Some(synced) = message.synced {
                let vote: Vote = message.vote.into();
                let shown = Shown::new(Some(&vote), Some(&synced.into()));
                context.peers.record(envelope.from, envelope.start, shown);
            }
            context.peers.merge(envelope.to, message.acknowledged);
            let replica = replica(service)?;
            let entries: Result<Vec<_>, _> = message
                .entries
                .into_iter()
                .map(records::EntryRecord::restore)
                .collect();
            let request = AppendEntriesRequest::<TypeConfig> {
                vote: message.vote.into(),
                prev_log_id: message.prev.map(Into::into),
                entries: entries.map_err(malformed)?,
                leader_commit: message.commit.map(Into::into),
            };
            let reply = replica
                .raft
                .append_entries(request)
                .await
                .map_err(not_running)?;
            if !matches!(reply, AppendEntriesResponse::HigherVote(_)) {
                replica.hear_leader();
            }
            Ok(match reply {
                AppendEntriesResponse::Success => AppendReply::Success,
                AppendEntriesResponse::PartialSuccess(id) => {
                    AppendReply::Partial(id.as_ref().map(Into::into))
                }
                AppendEntriesResponse::Conflict => AppendReply::Conflict,
                AppendEntriesResponse::HigherVote(vote) => AppendReply::HigherVote((&vote).into()),
            })
        },
    )
    .await
}

fn ballot(message: BallotRequest) -> VoteRequest<TypeConfig> {
    VoteRequest {
        vote: message.vote.into(),
        last_log_id: message.last.map(Into::into),
        leadership_transfer: message.leadership_transfer,
    }
}

fn ballot_reply(reply: &openraft::raft::VoteResponse<TypeConfig>) -> BallotReply {
    BallotReply {
        vote: (&reply.vote).into(),
        granted: reply.vote_granted,
        last: reply.last_log_id.as_ref().map(Into::into),
    }
}

async fn vote(State(service): State<Shared>, body: Bytes) -> Result<Bytes, Rejection> {
    let service = &*service;
    sealed(service, &body, |_, message| async move {
        let raft = &replica(service)?.raft;
        Ok(ballot_reply(
            &raft.vote(ballot(message)).await.map_err(not_running)?,
        ))
    })
    .await
}

async fn pre_vote(State(service): State<Shared>, body: Bytes) -> Result<Bytes, Rejection> {
    let service = &*service;
    sealed(service, &body, |_, message| async move {
        let raft = &replica(service)?.raft;
        Ok(ballot_reply(
            &raft.pre_vote(ballot(message)).await.map_err(not_running)?,
        ))
    })
    .await
}

async fn transfer(State(service): State<Shared>, body: Bytes) -> Result<Bytes, Rejection> {
    let service = &*service;
    sealed(service, &body, |_, message: TransferRequest| async move {
        let raft = &replica(service)?.raft;
        let last = message.last.map(Into::into);
        let request = TransferLeaderRequest::new(message.from.into(), message.to, last);
        Ok(
            match raft
                .handle_transfer_leader(request)
                .await
                .map_err(not_running)?
            {
                Ok(()) => TransferReply::Accepted,
                Err(TransferLeaderError::VoteChanged { expected, actual }) => {
                    TransferReply::VoteChanged {
                        expected: (&expected).into(),
                        actual: (&actual).into(),
                    }
                }
                Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
                    TransferReply::LogNotFlushed {
                        expected: expected.as_ref().map(Into::into),
                        actual: actual.as_ref().map(Into::into),
                    }
                }
            },
        )
    })
    .await
}

async fn forward(State(service): State<Shared>, body: Bytes) -> Result<Bytes, Rejection> {
    let service = &*service;
    sealed(service, &body, |_, message: Forward| async move {
        Ok(service.batcher.forwarded(message).await)
    })
    .await
}

async fn read_index(State(service): State<Shared>, body: Bytes) -> Result<Bytes, Rejection> {
    let service = &*service;
    sealed(service, &body, |_, message: ReadIndex| async move {
        let limit = Duration::from_millis(message.timeout_ms);
        let read = tokio::time::timeout(limit, service.batcher.read_index_here()).await;
        read.map_err(|_| not_running("no quorum answered in time"))
    })
    .await
}

async fn change_members(State(service): State<Shared>, body: Bytes) -> Result<Bytes, Rejection> {
    let service = &service;
    sealed(service, &body, |_, message: ChangeRequest| async move {
        let (node, batcher) = (&service.node, &service.batcher);
        let reply: ChangeReply = membership::carry_out_here(node, batcher, message).await;
        Ok(reply)
    })
    .await
}

async fn ping(State(service): State<Shared>, body: Bytes) -> Result<Bytes, Rejection> {
    let service = &*service;
    sealed(service, &body, |envelope, message: Ping| async move {
        let context = &service.node.context;
        let applied = service
            .node
            .replica()
            .map_or(0, |replica| replica.applied_index());
        ping::hear_ping(context, envelope.from, message);
        Ok(ping::own_ping(context, applied))
    })
    .await
}

/// Answers only when this node stops for good or after a while: a follower whose request breaks off
/// knows at once that this process has ended.
async fn watch(State(service): State<Shared>, body: Bytes) -> Result<Bytes, Rejection> {
    let service = &*service;
    sealed(service, &body, |_, (): ()| async move {
        let mut phase = service.node.context.phase();
        let stopped = phase.wait_for(|phase| matches!(phase, Phase::Stopped(_)));
        let _ = tokio::time::timeout(WATCH, stopped).await;
        Ok(())
    })
    .await
}

fn open<M: Serialize + DeserializeOwned>(body: &[u8]) -> Result<M, Rejection> {
    records::decode::<Open<M>>(body)
        .map(|open| open.0)
        .map_err(malformed)
}

fn answer_open<R: Serialize + DeserializeOwned>(reply: R) -> Result<Bytes, Rejection> {
    records::encode(&Open(reply))
        .map(Bytes::from)
        .map_err(malformed)
}

async fn hello(State(service): State<Shared>, body: Bytes) -> Result<Bytes, Rejection> {
    let reply = introduce::answer_hello(&service.node.context, &open(&body)?);
    answer_open(reply.ok_or_else(|| not_running("this node opens its log"))?)
}

async fn prepare(State(service): State<Shared>, body: Bytes) -> Result<Bytes, Rejection> {
    answer_open(take::take_prepare(&service.node.context, open(&body)?).await)
}

async fn adopt(State(service): State<Shared>, body: Bytes) -> Result<Bytes, Rejection> {
    answer_open(take::take_adopt(&service.node.context, open(&body)?).await)
}
