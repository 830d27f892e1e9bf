//! Streams a snapshot to a client outside the cluster. Each snapshot is written for one download
//! and removed afterwards.
//!
//! Invariants:
//! - An exported snapshot is separate from the kept snapshots. Operators' downloads affect neither
//!   the snapshot that openraft sends to a follower nor the purge of the log.
//! - The file is unlinked before its first byte is sent, so that it disappears even if the process
//!   ends.
//! - A slow reader occupies at most two pieces of memory. A download is aborted when its client
//!   stops reading.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use seqd_disk::DiskFile;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout};

use crate::blocking;
use crate::handle::ProposeError;
use crate::node::Node;
use crate::platform;
use crate::proposer::ProposalBatcher;
use crate::status;
use seqd_store::snapshot_file::SnapshotFile;

/// Largest number of concurrent downloads. Each takes the disk space of one snapshot, and occupies
/// the checkpoint thread while it is written.
pub(crate) const AT_ONCE: usize = 2;

const PIECE_BYTES: u64 = 256 << 10;

/// Number of pieces that are read ahead.
const PIECES_AHEAD: usize = 2;

/// Longest time for which a reader may take no bytes.
const STALLED: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The leader did not confirm the read, or this node has no state yet.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// The largest allowed number of snapshots is already being downloaded.
    #[error("{limit} snapshots are being downloaded from this node, which is the maximum")]
    Busy { limit: usize },
    /// The disk failed to store the snapshot.
    #[error("the snapshot could not be written: {detail}")]
    Disk { detail: String },
}

pub struct Export {
    pub described: SnapshotFile,
    file: Arc<dyn DiskFile>,
    place: OwnedSemaphorePermit,
}

/// Takes a snapshot of everything acknowledged before the call; with `stale`, of what this node has
/// applied.
pub(crate) async fn export(
    node: &Node,
    batcher: &ProposalBatcher,
    places: &Arc<Semaphore>,
    stale: bool,
    deadline: Instant,
) -> Result<Export, SnapshotError> {
    let place = Arc::clone(places).try_acquire_owned();
    let place = place.map_err(|_| SnapshotError::Busy { limit: AT_ONCE })?;
    if !stale {
        batcher.read(deadline).await?;
    }
    status::state_of_member(node, |_| ())?;
    let Some(replica) = node.replica() else {
        return Err(ProposeError::no_leader().into());
    };
    // A task of its own, because the checkpoint thread does not notice that a client has
    // disconnected. The place is released only once the snapshot is written.
    let replica = Arc::clone(replica);
    let taken = platform::spawn(async move { (replica.export().await, place) }).await;
    let failed = |detail: String| SnapshotError::Disk { detail };
    let (taken, place) = taken.map_err(|error| failed(error.to_string()))?;
    let (file, described) = taken.map_err(|error| failed(error.to_string()))?;
    Ok(Export {
        described,
        file,
        place,
    })
}

impl Export {
    /// Reads the snapshot in pieces for as long as the client takes them. The stream ends early
    /// after an error, or if the client takes no piece for a minute.
    #[must_use]
    pub fn stream(self) -> Pieces {
        let (pieces, reader) = mpsc::channel(PIECES_AHEAD);
        let left = self.described.len;
        platform::spawn(send(self.file, left, pieces));
        Pieces {
            reader,
            left,
            _place: self.place,
        }
    }
}

/// A snapshot in pieces. It keeps its place until it is dropped, even while the client does not
/// read.
pub struct Pieces {
    reader: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
    _place: OwnedSemaphorePermit,
}

impl Pieces {
    /// The number of bytes that are still to come.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next piece; `None` at the end. Returns an error if fewer bytes than announced arrive.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let piece = ready!(self.reader.poll_recv(cx));
        let piece = piece.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
        if let Ok(bytes) = &piece {
            self.left = self.left.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(Some(piece))
    }
}

async fn send(file: Arc<dyn DiskFile>, len: u64, pieces: mpsc::Sender<io::Result<Bytes>>) {
    let mut at = 0;
    while at < len {
        let take = PIECE_BYTES.min(len - at);
        let file = Arc::clone(&file);
        let piece = blocking::run(move || {
            let mut piece = vec![0; usize::try_from(take).unwrap_or_default()];
            file.read_at(&mut piece, at)?;
            Ok(Bytes::from(piece))
        })
        .await;
        let failed = piece.is_err();
        match timeout(STALLED, pieces.send(piece)).await {
            Ok(Ok(())) if !failed => at += take,
            Ok(_) => return,
            Err(_) => {
                tracing::warn!(at, of = len, "no client reads a snapshot any longer");
                return;
            }
        }
    }
}
