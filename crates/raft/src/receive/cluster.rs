//! What members ask each other beside Raft: proposals, reads, changes of membership, pings; and the
//! handshake of a node that is no member yet.

use std::time::Duration;

use bytes::Bytes;

use super::service::{Opened, Service, answer_open, not_running, open, sealed};
use crate::bootstrap::take;
use crate::handle::Phase;
use crate::handshake::introduce;
use crate::membership;
use crate::tasks::ping as pings;
use crate::wire::messages::{ChangeRequest, Forward, Ping, ReadIndex, ReadIndexReply, Watch};
use crate::wire::transport::Rejection;

/// The longest time that a watching peer is kept waiting before it asks again.
const WATCH: Duration = Duration::from_secs(30);

pub(super) async fn forward(service: &Service, body: Opened) -> Result<Bytes, Rejection> {
    sealed(service, body, |_, message: Forward| async move {
        Ok(service.batcher.forwarded(message).await)
    })
    .await
}

pub(super) async fn read_index(service: &Service, body: Opened) -> Result<Bytes, Rejection> {
    sealed(service, body, |_, message: ReadIndex| async move {
        let limit = Duration::from_millis(message.timeout_ms);
        let read = tokio::time::timeout(limit, service.batcher.read_index_here()).await;
        let read = read.map_err(|_| not_running("no quorum answered in time"))?;
        Ok(ReadIndexReply(read))
    })
    .await
}

pub(super) async fn change_members(service: &Service, body: Opened) -> Result<Bytes, Rejection> {
    sealed(service, body, |_, message: ChangeRequest| async move {
        let (node, batcher) = (&service.node, &service.batcher);
        Ok(membership::carry_out_here(node, batcher, message).await)
    })
    .await
}

pub(super) async fn ping(service: &Service, body: Opened) -> Result<Bytes, Rejection> {
    sealed(service, body, |envelope, message: Ping| async move {
        let context = &service.node.context;
        let applied = service
            .node
            .replica()
            .map_or(0, |replica| replica.applied_index());
        pings::take_ping(context, envelope.from, message);
        Ok(context.own_ping(applied))
    })
    .await
}

/// Answers only when this node stops for good or after a while: a follower whose request breaks off
/// knows at once that this process has ended.
pub(super) async fn watch(service: &Service, body: Opened) -> Result<Bytes, Rejection> {
    sealed(service, body, |_, _: Watch| async move {
        let mut phase = service.node.context.phase();
        let stopped = phase.wait_for(|phase| matches!(phase, Phase::Stopped(_)));
        let _ = tokio::time::timeout(WATCH, stopped).await;
        Ok(Watch)
    })
    .await
}

pub(super) async fn hello(service: &Service, body: &[u8]) -> Result<Bytes, Rejection> {
    let reply = introduce::answer_hello(&service.node.context, &open(body)?);
    answer_open(reply.ok_or_else(|| not_running("this node opens its log"))?)
}

pub(super) async fn prepare(service: &Service, body: &[u8]) -> Result<Bytes, Rejection> {
    answer_open(take::take_prepare(&service.node.context, open(body)?).await)
}

pub(super) async fn adopt(service: &Service, body: &[u8]) -> Result<Bytes, Rejection> {
    answer_open(take::take_adopt(&service.node.context, open(body)?).await)
}
