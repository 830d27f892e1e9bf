//! Transfers leadership away from a node that is being drained.
//!
//! If no other voter can lead, the node continues to lead, and the transfer follows as soon as one can.

use std::sync::Arc;
use std::time::Duration;

use crate::context::NodeContext;
use crate::membership::drain;
use crate::replica::Replica;

/// Time between two attempts. A transfer takes less, and a drain lasts seconds.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

pub(crate) async fn watch(context: Arc<NodeContext>, replica: Arc<Replica>) {
    let mut draining = context.draining.watched();
    let mut is_logged = false;
    while !context.is_stopped() {
        // An error means that the node has ended.
        if draining.wait_for(Option::is_some).await.is_err() {
            return;
        }
        if replica.is_leader() {
            let has_heir = drain::hand_over(&context, &replica).await;
            if !has_heir && !is_logged {
                tracing::warn!("draining: no other voter can lead, so this node continues to lead");
            }
            is_logged = !has_heir;
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}
