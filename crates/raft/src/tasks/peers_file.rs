//! Keeps the file `peers` as new as the table in memory.
//!
//! One writes at a time, what the table holds by then: a write that a stop overtakes goes on by
//! itself, and both use the same temporary name. Once the file is closed it is not written any more,
//! for the folder may be another process's.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use seqd_store::records::PeersRecord;

use crate::blocking;
use crate::context::NodeContext;

/// Time between two checks of whether the table has changed.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Writes the table whenever it has changed, each second, as long as the node lives.
pub(crate) async fn keep(context: Arc<NodeContext>) {
    let mut written = 0;
    let mut failed = false;
    while !context.is_stopped() {
        tokio::time::sleep(WRITE_EVERY).await;
        if let Some(view) = context.view() {
            context.peers.retain(|node| !view.is_removed(node));
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
                tracing::warn!(%error, "the file `peers` was not written; it is tried again");
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
    let closed = closed.unwrap_or_else(PoisonError::into_inner);
    if *closed {
        return Ok(());
    }
    let (rows, _) = context.peers.rows();
    context.folder.write_peers(&PeersRecord {
        cluster_id: identity.cluster_id,
        rows,
    })
}

/// Waits for a write that goes on; later ones do nothing.
pub(crate) fn close(context: &NodeContext) {
    let closed = context.peers.file_closed.lock();
    *closed.unwrap_or_else(PoisonError::into_inner) = true;
}
