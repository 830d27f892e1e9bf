//! A client's connection with limits on unsent bytes and on idle time.
//!
//! Responses to pipelined requests are sent together, which makes clients with pipelining six times
//! as fast. They are held back until hyper reads the next request or has nothing to add. The
//! corresponding option of hyper has no limit, and withholds responses while the next request is
//! incomplete.
//!
//! TLS accepts bytes that the client cannot receive yet, up to [`WRITE_BUFFER`]. They count as
//! unsent, and the time limit of a write applies to them, until TLS has passed them on.

#[cfg(test)]
mod tests;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use hyper::{Response, StatusCode};
use memchr::memmem;
use seqd_net::WRITE_BUFFER;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::held::ClientConnection;
use super::limits::{Bounds, Unreadable};

/// The first bytes of a client that uses HTTP/2 without an upgrade, and the response to it. Without
/// this, hyper would close the connection without a response.
const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n";
const NO_HTTP_2: &[u8] = b"HTTP/1.1 505 HTTP Version Not Supported\r\nconnection: close\r\n\
    content-type: text/plain; charset=utf-8\r\ncontent-length: 33\r\n\r\nthis port supports only HTTP/1.1\n";

/// A part of the head of a response without a body.
const NO_BODY: &[u8] = b"\r\ncontent-length: 0\r\n";

/// The most bytes of responses that are held back. A longer response is written directly.
pub(super) const TOGETHER: usize = 32 * 1024;

pub(crate) struct Paced<S> {
    stream: S,
    client: ClientConnection,
    /// `None` for a protocol other than HTTP.
    unreadable: Option<Unreadable>,
    write_wait: Duration,
    /// Responses that are not written yet: at most [`TOGETHER`] bytes of hyper's responses.
    /// Responses to hot requests are added until they exceed this limit.
    pub(super) held: BytesMut,
    /// True if bytes were added to `held` since the last flush.
    is_new: bool,
    /// True if the bytes of the last read contain more than the head of one request.
    may_follow: bool,
    /// The timer for the first byte.
    silent: Option<Pin<Box<Sleep>>>,
    /// The timer while the client receives nothing.
    blocked: Option<Pin<Box<Sleep>>>,
    /// The most bytes that the stream has accepted and not sent.
    buffered: usize,
}

impl<S> Paced<S> {
    pub(super) fn new(
        stream: S,
        bounds: &Bounds,
        client: ClientConnection,
        unreadable: Option<Unreadable>,
    ) -> Self {
        Self {
            stream,
            client,
            unreadable,
            write_wait: bounds.write_wait,
            held: BytesMut::new(),
            is_new: false,
            may_follow: false,
            silent: bounds.first_byte.map(|longest| Box::pin(sleep(longest))),
            blocked: None,
            buffered: 0,
        }
    }
}

/// Returns whether bytes follow the head of a request or may follow it: its body, or another
/// request.
fn follows(read: &[u8]) -> bool {
    memmem::find(read, b"\r\n\r\n").is_some_and(|end| end + 4 < read.len())
}

/// A header of every other response.
const OF_ENDPOINT: &[u8] = b"\r\nx-request-id: ";

