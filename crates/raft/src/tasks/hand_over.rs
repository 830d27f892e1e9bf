//! Transfers leadership away from a node that is being drained.
//!
//! If no other voter can lead, the node continues to lead until one can.

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
            let handed_over = drain::hand_over(&context, &replica).await;
            pause = pause_after(pause, &handed_over);
            if matches!(handed_over, HandOver::NoSuccessor) && !is_logged {
                tracing::warn!("draining: no other voter can lead, so this node continues to lead");
                is_logged = true;
            }
        }
        let _ = timeout(pause, draining.wait_for(Option::is_none)).await;
    }
}

/// The time until the next attempt. Only an attempt that was made interrupts commits, so only then
/// does the time double.
fn pause_after(pause: Duration, handed_over: &HandOver) -> Duration {
    match handed_over {
        HandOver::Tried => (pause * 2).min(SELDOM),
        HandOver::DuringChange | HandOver::NoSuccessor => pause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_fail_become_rare_and_a_leader_without_an_heir_keeps_looking() {
        let mut pause = AGAIN_AFTER;
        let mut pauses_ms = Vec::new();
        for _ in 0..9 {
            pause = pause_after(pause, &HandOver::Tried);
            pauses_ms.push(pause.as_millis());
        }
        let expected = [
            1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000,
        ];
        assert_eq!(pauses_ms, expected);
        for not_made in [HandOver::NoSuccessor, HandOver::DuringChange] {
            assert_eq!(pause_after(AGAIN_AFTER, &not_made), AGAIN_AFTER);
        }
    }
}
