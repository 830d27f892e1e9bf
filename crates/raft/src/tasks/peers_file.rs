//! Keeps the file `peers` up to date with the table in memory.
//!
//! Writes are serialised, because all of them use the same temporary name. Each writes the current
//! content of the table, because a write in progress continues during a stop. A closed file is not
//! written again, because another process may own the folder by then.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use seqd_store::records::PeersRecord;

use super::next_beat;
use crate::blocking;
use crate::context::NodeContext;

/// Time between two checks whether the table has changed.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Checks every second, while the node runs, whether the table has changed, and writes it.
pub(crate) async fn keep(context: Arc<NodeContext>) {
    let mut written = 0;
    let mut failed = false;
    while !context.is_stopped() {
        next_beat(&context, WRITE_EVERY).await;
        if let Some(view) = context.view() {
            context.discard_removed(view);
        }
        let version = context.peers.version();
        if version == written {
            continue;
        }
        let writer = Arc::clone(&context);
        match blocking::run(move || write(&writer)).await {
            Ok(()) => {
                written = version;
                failed = false;
            }
            Err(error) if !failed => {
                tracing::warn!(%error, "the file `peers` was not written; it will be retried");
                failed = true;
            }
            Err(_) => {}
        }
    }
}

/// Writes the table, unless the file is closed.
pub(crate) fn write(context: &NodeContext) -> io::Result<()> {
    let Some(identity) = context.identity() else {
        return Ok(());
    };
    let closed = context.peers.file_closed.lock();
    if *closed {
        return Ok(());
    }
    let (rows, _) = context.peers.rows();
    context.folder.write_peers(&PeersRecord {
        cluster_id: identity.cluster_id,
        rows,
    })
}

/// Waits for a write in progress. Later writes do nothing.
pub(crate) fn close(context: &NodeContext) {
    *context.peers.file_closed.lock() = true;
}
