//! `/v1/cluster/snapshot`: the state as a file, streamed from this node.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::header::CONTENT_DISPOSITION;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use seqd_api::{Problem, SnapshotQuery};
use seqd_raft::Pieces;

use crate::access::Right;
use crate::http::{Request, Response};
use crate::services::Services;

pub(super) async fn get(node: Arc<Services>, request: Request) -> Result<Response, Problem> {
    let query: SnapshotQuery = request.decode()?;
    let stale = query.stale.unwrap_or(false);
    let (head, export) = node.snapshots.take(stale, request.deadline).await?;
    tracing::info!(
        index = head.index,
        bytes = head.bytes,
        "a snapshot is downloaded"
    );
    let right = Right::new(&node.callers, request.caller);
    let pieces = export.stream();
    let mut response = Response::stream(Body::new(Chunks { pieces, right }));
    for (name, value) in head.headers() {
        response = response.with_header(name, &value);
    }
    let disposition = format!("attachment; filename=\"{}\"", head.file_name());
    Ok(response.with_header(CONTENT_DISPOSITION.as_str(), &disposition))
}

/// The pieces of a snapshot as a body of known length. If the pieces end early, or the caller's
/// token is revoked or expires between two of them, the connection is closed.
struct Chunks {
    pieces: Pieces,
    right: Right,
}

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Err(why) = self.right.check() {
            let error = format!("the access of the caller ended: {why:?}");
            return Poll::Ready(Some(Err(std::io::Error::other(error))));
        }
        let piece = self.pieces.poll_next(context);
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.pieces.left())
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.left() == 0
    }
}
