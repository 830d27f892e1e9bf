//! Sends a leader's heartbeats, at the configured pace.
//!
//! openraft sends heartbeats as well, but ends each after its own heartbeat interval: a peer further
//! away than that would never be heard to answer, and the leader would lose the right to write though
//! all follow it. So openraft's interval is what one may take, and the pace is kept here.

use std::sync::Arc;

use crate::context::NodeContext;
use crate::replica::Replica;

pub(crate) async fn send(context: Arc<NodeContext>, replica: Arc<Replica>) {
    while !context.is_stopped() {
        if !replica.is_leader() {
            replica
                .wait_for_leader(|now| now == Some(replica.node))
                .await;
        }
        if let Err(error) = replica.raft.trigger().heartbeat().await {
            tracing::debug!(%error, "no heartbeat was sent");
        }
        tokio::time::sleep(context.settings.heartbeat).await;
    }
}
