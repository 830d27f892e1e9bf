//! Returns the workers and ranges of a drained node that no request uses, after `http.drain`.

use std::sync::Arc;
use std::time::Duration;

use seqd_raft::Raft;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, timeout};

use crate::minting::Minters;
use crate::sequences::SegmentBuffers;

/// The interval between two checks for unused ranges. A range counts as unused if no request
/// arrived for it within this time.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The time limit of one return. If the return fails, the values become a gap.
const RETURN: Duration = Duration::from_secs(2);

/// Returns unused workers and ranges while the node is drained.
pub(crate) async fn watch(
    raft: Raft,
    (minters, segments): (Arc<Minters>, Arc<SegmentBuffers>),
    drain: Duration,
) {
    let mut draining = raft.draining();
    // An error means that the node has ended.
    while draining.wait_for(Option::is_some).await.is_ok() {
        if ends_within(&mut draining, drain).await {
            continue;
        }
        minters.set_drained(true);
        while !ends_within(&mut draining, LOOK_EVERY).await {
            segments.return_unused(Instant::now() + RETURN).await;
        }
        minters.set_drained(false);
    }
}

/// Waits for the end of the drain. Returns whether it ended within this time.
async fn ends_within(draining: &mut Receiver<Option<Instant>>, limit: Duration) -> bool {
    let ended = timeout(limit, draining.wait_for(Option::is_none)).await;
    ended.is_ok()
}
