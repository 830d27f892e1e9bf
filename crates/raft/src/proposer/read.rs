//! Linearizable reads: the index that a node must have applied before it answers.
//!
//! The leader takes the index and its time after the read has arrived, and then confirms its
//! leadership as for a draw. A later leader is therefore elected after the read began, and the index
//! includes every entry that was acknowledged before. A node that forwards a read sends its own
//! promise with it.

use seqd_guards::is_out;
use seqd_peers::wire;
use seqd_peers::wire::transport::Link;
use tokio::time::Instant;

use super::route::{RETRY, Route, given_up, replaced, route, time_left};
use crate::confirm::{FromSender, is_confirmed, own_promise};
use crate::conversation;
use crate::handle::ProposeError;
use crate::messages::{ForwardRefusal, ReadIndex, ReadIndexReply, ReadPoint};
use crate::node::Node;
use crate::replica::Replica;

/// The index that a linearizable read must have applied, and the cluster time, if this node leads.
pub(crate) async fn point_here(
    node: &Node,
    sender: FromSender,
) -> Result<ReadPoint, ForwardRefusal> {
    let replica = node.replica().ok_or(ForwardRefusal::NotLeader)?;
    let leading = replica.leading().ok_or(ForwardRefusal::NotLeader)?;
    let point = ReadPoint {
        index: replica.committed_index(),
        cluster_ms: leading.cluster_ms(),
    };
    let confirmed = is_confirmed(node, replica, leading.term, sender);
    let leads = match sender {
        _ if is_out!(ReadConfirmed) => true,
        // The sender's promise follows this read, but not the other reads that wait here.
        Some(_) => confirmed.await,
        None => replica.rounds.join(leading.term, confirmed).await,
    };
    leads.then_some(point).ok_or(ForwardRefusal::NotLeader)
}

/// Returns the read point from the current leader, which may be this node. Asks the next leader if
/// this one is lost meanwhile.
pub(super) async fn point(node: &Node, deadline: Instant) -> Result<ReadPoint, ProposeError> {
    loop {
        let point = match (route(node, deadline, false).await, node.replica()) {
            (Route::Here(_), Some(replica)) => tokio::select! {
                biased;
                point = point_here(node, None) => point.ok(),
                _ = given_up(replica, deadline) => None,
            },
            (Route::There { node: leader, addr }, Some(replica)) => tokio::select! {
                biased;
                point = point_there(node, replica, (leader, &addr), deadline) => point,
                () = replaced(node, leader) => None,
                _ = given_up(replica, deadline) => None,
            },
            (Route::Nowhere(error), _) => return Err(error),
            (Route::NotLeader | Route::Here(_) | Route::There { .. }, _) => None,
        };
        if let Some(point) = point {
            return Ok(point);
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn point_there(
    node: &Node,
    replica: &Replica,
    leader: (u64, &str),
    deadline: Instant,
) -> Option<ReadPoint> {
    let (left, timeout_ms) = time_left(deadline);
    let ask = ReadIndex {
        promised: own_promise(replica),
        timeout_ms,
    };
    let (link, route) = (Link::Control, wire::route::Route::ReadIndex);
    let asked = conversation::call(&node.context, link, leader, route, ask, left).await;
    match asked {
        Ok(ReadIndexReply(Ok(point))) => Some(point),
        _ => None,
    }
}
