//! Requests the facts of all other members for a diagnosis.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::{CallError, Link};

use crate::context::ClusterView as _;
use crate::conversation;
use crate::messages::Facts;
use crate::node::Node;

/// Requests the facts of every other member, at the same time. There are at most 63.
pub(crate) async fn gather(
    node: &Arc<Node>,
    limit: Duration,
) -> Vec<(String, Result<Vec<u8>, String>)> {
    let Some(replica) = node.replica() else {
        return Vec::new();
    };
    let others = replica.members().into_iter();
    let others = others.filter(|(id, _)| *id != replica.node);
    join_all(others.map(|(id, member)| async move {
        let to = (id, member.peer.as_str());
        let (link, route) = (Link::Control, Route::Facts);
        let context = &node.context;
        let answer: Result<Facts, CallError> =
            conversation::call(context, link, to, route, Facts::default(), limit).await;
        let facts = answer.map(|facts| facts.json);
        (member.name, facts.map_err(|error| error.to_string()))
    }))
    .await
}
