//! `/v1/cluster/snapshot`: the state as a file, streamed from this node.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::header::CONTENT_DISPOSITION;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use seqd_api::{Problem, SnapshotQuery};
use seqd_raft::Export;
use tokio::sync::mpsc;

use super::problems;
use crate::http::{Request, Response};
use crate::services::Services;

pub(super) async fn get(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: SnapshotQuery = request.decode()?;
    let stale = query.stale.unwrap_or(false);
    let taken = node.snapshots.take(stale, request.deadline).await;
    let (head, export) = taken.map_err(|error| problems::snapshot(&error))?;
    tracing::info!(
        index = head.index,
        bytes = head.bytes,
        "a snapshot is downloaded"
    );
    let mut response = Response::stream(Body::new(Chunks::of(export)));
    for (name, value) in head.headers() {
        response = response.with_header(name, &value);
    }
    let disposition = format!("attachment; filename=\"{}\"", head.file_name());
    Ok(response.with_header(CONTENT_DISPOSITION.as_str(), &disposition))
}

/// The pieces of a snapshot as a body of known length.
struct Chunks {
    pieces: mpsc::Receiver<std::io::Result<Bytes>>,
    left: u64,
}

impl Chunks {
    fn of(export: Export) -> Chunks {
        let left = export.len;
        let pieces = export.stream();
        Chunks { pieces, left }
    }
}

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.pieces.poll_recv(context).map(|piece| match piece {
            Some(Ok(bytes)) => {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                Some(Ok(Frame::data(bytes)))
            }
            Some(Err(error)) => Some(Err(error)),
            // Less than was announced: the connection has to break, not to end.
            None => Some(Err(std::io::ErrorKind::UnexpectedEof.into())),
        })
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }
}
