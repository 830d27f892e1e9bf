//! Linearizable reads: the index that a node must have applied before it answers.

use openraft::ReadPolicy;
use seqd_guards::is_out;
use seqd_peers::wire;
use seqd_peers::wire::transport::Link;
use tokio::time::Instant;

use super::route::{RETRY, Route, route, time_left};
use crate::conversation;
use crate::handle::ProposeError;
use crate::messages::{ForwardRefusal, ReadIndex, ReadIndexReply, ReadPoint};
use crate::node::Node;

/// The index that a linearizable read must have applied, and the cluster time, if this node leads.
pub(super) async fn point_here(node: &Node) -> Result<ReadPoint, ForwardRefusal> {
    let replica = node.replica().ok_or(ForwardRefusal::NotLeader)?;
    if is_out!(ReadConfirmed) {
        let leading = replica.leading();
        return Ok(ReadPoint {
            index: replica.applied_index(),
            cluster_ms: leading.map_or_else(Default::default, |leading| leading.cluster_ms()),
        });
    }
    let read = replica
        .raft
        .ensure_linearizable(ReadPolicy::ReadIndex)
        .await;
    match (read, replica.leading()) {
        (Ok(id), Some(leading)) => Ok(ReadPoint {
            index: id.log_id().index(),
            cluster_ms: leading.cluster_ms(),
        }),
        _ => Err(ForwardRefusal::NotLeader),
    }
}

/// Returns the read point from the current leader, which may be this node.
pub(super) async fn point(node: &Node, deadline: Instant) -> Result<ReadPoint, ProposeError> {
    let context = &node.context;
    loop {
        match route(node, deadline, false).await {
            Route::Here(_) => {
                if let Ok(point) = point_here(node).await {
                    return Ok(point);
                }
            }
            Route::There { node: leader, addr } => {
                let (left, timeout_ms) = time_left(deadline);
                let ask = ReadIndex { timeout_ms };
                let to = (leader, addr.as_str());
                let (link, route) = (Link::Control, wire::route::Route::ReadIndex);
                let asked = conversation::call(context, link, to, route, ask, left).await;
                if let Ok(ReadIndexReply(Ok(point))) = asked {
                    return Ok(point);
                }
            }
            Route::NotLeader => {}
            Route::Nowhere(error) => return Err(error),
        }
        tokio::time::sleep(RETRY).await;
    }
}
