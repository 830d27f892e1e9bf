//! Requests between members other than Raft's own (proposals, reads, changes of membership, pings),
//! and the handshake of a node that is not a member yet.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seqd_guards::is_out;
use seqd_peers::wire::hello::{AskStart, Hello, HelloVerdict, OwnStart, Standing};
use seqd_peers::wire::incoming::Sender;
use seqd_peers::wire::transport::Rejection;
use tokio::time::{Instant, timeout_at};

use super::service::{
    AcceptedMessage, Service, answer_open, not_running, open, replica, sealed, warn_of_certificate,
};
use crate::blocking;
use crate::bootstrap::take;
use crate::context::NodeContext;
use crate::handshake::hello::HELLO_LIMIT;
use crate::handshake::introduce;
use crate::membership;
use crate::messages::{
    ChangeRequest, DrawRequest, Facts, Forward, Ping, Promise, ReadIndex, ReadIndexReply, Stopping,
    Watch,
};
use crate::proposer::read;
use crate::tasks::ping as pings;

/// Longest time for which a watching peer waits for an answer. It then sends another request.
const WATCH: Duration = Duration::from_secs(30);

pub(super) async fn forward(service: &Service, body: AcceptedMessage) -> Result<Bytes, Rejection> {
    sealed(service, body, |_, message: Forward| async move {
        Ok(service.batcher.forwarded(message).await)
    })
    .await
}

pub(super) async fn draw(service: &Service, body: AcceptedMessage) -> Result<Bytes, Rejection> {
    sealed(service, body, |envelope, message: DrawRequest| async move {
        Ok(service.draws.forwarded(envelope.from, message).await)
    })
    .await
}

/// Answers a leader that confirms its leadership, without openraft and without the disk.
pub(super) async fn promise(service: &Service, body: AcceptedMessage) -> Result<Bytes, Rejection> {
    sealed(service, body, |_, _: Promise| async move {
        let term = replica(service)?.promised.term();
        Ok(Promise { term })
    })
    .await
}

pub(super) async fn read_index(
    service: &Service,
    body: AcceptedMessage,
) -> Result<Bytes, Rejection> {
    sealed(service, body, |envelope, message: ReadIndex| async move {
        let limit = Duration::from_millis(message.timeout_ms);
        let sender = Some((envelope.from, message.promised.term));
        let point = tokio::time::timeout(limit, read::point_here(&service.node, sender)).await;
        let point = point.map_err(|_| not_running("no quorum responded in time"))?;
        Ok(ReadIndexReply(point))
    })
    .await
}

pub(super) async fn change_members(
    service: &Service,
    body: AcceptedMessage,
) -> Result<Bytes, Rejection> {
    sealed(service, body, |_, message: ChangeRequest| async move {
        let (node, batcher) = (&service.node, &service.batcher);
        Ok(membership::carry_out_here(node, batcher, message).await)
    })
    .await
}

pub(super) async fn ping(service: &Service, body: AcceptedMessage) -> Result<Bytes, Rejection> {
    sealed(service, body, |envelope, message: Ping| async move {
        let context = &service.node.context;
        context.diagnosis.received(envelope.from);
        pings::take_ping(context, envelope.from, message);
        let replica = service.node.replica();
        Ok(replica.map_or_else(
            || context.own_ping(0, 0),
            |replica| replica.own_ping(context),
        ))
    })
    .await
}

/// Answers with this node's facts.
pub(super) async fn facts(service: &Service, body: AcceptedMessage) -> Result<Bytes, Rejection> {
    sealed(service, body, |_, _: Facts| async move {
        let context = Arc::clone(&service.node.context);
        let read = move || {
            let source = context.diagnosis.facts.get();
            let source = source.ok_or_else(|| io::Error::other("this node is starting"))?;
            Ok(source())
        };
        let json = blocking::run(read).await.map_err(not_running)?;
        Ok(Facts { json })
    })
    .await
}

pub(super) async fn stopping(service: &Service, body: AcceptedMessage) -> Result<Bytes, Rejection> {
    sealed(service, body, |envelope, message: Stopping| async move {
        let context = &service.node.context;
        context.record_stopping(envelope.from, envelope.start, message);
        Ok(context.stopping())
    })
    .await
}

/// Answers when this node stops, or after a time limit. A follower whose request breaks off can
/// conclude at once that this process has ended.
pub(super) async fn watch(service: &Service, body: AcceptedMessage) -> Result<Bytes, Rejection> {
    sealed(service, body, |_, _: Watch| async move {
        let stopped = Arc::clone(service.node.context.stopped());
        let _ = tokio::time::timeout(WATCH, stopped.wait_for(|stopped| stopped)).await;
        Ok(Watch)
    })
    .await
}

pub(super) async fn hello(
    service: &Service,
    sender: &Sender,
    body: &[u8],
) -> Result<Bytes, Rejection> {
    let hello: Hello = open(body)?;
    let context = &service.node.context;
    check_sender(context, sender, &hello).inspect_err(warn_of_certificate)?;
    let confirmed = confirm_members(service, &hello).await;
    let reply = introduce::answer_hello(context, &hello);
    let mut reply = reply.ok_or_else(|| not_running("this node is opening its log"))?;
    if let (Some(theirs), HelloVerdict::Welcome, true) =
        (&hello.identity, &reply.verdict, sender.is_certified())
    {
        context.learn_name(theirs.node, &hello.name);
    }
    if let Standing::Member { leader, .. } = &mut reply.standing
        && !confirmed
    {
        *leader = None;
    }
    answer_open(reply)
}

/// Refuses a hello whose name is not that of the certificate, or whose ID belongs to another node.
fn check_sender(context: &NodeContext, sender: &Sender, hello: &Hello) -> Result<(), Rejection> {
    sender.check_name(&hello.name)?;
    let node = hello.identity.as_ref().map(|theirs| theirs.node);
    let Some(named) = node.and_then(|node| context.name_of(node)) else {
        return Ok(());
    };
    sender.check_name(&named)
}

/// Returns whether this node's list of members is certain for this hello. An empty node under the
/// name of a member is refused permanently, so this node first catches up with the leader, in order
/// to have applied every removal. Returns `false` if no leader answers in half of the time that a
/// hello may take.
///
/// Only one such hello reads at a time, so that unknown nodes cause at most one read at once. A
/// hello needs no membership.
async fn confirm_members(service: &Service, hello: &Hello) -> bool {
    let Some(view) = service.node.context.view() else {
        return false;
    };
    let is_listed = view.members().values().any(|it| it.name == hello.name);
    if hello.identity.is_some() || !is_listed || is_out!(MembersConfirmed) {
        return true;
    }
    let deadline = Instant::now() + HELLO_LIMIT / 2;
    let Ok(Ok(_turn)) = timeout_at(deadline, service.confirms.acquire()).await else {
        return false;
    };
    service.batcher.read(deadline).await.is_ok()
}

pub(super) async fn prepare(service: &Service, body: &[u8]) -> Result<Bytes, Rejection> {
    answer_open(take::take_prepare(&service.node.context, open(body)?).await)
}

pub(super) async fn adopt(service: &Service, body: &[u8]) -> Result<Bytes, Rejection> {
    answer_open(take::take_adopt(&service.node.context, open(body)?).await)
}

/// Answers with the start of this process, also while this node has no identity.
pub(super) fn start(service: &Service, body: &[u8]) -> Result<Bytes, Rejection> {
    let AskStart = open(body)?;
    let start = service.node.context.start;
    answer_open(OwnStart { start })
}
