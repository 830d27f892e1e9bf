//! Serves hot requests without hyper, until a connection has other bytes.
//!
//! A hot request needs little more than the kernel's part of its work, so hyper's part would be
//! half of the rest. Only reading and writing differ here: the request passes through the same
//! [`Exchange`], and so through the same checks, limits and counters, as any other.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::header::{CONNECTION, CONTENT_LENGTH, DATE};
use hyper::{HeaderMap, Request, Response};
use seqd_idgen::WallClock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep};

use super::exchange::{Answered, ClientConnection, Exchange, Received};
use super::head::{IsHot, Next, next};
use super::held::Answer;
use super::paced::{Paced, TOGETHER};
use crate::clock::OsClock;
use crate::times::http_date;

/// The space for one read, as much as hyper begins with: about 80 pipelined requests.
const READ: usize = 8 * 1024;

/// The state of a connection while it serves hot requests.
pub(super) struct Hot<T> {
    pub(super) stream: Paced<T>,
    /// Bytes that were read and not served yet.
    pub(super) bytes: BytesMut,
    is_hot: IsHot,
    idle: Idle,
    date: Date,
}

/// The timer of a connection that waits for a request.
struct Idle {
    longest: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Idle {
    /// Begins another wait.
    fn begin(&mut self) {
        let (Some(longest), Some(timer)) = (self.longest, &mut self.timer) else {
            self.timer = self.longest.map(|longest| Box::pin(sleep(longest)));
            return;
        };
        timer.as_mut().reset(Instant::now() + longest);
    }

    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let timer = self.timer.as_mut();
        timer.is_some_and(|timer| timer.as_mut().poll(cx).is_ready())
    }
}

/// The date of the latest response, which changes once a second.
#[derive(Default)]
struct Date {
    second: u64,
    text: String,
}

impl Date {
    fn now(&mut self) -> &str {
        let at = OsClock.wall();
        if self.text.is_empty() || at.0 / 1000 != self.second {
            self.second = at.0 / 1000;
            self.text = http_date(at);
        }
        &self.text
    }
}

/// The reason why a connection serves no more hot requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The next bytes are for hyper.
    HandOver,
    Close,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Hot<T> {
    pub(super) fn new(stream: Paced<T>, is_hot: IsHot, longest_idle: Option<Duration>) -> Self {
        Self {
            stream,
            bytes: BytesMut::new(),
            is_hot,
            idle: Idle {
                longest: longest_idle,
                timer: None,
            },
            date: Date::default(),
        }
    }

    /// Serves hot requests in their order. `stop` ends when the port stops. It is polled only while
    /// the connection waits for a request, because it has a lock that all connections share: a
    /// stopping node has each response end its connection, before the port stops.
    pub(super) async fn serve<S, B>(
        &mut self,
        exchange: &Exchange<S>,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> io::Result<Then>
    where
        S: Fn(Request<Received>, ClientConnection) -> Answered<B>,
        B: Body<Error: std::error::Error + Send + Sync + 'static> + Unpin + 'static,
    {
        loop {
            let request = match next(&mut self.bytes, self.is_hot) {
                Next::Request(request) => request,
                Next::Other => return Ok(Then::HandOver),
                Next::Nothing => {
                    if self.fill(stop.as_mut()).await? {
                        continue;
                    }
                    break;
                }
            };
            let answered = pin!(exchange.call(request.map(Received::Whole)));
            let Some(response) = self.while_connected(answered).await? else {
                return Ok(Then::Close);
            };
            let is_last = response.headers().contains_key(CONNECTION);
            self.write(response).await?;
            if is_last {
                break;
            }
            if self.stream.held.len() > TOGETHER {
                self.stream.flush_held().await?;
            }
        }
        self.stream.shutdown().await?;
        Ok(Then::Close)
    }

    /// Reads more bytes, after the responses are sent. Returns `false` at the end of the connection.
    async fn fill(&mut self, mut stop: Pin<&mut impl Future<Output = ()>>) -> io::Result<bool> {
        let mut is_waiting = false;
        poll_fn(|cx| {
            if let Poll::Ready(read) = self.poll_read(cx) {
                return Poll::Ready(read.map(|bytes| bytes > 0));
            }
            if !is_waiting {
                is_waiting = true;
                self.idle.begin();
            }
            if stop.as_mut().poll(cx).is_ready() || self.idle.is_over(cx) {
                return Poll::Ready(Ok(false));
            }
            Poll::Pending
        })
        .await
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // Not only written: TLS may keep the end of a response.
        ready!(self.stream.poll_flush_held(cx))?;
        self.bytes.reserve(READ);
        pin!(self.stream.read_buf(&mut self.bytes)).poll(cx)
    }

    /// Waits for a response, while earlier responses are sent. Returns `None` if the client
    /// disconnects first. This is detected as by hyper: if the client has sent nothing else.
    async fn while_connected<R>(
        &mut self,
        mut answered: Pin<&mut impl Future<Output = R>>,
    ) -> io::Result<Option<R>> {
        poll_fn(|cx| {
            if let Poll::Ready(response) = answered.as_mut().poll(cx) {
                return Poll::Ready(Ok(Some(response)));
            }
            if !self.bytes.is_empty() {
                return match self.stream.poll_flush_held(cx) {
                    Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                    _ => Poll::Pending,
                };
            }
            match self.poll_read(cx) {
                Poll::Ready(Ok(0)) => Poll::Ready(Ok(None)),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Appends a response in the form of hyper's. It is sent when the next bytes are read.
    async fn write<B>(&mut self, response: Response<Answer<B>>) -> io::Result<()>
    where
        B: Body<Error: std::error::Error + Send + Sync + 'static> + Unpin,
    {
        let (parts, mut body) = response.into_parts();
        let mut whole = Bytes::new();
        while let Some(frame) = body.frame().await {
            let Ok(mut data) = frame.map_err(io::Error::other)?.into_data() else {
                continue;
            };
            let piece = data.copy_to_bytes(data.remaining());
            whole = match whole.is_empty() {
                true => piece,
                false => [whole, piece].concat().into(),
            };
        }
        let out = &mut self.stream.held;
        out.reserve(whole.len() + 512);
        out.put_slice(b"HTTP/1.1 ");
        out.put_slice(parts.status.as_str().as_bytes());
        out.put_u8(b' ');
        let reason = parts.status.canonical_reason().unwrap_or("<none>");
        out.put_slice(reason.as_bytes());
        out.put_slice(b"\r\n");
        write_headers(&parts.headers, out);
        if !parts.headers.contains_key(CONTENT_LENGTH) {
            let length = whole.len().to_string();
            write_header(CONTENT_LENGTH.as_str(), length.as_bytes(), out);
        }
        write_header(DATE.as_str(), self.date.now().as_bytes(), out);
        out.put_slice(b"\r\n");
        out.put_slice(&whole);
        Ok(())
    }
}

fn write_headers(headers: &HeaderMap, out: &mut BytesMut) {
    for (name, value) in headers {
        write_header(name.as_str(), value.as_bytes(), out);
    }
}

fn write_header(name: &str, value: &[u8], out: &mut BytesMut) {
    out.put_slice(name.as_bytes());
    out.put_slice(b": ");
    out.put_slice(value);
    out.put_slice(b"\r\n");
}