/// The status of a response that hyper itself generated for an unreadable head.
fn status_of_unreadable(slices: &[io::IoSlice<'_>]) -> Option<StatusCode> {
    let first = slices.iter().find(|slice| !slice.is_empty())?;
    let status = first.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    // Checked in this order, because nearly all responses are successes.
    let is_refusal = status.starts_with(b"4")
        && memmem::find(first, NO_BODY).is_some()
        && memmem::find(first, OF_ENDPOINT).is_none();
    is_refusal.then(|| StatusCode::from_bytes(status).ok())?
}

/// Writes the head and the body that replace the empty response of hyper. hyper closes the
/// connection after it.
fn write_unreadable(answer: &Response<Bytes>, empty: &[u8], into: &mut BytesMut) {
    let at = memmem::find(empty, NO_BODY).map_or(0, |at| at + 2);
    into.extend_from_slice(&empty[..at]);
    for (name, value) in answer.headers() {
        write_header(name.as_str(), value.as_bytes(), into);
    }
    let length = answer.body().len().to_string();
    write_header("content-length", length.as_bytes(), into);
    into.extend_from_slice(&empty[at + NO_BODY.len() - 2..]);
    into.extend_from_slice(answer.body());
}

pub(super) fn write_header(name: &str, value: &[u8], into: &mut BytesMut) {
    into.extend_from_slice(name.as_bytes());
    into.extend_from_slice(b": ");
    into.extend_from_slice(value);
    into.extend_from_slice(b"\r\n");
}

fn timed_out(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<S: AsyncWrite + Unpin> Paced<S> {
    /// The result of a write, or an error if the client has taken nothing for too long.
    fn written(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(result) = written else {
            return self.or_too_late(cx);
        };
        self.buffered += *result.as_ref().unwrap_or(&0);
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(Ok(())) => self.sent_all_but(0),
            _ => self.sent_all_but(WRITE_BUFFER),
        }
        Poll::Ready(result)
    }

    /// Records that the stream has sent all accepted bytes, up to this many.
    fn sent_all_but(&mut self, most_buffered: usize) {
        let sent = self.buffered.saturating_sub(most_buffered);
        if sent > 0 {
            self.buffered -= sent;
            self.client.sent(sent);
        }
        if sent > 0 || most_buffered == 0 {
            self.blocked = None;
        }
    }

    /// Waits, and fails when the client has received nothing for too long.
    fn or_too_late<R>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<R>> {
        let wait = self.write_wait;
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(wait)));
        ready!(blocked.as_mut().poll(cx));
        Poll::Ready(Err(timed_out("the client does not read its response")))
    }

    /// The result of a flush or of a shutdown, with the same time limit as a write.
    fn flushed(
        &mut self,
        cx: &mut Context<'_>,
        flushed: Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        if flushed.is_pending() {
            return self.or_too_late(cx);
        }
        self.sent_all_but(0);
        flushed
    }

    fn poll_write_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(cx, &self.held);
            let written = ready!(self.written(cx, written))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.held.advance(written);
        }
        // Its capacity alone does not include the part before the bytes that were written last.
        if self.held.try_reclaim(2 * TOGETHER + 1) {
            self.held = BytesMut::new();
        }
        self.is_new = false;
        Poll::Ready(Ok(()))
    }

    /// Adds a response to the held responses.
    pub(super) fn hold(&mut self, response: &[u8]) {
        self.client.gave(response.len());
        self.held.extend_from_slice(response);
    }

    /// Writes all responses that are held back.
    pub(super) fn poll_flush_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_held(cx))?;
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.flushed(cx, flushed)
    }

    pub(super) async fn flush_held(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_flush_held(cx)).await
    }
}

impl<S> Drop for Paced<S> {
    fn drop(&mut self) {
        self.client.left();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // While a client does not receive its responses, no more of its requests are read.
        ready!(self.poll_write_held(cx))?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            let is_first = self.silent.take().is_some();
            let read_now = &buffer.filled()[before..];
            if is_first && self.unreadable.is_some() && read_now.starts_with(HTTP_2) {
                let _ = Pin::new(&mut self.stream).poll_write(cx, NO_HTTP_2);
                return Poll::Ready(Err(io::Error::other("the client speaks HTTP/2")));
            }
            self.may_follow = follows(read_now);
            return read;
        }
        if let Some(silent) = &mut self.silent {
            ready!(silent.as_mut().poll(cx));
            return Poll::Ready(Err(timed_out("the client sends nothing")));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if let Some(unreadable) = &self.unreadable
            && let Some(status) = status_of_unreadable(slices)
        {
            let answer = unreadable(status);
            let empty: Vec<u8> = slices
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .collect();
            write_unreadable(&answer, &empty, &mut self.held);
            self.is_new = true;
            return Poll::Ready(Ok(length));
        }
        if self.may_follow && self.held.len() + length <= TOGETHER {
            for slice in slices {
                self.held.extend_from_slice(slice);
            }
            self.is_new = true;
            return Poll::Ready(Ok(length));
        }
        ready!(self.poll_write_held(cx))?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.is_new) {
            // hyper is polled again: it adds the next response, reads, or flushes.
            cx.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        self.poll_flush_held(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_held(cx))?;
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.flushed(cx, closed)
    }
}
