//! The body of a hot request that has not arrived completely when the handler starts.
//!
//! The connection reads the rest while it waits for the response, and only as fast as the handler
//! consumes it. hyper would hold two buffers of 8 KiB for a client that sends its body slowly.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};
use seqd_net::Lock;

#[derive(Debug)]
struct State {
    /// The bytes that have arrived and that the handler has not read.
    piece: Bytes,
    /// The number of bytes that have not arrived.
    missing: usize,
    /// True if the connection ended before the body was complete.
    is_cut: bool,
    waker: Option<Waker>,
}

/// The connection's side of a body.
#[derive(Debug)]
pub(super) struct Feed(Arc<Lock<State>>);

/// The request's side of a body.
#[derive(Debug)]
pub(crate) struct Arriving(Arc<Lock<State>>);

/// The two sides of a body that begins with `piece`, with `missing` more bytes.
pub(super) fn arriving(piece: Bytes, missing: usize) -> (Feed, Arriving) {
    let state = Arc::new(Lock::new(State {
        piece,
        missing,
        is_cut: false,
        waker: None,
    }));
    (Feed(Arc::clone(&state)), Arriving(state))
}

impl Feed {
    /// Returns whether the whole body has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.0.lock().missing == 0
    }

    /// Returns whether the request waits for more bytes.
    pub(super) fn is_wanted(&self) -> bool {
        let state = self.0.lock();
        state.missing > 0 && state.piece.is_empty() && !state.is_cut
    }

    /// Moves the bytes of the body from the bytes that were read.
    pub(super) fn give(&self, read: &mut BytesMut) {
        let mut state = self.0.lock();
        let length = state.missing.min(read.len());
        state.piece = Bytes::copy_from_slice(&read.split_to(length));
        state.missing -= length;
        wake(&mut state);
    }

    /// Ends the body with an error, because the connection has ended.
    pub(super) fn cut(&self) {
        let mut state = self.0.lock();
        state.is_cut = true;
        wake(&mut state);
    }
}

fn wake(state: &mut State) {
    if let Some(waker) = state.waker.take() {
        waker.wake();
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let mut state = self.0.lock();
        if !state.piece.is_empty() {
            let piece = std::mem::take(&mut state.piece);
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if state.missing == 0 {
            return Poll::Ready(None);
        }
        if state.is_cut {
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        let state = self.0.lock();
        state.piece.is_empty() && state.missing == 0
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.0.lock();
        SizeHint::with_exact((state.piece.len() + state.missing) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use http_body_util::BodyExt;
    use tokio::io::{AsyncWriteExt, duplex};
    use tokio::time::{sleep, timeout};

    use super::super::buffered::Buffered;
    use super::super::held::Held;
    use super::super::limits::Bounds;
    use super::super::paced::Paced;
    use super::*;

    #[tokio::test]
    async fn a_body_is_its_pieces_in_order_and_no_byte_of_the_next_request() {
        let (feed, body) = arriving(Bytes::from_static(b"ab"), 3);
        let collected = tokio::spawn(body.collect());
        assert!(!feed.is_wanted(), "the first piece was not taken");
        let wanted = async {
            while !feed.is_wanted() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), wanted).await.unwrap();
        let mut read = BytesMut::from(&b"cdeGET"[..]);
        feed.give(&mut read);
        assert!(feed.is_complete() && !feed.is_wanted());
        assert_eq!(&read[..], b"GET");
        let collected = collected.await.unwrap().unwrap();
        assert_eq!(&collected.to_bytes()[..], b"abcde");
    }

    #[tokio::test]
    async fn a_body_that_is_cut_is_an_error_and_not_a_short_body() {
        let (feed, body) = arriving(Bytes::from_static(b"ab"), 3);
        feed.cut();
        assert!(body.collect().await.is_err());
        assert!(!feed.is_complete());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_only_as_far_as_the_request_takes_it() {
        let (near, mut far) = duplex(1 << 20);
        let own = Held::new(2, 1 << 20).connection(None, false);
        let mut from = Buffered::pooled(Paced::new(near, &Bounds::USUAL, own, None));
        let (feed, body) = arriving(Bytes::new(), 1 << 20);
        // The client has sent the whole body, and the handler reads none of it for a second.
        far.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
        let answered = pin!(async {
            sleep(Duration::from_secs(1)).await;
            let missing = body.0.lock().missing;
            let collected = body.collect().await;
            (missing, collected.map(|body| body.to_bytes().len()))
        });
        let answered = from.while_arriving(answered, &feed).await.unwrap();
        let (missing, collected) = answered.unwrap();
        assert!(missing >= (1 << 20) - 8 * 1024, "{missing} bytes were left");
        assert_eq!(collected.unwrap(), 1 << 20);
    }
}
