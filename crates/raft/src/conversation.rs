//! Messages between nodes that have introduced themselves: sealed, sent, opened and checked.
//!
//! Invariants:
//! - A message is sent in an envelope with the boot number and nonce of this start.
//! - A message is accepted only from this cluster and only for this node. Its sender must not be a
//!   removed member, and the sender's start must have been introduced and be the latest one seen.

use std::io;

use bytes::Bytes;
use seqd_guards::is_out;
use seqd_peers::starts::StartRefusal;
use seqd_peers::wire::envelope::Envelope;
use seqd_peers::wire::route::Route;
use seqd_peers::wire::sealed::{self, Sealed};
use seqd_peers::wire::transport::{CallError, Limit, Link, Payload, Rejection, RejectionCode};
use seqd_state::codec::Versioned;

use crate::context::NodeContext;
use crate::handshake::introduce::introduce;
use crate::peer_stops;

/// Checks the envelope of an incoming message.
pub(crate) fn accept(context: &NodeContext, envelope: &Envelope) -> Result<(), Rejection> {
    if context.is_stopped() {
        let why = "this node is stopping";
        return Err(Rejection::new(RejectionCode::NotRunning, why));
    }
    check(context, envelope)
}

/// Like [`accept`], for an answer. A node that was removed still takes the outcomes of the groups
/// that it forwarded before: they are committed, and its callers wait for them.
fn accept_answer(context: &NodeContext, link: Link, envelope: &Envelope) -> Result<(), Rejection> {
    if link == Link::Forward && context.is_removed_itself() {
        return check(context, envelope);
    }
    accept(context, envelope)
}

fn check(context: &NodeContext, envelope: &Envelope) -> Result<(), Rejection> {
    let refuse = |code, detail: String| Err(Rejection::new(code, detail));
    let Some(own) = context.envelope(envelope.from) else {
        context.other_cluster.addressed(&envelope.cluster_id);
        return refuse(
            RejectionCode::NotRunning,
            "this node has no identity yet".into(),
        );
    };
    if envelope.cluster_id != own.cluster_id && !is_out!(EnvelopeCluster) {
        let ancestor =
            |own: &seqd_store::folder::Identity| own.ancestors.contains(&envelope.cluster_id);
        if context.with_identity(ancestor) == Some(true) {
            return refuse(RejectionCode::Superseded, own.cluster_id);
        }
        let detail = format!("this node belongs to cluster {}", own.cluster_id);
        return refuse(RejectionCode::WrongCluster, detail);
    }
    if envelope.to != own.from && !is_out!(EnvelopeTarget) {
        let detail = format!("this is node {}, not {}", own.from, envelope.to);
        return refuse(RejectionCode::WrongTarget, detail);
    }
    if context.is_removed(envelope.from) {
        let detail = format!("node {} was removed from the cluster", envelope.from);
        return refuse(RejectionCode::Removed, detail);
    }
    match context.peers.check(envelope.from, envelope.start) {
        Ok(()) => Ok(()),
        Err(_) if is_out!(EnvelopeStart) => Ok(()),
        Err(StartRefusal::Stale(stale)) => refuse(RejectionCode::StaleBoot, stale.to_string()),
        Err(StartRefusal::Unintroduced) => {
            refuse(RejectionCode::Unintroduced, "send a hello first".to_owned())
        }
    }
}

/// Sends a message to a node and reads its answer. Both envelopes are checked.
pub(crate) async fn call<M, R>(
    context: &NodeContext,
    link: Link,
    to: (u64, &str),
    route: Route,
    message: M,
    limit: impl Into<Limit>,
) -> Result<R, CallError>
where
    M: Versioned,
    R: Versioned,
{
    let sealed = call_sealed(context, link, to, route, message, limit).await?;
    Ok(sealed.message)
}

/// Like `call`, and also returns the envelope of the answer. If the peer has no record of this
/// start, sends it a hello and then the message again.
pub(crate) async fn call_sealed<M, R>(
    context: &NodeContext,
    link: Link,
    (to, addr): (u64, &str),
    route: Route,
    message: M,
    limit: impl Into<Limit>,
) -> Result<Sealed<R>, CallError>
where
    M: Versioned,
    R: Versioned,
{
    let Some(envelope) = context.envelope(to) else {
        return Err(CallError::Unsent(
            "this node has no identity yet".to_owned(),
        ));
    };
    let body = sealed::seal(&envelope, &message, context.level())
        .map_err(|e| CallError::Unwritable(e.to_string()))?;
    let (body, limit) = (Bytes::from(body), limit.into());
    let post = || {
        let payload = Payload::Bytes(body.clone());
        context.transport.post(link, addr, route, payload, limit)
    };
    match open(context, (link, to, addr), post().await).await {
        Err(CallError::Rejected(refused))
            if refused.code == RejectionCode::Unintroduced
                && introduce(context, to, addr).await =>
        {
            open(context, (link, to, addr), post().await).await
        }
        answer => answer,
    }
}

/// Opens an answer, and acts on a rejection.
pub(crate) async fn open<R: Versioned>(
    context: &NodeContext,
    (link, to, addr): (Link, u64, &str),
    answer: Result<Bytes, CallError>,
) -> Result<Sealed<R>, CallError> {
    let bytes = match answer {
        Ok(bytes) => bytes,
        Err(error) => {
            match &error {
                CallError::Refused => context.record_refused(to),
                CallError::Rejected(rejection) => stop_if_refused(context, rejection),
                CallError::Unsent(_)
                | CallError::Unwritable(_)
                | CallError::NoAnswer
                | CallError::Broken(_) => {}
            }
            return Err(error);
        }
    };
    let broken = |e: io::Error| CallError::Broken(e.to_string());
    let (envelope, message) = sealed::unseal(&bytes).map_err(broken)?;
    if envelope.from != to && !is_out!(AnswerSender) {
        let detail = format!("node {} answered for {to}", envelope.from);
        return Err(CallError::Broken(detail));
    }
    // The peer accepted the message. If its reply is not accepted here, the outcome is unknown.
    let mut accepted = accept_answer(context, link, &envelope);
    if accepted
        .as_ref()
        .is_err_and(|refused| refused.code == RejectionCode::Unintroduced)
        && introduce(context, to, addr).await
    {
        accepted = accept_answer(context, link, &envelope);
    }
    accepted.map_err(|e| CallError::Broken(e.to_string()))?;
    context.record_answer(to, None);
    let message = sealed::decode(message).map_err(broken)?;
    Ok(Sealed { envelope, message })
}

/// Stops this node if the rejection requires it.
fn stop_if_refused(context: &NodeContext, rejection: &Rejection) {
    let name = &context.settings.name;
    match rejection.code {
        RejectionCode::Removed => context.stop(peer_stops::removed(name)),
        RejectionCode::StaleBoot => context.stop(peer_stops::stale(name, &rejection.detail)),
        RejectionCode::Superseded => context.stop(peer_stops::superseded(&rejection.detail)),
        _ => {}
    }
}
