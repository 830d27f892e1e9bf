//! Linearizable reads: the index that a node must have applied before it answers.

use openraft::ReadPolicy;
use seqd_guards::is_out;
use tokio::time::Instant;

use super::route::{RETRY, Route, route, time_left};
use crate::conversation;
use crate::handle::ProposeError;
use crate::node::Node;
use crate::wire;
use crate::wire::messages::{ForwardRefusal, ReadIndex, ReadIndexReply};
use crate::wire::transport::Link;

/// The index that a linearizable read must have applied, if this node leads.
pub(super) async fn index_here(node: &Node) -> Result<u64, ForwardRefusal> {
    let replica = node.replica().ok_or(ForwardRefusal::NotLeader)?;
    if is_out!(ReadConfirmed) {
        return Ok(replica.applied_index());
    }
    let read = replica
        .raft
        .ensure_linearizable(ReadPolicy::ReadIndex)
        .await;
    match read {
        Ok(id) => Ok(id.log_id().index()),
        Err(_) => Err(ForwardRefusal::NotLeader),
    }
}

/// The same, from the leader, whichever node that is.
pub(super) async fn index(node: &Node, deadline: Instant) -> Result<u64, ProposeError> {
    let context = &node.context;
    loop {
        match route(node, deadline, false).await {
            Route::Here(_) => {
                if let Ok(index) = index_here(node).await {
                    return Ok(index);
                }
            }
            Route::There { node: leader, addr } => {
                let (left, timeout_ms) = time_left(deadline);
                let ask = ReadIndex { timeout_ms };
                let to = (leader, addr.as_str());
                let (link, route) = (Link::Control, wire::route::Route::ReadIndex);
                let asked = conversation::call(context, link, to, route, ask, left).await;
                if let Ok(ReadIndexReply(Ok(index))) = asked {
                    return Ok(index);
                }
            }
            Route::NotLeader => {}
            Route::Nowhere(error) => return Err(error),
        }
        tokio::time::sleep(RETRY).await;
    }
}
