//! Serves hot requests without hyper, until a connection has other bytes.
//!
//! A hot request needs little more than the kernel's part of its work, so hyper's part would be
//! half of the rest. Only reading and writing differ here: the request passes through the same
//! [`Exchange`], and so through the same checks, limits and counters, as any other.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};

use bytes::{Buf, BufMut, Bytes};
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::header::{CONNECTION, CONTENT_LENGTH, DATE};
use hyper::{Request, Response};
use seqd_idgen::WallClock;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::arriving::arriving;
use super::buffered::{Buffered, Filled, close_unread};
use super::exchange::{Answered, Exchange, Received};
use super::head::{IsHot, Next, next};
use super::held::{Answer, ClientConnection};
use super::paced::{TOGETHER, write_header};
use crate::clock::OsClock;
use crate::times::http_date;

/// The state of a connection while it serves hot requests.
pub(super) struct Hot<T> {
    pub(super) from: Buffered<T>,
    is_hot: IsHot,
    date: Date,
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
    pub(super) fn new(from: Buffered<T>, is_hot: IsHot) -> Self {
        Self {
            from,
            is_hot,
            date: Date::default(),
        }
    }

    /// Serves hot requests in their order. `stop` resolves when the port stops. It is polled only
    /// while the connection waits for a request, because polling takes a lock that all connections
    /// share. This suffices: before the port of a stopping node stops, each response ends its
    /// connection.
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
            let (request, missing) = match next(&mut self.from.bytes, self.is_hot) {
                Next::Request(request, missing) => (request, missing),
                Next::Other => return Ok(Then::HandOver),
                Next::Nothing => {
                    if self.from.fill(stop.as_mut()).await? == Filled::More {
                        continue;
                    }
                    break;
                }
            };
            let Some((response, is_whole)) = self.answer(exchange, request, missing).await? else {
                return Ok(Then::Close);
            };
            let is_last = !is_whole || response.headers().contains_key(CONNECTION);
            self.write(response).await?;
            if is_last {
                // The rest of the body, or pipelined requests, may still arrive.
                Box::pin(close_unread(&mut self.from.stream)).await?;
                return Ok(Then::Close);
            }
            if self.from.stream.held.len() > TOGETHER {
                self.from.stream.flush_held().await?;
            }
        }
        self.from.stream.shutdown().await?;
        Ok(Then::Close)
    }

    /// Answers a request, and reads the missing bytes of its body meanwhile. Also returns whether
    /// all of them have arrived. Returns `None` if the client disconnects first.
    async fn answer<S, B>(
        &mut self,
        exchange: &Exchange<S>,
        request: Request<Bytes>,
        missing: usize,
    ) -> io::Result<Option<(Response<Answer<B>>, bool)>>
    where
        S: Fn(Request<Received>, ClientConnection) -> Answered<B>,
        B: Body + 'static,
    {
        if missing == 0 {
            let answered = pin!(exchange.call(request.map(Received::Whole)));
            let response = self.from.while_connected(answered, empty_lines).await?;
            return Ok(response.map(|response| (response, true)));
        }
        let (head, piece) = request.into_parts();
        let (feed, body) = arriving(piece, missing);
        let request = Request::from_parts(head, Received::Arriving(body));
        let mut answered = pin!(exchange.call(request));
        let response = self.from.while_arriving(answered.as_mut(), &feed).await?;
        let response = match response {
            Some(response) => Some(response),
            None => self.from.while_connected(answered, empty_lines).await?,
        };
        Ok(response.map(|response| (response, feed.is_complete())))
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
        let out = &mut self.from.stream.held;
        out.reserve(whole.len() + 512);
        out.put_slice(b"HTTP/1.1 ");
        out.put_slice(parts.status.as_str().as_bytes());
        out.put_u8(b' ');
        let reason = parts.status.canonical_reason().unwrap_or("<none>");
        out.put_slice(reason.as_bytes());
        out.put_slice(b"\r\n");
        for (name, value) in &parts.headers {
            write_header(name.as_str(), value.as_bytes(), out);
        }
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

/// The length of the empty lines that precede a request (RFC 9112, 2.2).
fn empty_lines(bytes: &[u8]) -> usize {
    let lines = bytes.chunks_exact(2).take_while(|line| line == b"\r\n");
    2 * lines.count()
}
