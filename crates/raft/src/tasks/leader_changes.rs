//! Counts how often the leader changed, for the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use openraft::async_runtime::WatchReceiver;

use crate::replica::Replica;

pub(crate) async fn count(replica: Arc<Replica>, changes: Arc<AtomicU64>) {
    let mut metrics = replica.raft.server_metrics();
    let mut last = None;
    loop {
        let leader = metrics.borrow_watched().current_leader;
        if leader.is_some() && leader != last {
            last = leader;
            changes.fetch_add(1, Ordering::Relaxed);
        }
        if metrics.changed().await.is_err() {
            return;
        }
    }
}
