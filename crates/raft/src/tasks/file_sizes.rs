//! Measures the kept snapshots, for the metrics, the purge and the reserve. It is a task of its
//! own, because listing a folder on a hanging disk blocks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seqd_store::snapshot_file;

use super::next_beat;
use crate::blocking;
use crate::context::NodeContext;
use crate::replica::Replica;

/// Time between two checks: shorter than the time between two scrapes of the metrics.
const LOOK_EVERY: Duration = Duration::from_secs(5);

pub(crate) async fn watch(context: Arc<NodeContext>, replica: Arc<Replica>) {
    while !context.is_stopped() {
        let folder = Arc::clone(&context.folder);
        let list = move || snapshot_file::list(&**folder.disk(), &folder.snapshots());
        if let Ok(files) = blocking::run(list).await {
            let bytes = || files.iter().map(|file| file.len);
            let largest = bytes().max().unwrap_or_default();
            replica
                .snapshot_bytes
                .store(bytes().sum(), Ordering::Relaxed);
            replica
                .largest_snapshot_bytes
                .store(largest, Ordering::Relaxed);
        }
        next_beat(&context, LOOK_EVERY).await;
    }
}
