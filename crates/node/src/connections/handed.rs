//! Serves requests with hyper, beginning with bytes that were already read, and takes the
//! connection back after a request that leaves nothing unread.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, EXPECT, UPGRADE};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::TokioIo;
use seqd_guards::is_out;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::buffered::close_unread;
use super::exchange::{Answered, Exchange, Received};
use super::held::ClientConnection;
use super::paced::Paced;

/// Detects that hyper is between two requests.
///
/// After a response to a request without a body, hyper has read nothing of the connection but the
/// heads in its buffer, which it returns. After the flush that follows the response, hyper has
/// nothing left to write.
struct Boundary {
    client: ClientConnection,
    /// True if the connection may be taken back after the response to the latest request.
    may_return: AtomicBool,
    /// True if the rest of a body, or another request, may arrive after the latest response.
    may_be_unread: AtomicBool,
    /// True if nothing was read or written since a flush at which no request was in progress.
    is_reached: AtomicBool,
}

/// The stream that hyper reads and writes.
struct Rewound<T> {
    /// Bytes that were read before the connection was handed to hyper.
    read: Bytes,
    stream: Paced<T>,
    boundary: Arc<Boundary>,
}

/// Returns whether hyper reads exactly the head of this request.
fn is_head_only(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    let special = [CONNECTION, EXPECT, UPGRADE];
    request.version() == Version::HTTP_11
        && request.body().is_end_stream()
        && !special.iter().any(|name| headers.contains_key(name))
}

/// Serves requests until the connection ends. If `returns` is set, stops earlier, when hot requests
/// may follow, and returns the connection with the bytes that hyper has read but not served.
pub(super) async fn serve<T, S, B>(
    (stream, bytes): (Paced<T>, Bytes),
    (builder, returns): (&Builder, bool),
    exchange: &Exchange<S>,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> hyper::Result<Option<(Paced<T>, BytesMut)>>
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Fn(Request<Received>, ClientConnection) -> Answered<B>,
    B: Body<Data: Send, Error: std::error::Error + Send + Sync> + Unpin + 'static,
{
    let boundary = Arc::new(Boundary {
        client: exchange.connection().clone(),
        may_return: AtomicBool::new(false),
        may_be_unread: AtomicBool::new(false),
        is_reached: AtomicBool::new(false),
    });
    let service = service_fn(|request: Request<Incoming>| {
        boundary.may_return.store(false, Ordering::Relaxed);
        boundary.moved();
        let is_head_only = returns && is_head_only(&request);
        let has_body = !request.body().is_end_stream();
        let answered = exchange.call(request.map(Received::Streamed));
        let boundary = Arc::clone(&boundary);
        async move {
            let response = answered.await;
            let is_last = response.headers().contains_key(CONNECTION);
            let may_return = is_head_only && !is_last;
            boundary.may_return.store(may_return, Ordering::Relaxed);
            let may_be_unread = has_body || is_last;
            boundary
                .may_be_unread
                .store(may_be_unread, Ordering::Relaxed);
            Ok::<_, Infallible>(response)
        }
    });
    let stream = Rewound {
        read: if is_out!(ReadBytesHandedOver) {
            Bytes::new()
        } else {
            bytes
        },
        stream,
        boundary: Arc::clone(&boundary),
    };
    let mut connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut is_stopping = false;
    let ended = poll_fn(|cx| {
        if !is_stopping && stop.as_mut().poll(cx).is_ready() {
            is_stopping = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        if let Poll::Ready(ended) = Pin::new(&mut connection).poll(cx) {
            return Poll::Ready(Some(ended));
        }
        if !is_stopping && boundary.is_reached.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        Poll::Pending
    })
    .await;
    let parts = connection.into_parts();
    let Rewound {
        read, mut stream, ..
    } = parts.io.into_inner();
    if let Some(ended) = ended {
        let is_unreadable = ended.as_ref().is_err_and(hyper::Error::is_parse);
        if is_unreadable || boundary.may_be_unread.load(Ordering::Relaxed) {
            let _ = Box::pin(close_unread(&mut stream)).await;
        } else if !stream.held.is_empty() {
            // After a request for an upgrade, hyper leaves its stream open, and responses in it.
            let _ = stream.shutdown().await;
        }
        return ended.map(|()| None);
    }
    let mut bytes = BytesMut::new();
    if !is_out!(ReadBytesTakenBack) {
        bytes.extend_from_slice(&parts.read_buf);
    }
    bytes.extend_from_slice(&read);
    Ok(Some((stream, bytes)))
}

impl Boundary {
    fn moved(&self) {
        self.is_reached.store(false, Ordering::Relaxed);
    }

    fn flushed(&self) {
        if self.client.is_idle() && self.may_return.load(Ordering::Relaxed) {
            self.is_reached.store(true, Ordering::Relaxed);
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Rewound<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
            if read.is_ready() {
                self.boundary.moved();
            }
            return read;
        }
        self.boundary.moved();
        let length = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read[..length]);
        self.read.advance(length);
        if self.read.is_empty() {
            self.read = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Rewound<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.boundary.moved();
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.boundary.moved();
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.boundary.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
