//! Transfers leadership away from a node that is being drained.
//!
//! If no other voter can lead, the node continues to lead, and the transfer follows as soon as one can.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::context::NodeContext;
use crate::membership::drain::{self, HandOver};
use crate::replica::Replica;

/// Time until the second attempt. A transfer takes less, and a drain lasts seconds.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// The longest time between two attempts. The time doubles after each, because nothing is committed
/// during an attempt, and a voter that cannot win an election must not stop the cluster.
const SELDOM: Duration = Duration::from_secs(60);

pub(crate) async fn watch(context: Arc<NodeContext>, replica: Arc<Replica>) {
    let mut draining = context.draining.watched();
    let mut drain = None;
    let (mut pause, mut is_logged) = (AGAIN_AFTER, false);
    while !context.is_stopped() {
        let began = draining.wait_for(Option::is_some).await.map(|began| *began);
        // An error means that the node has ended.
        let Ok(began) = began else {
            return;
        };
        if began != drain {
            (drain, pause, is_logged) = (began, AGAIN_AFTER, false);
        }
        if replica.is_leader() {
            match drain::hand_over(&context, &replica).await {
                HandOver::Tried => pause = (pause * 2).min(SELDOM),
                HandOver::DuringChange => {}
                HandOver::NoHeir if is_logged => {}
                HandOver::NoHeir => {
                    tracing::warn!(
                        "draining: no other voter can lead, so this node continues to lead"
                    );
                    is_logged = true;
                }
            }
        }
        let _ = timeout(pause, draining.wait_for(Option::is_none)).await;
    }
}
