//! The shared parts of all handlers: the node, and the opening and sealing of envelopes.

use std::future::Future;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use seqd_peers::wire::envelope::Envelope;
use seqd_peers::wire::incoming::{Body, Collected};
use seqd_peers::wire::sealed;
use seqd_peers::wire::transport::{MESSAGE_BYTES, Rejection, RejectionCode};
use seqd_state::codec::Versioned;
use seqd_store::disk_errors::is_newer;
use tokio::sync::Semaphore;

use crate::conversation;
use crate::draws::Draws;
use crate::messages;
use crate::node::Node;
use crate::peer_stops;
use crate::proposer::ProposalBatcher;
use crate::replica::Replica;

/// The state that handlers use.
pub(crate) struct Service {
    pub(super) node: Arc<Node>,
    pub(super) batcher: Arc<ProposalBatcher>,
    pub(super) draws: Arc<Draws>,
    /// Admits one hello at a time for which the leader is queried.
    pub(super) confirms: Semaphore,
}

impl Service {
    pub(crate) fn new(node: Arc<Node>, batcher: Arc<ProposalBatcher>, draws: Arc<Draws>) -> Self {
        Self {
            node,
            batcher,
            draws,
            confirms: Semaphore::new(1),
        }
    }

    /// The rejection of an unreadable message. A node that cannot read a message which every
    /// replica must accept can never catch up. It therefore stops, instead of appearing
    /// unreachable.
    pub(super) fn unread<M: Versioned>(&self, error: &io::Error) -> Rejection {
        if messages::replicates::<M>() && is_newer(error) {
            let stop =
                peer_stops::unreadable(self.node.context.settings.levels, &error.to_string());
            self.node.context.stop(stop);
        }
        unreadable(error)
    }
}

/// The rejection of bytes that are not a message, or that a newer program wrote.
pub(super) fn unreadable(error: &io::Error) -> Rejection {
    let code = if is_newer(error) {
        RejectionCode::NewerFormat
    } else {
        RejectionCode::Malformed
    };
    Rejection::new(code, error.to_string())
}

pub(super) fn malformed(error: impl std::fmt::Display) -> Rejection {
    Rejection::new(RejectionCode::Malformed, error.to_string())
}

pub(super) fn not_running(error: impl std::fmt::Display) -> Rejection {
    Rejection::new(RejectionCode::NotRunning, error.to_string())
}

/// A sealed message whose envelope was accepted.
pub(super) struct AcceptedMessage {
    envelope: Envelope,
    body: Collected,
    /// The offset of the message.
    start: usize,
}

/// Checks the envelope, which begins at byte `at` and must be within the first bytes that arrive.
/// Returns it and the offset of the message after it.
pub(super) async fn admitted(
    service: &Service,
    body: &mut Body,
    at: usize,
) -> Result<(Envelope, usize), Rejection> {
    let first = body.first().await?;
    let sealed = first.get(at..).unwrap_or_default();
    let (envelope, message) = sealed::unseal(sealed).map_err(|e| unreadable(&e))?;
    let start = first.len() - message.len();
    let context = &service.node.context;
    conversation::accept(context, &envelope)?;
    let from = envelope.from;
    let checked = body.sender().check_id(from, || context.name_of(from));
    checked.inspect_err(warn_of_certificate)?;
    body.admit_sender()?;
    Ok((envelope, start))
}

/// Logs a certificate that does not match its node, because only an operator can correct this.
pub(super) fn warn_of_certificate(rejection: &Rejection) {
    if rejection.code == RejectionCode::WrongCertificate {
        tracing::warn!("a peer is refused: {}", rejection.detail);
    }
}

/// Receives a message after its envelope.
pub(super) async fn opened(
    service: &Service,
    mut body: Body,
) -> Result<AcceptedMessage, Rejection> {
    let (envelope, start) = admitted(service, &mut body, 0).await?;
    let body = body.collect(MESSAGE_BYTES).await?;
    Ok(AcceptedMessage {
        envelope,
        body,
        start,
    })
}

/// Reads a message, processes it with `answer`, and seals the reply.
pub(super) async fn sealed<M, R, F>(
    service: &Service,
    opened: AcceptedMessage,
    answer: impl FnOnce(Envelope, M) -> F,
) -> Result<Bytes, Rejection>
where
    M: Versioned,
    R: Versioned,
    F: Future<Output = Result<R, Rejection>>,
{
    let AcceptedMessage {
        envelope,
        body,
        start,
    } = opened;
    let message = sealed::decode(&body.bytes[start..]).map_err(|e| service.unread::<M>(&e))?;
    drop(body);
    let from = envelope.from;
    let reply = answer(envelope, message).await?;
    seal(service, from, reply)
}

pub(super) fn seal<R: Versioned>(
    service: &Service,
    to: u64,
    message: R,
) -> Result<Bytes, Rejection> {
    let context = &service.node.context;
    let envelope = context
        .envelope(to)
        .ok_or_else(|| not_running("this node has no identity yet"))?;
    sealed::seal(&envelope, &message, context.level())
        .map(Bytes::from)
        .map_err(malformed)
}

pub(super) fn replica(service: &Service) -> Result<&Arc<Replica>, Rejection> {
    service
        .node
        .replica()
        .ok_or_else(|| not_running("this node's Raft is not running yet"))
}

pub(super) fn open<M: Versioned>(body: &[u8]) -> Result<M, Rejection> {
    sealed::decode(body).map_err(|e| unreadable(&e))
}

pub(super) fn answer_open<R: Versioned>(reply: R) -> Result<Bytes, Rejection> {
    sealed::encode(&reply).map(Bytes::from).map_err(malformed)
}
