//! Sends a leader's heartbeats at the configured interval, and records the last contact with a
//! quorum.
//!
//! openraft sends heartbeats as well, but aborts each one after its own heartbeat interval. The
//! answers of a peer with a longer round trip would never arrive in time, and the leader would lose
//! the right to write although all nodes follow it. openraft's interval is therefore the time limit
//! of one heartbeat, and the pace is kept here.

use std::sync::Arc;

use super::next_beat;
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
        replica.note_quorum_contact();
        next_beat(&context, context.settings.heartbeat).await;
    }
}
