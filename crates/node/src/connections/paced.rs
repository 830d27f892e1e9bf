//! A client's connection with limits on unsent bytes and on idle time.
//!
//! Responses to pipelined requests are sent together, which makes clients with pipelining six times
//! as fast. They are held back until hyper reads the next request or has nothing to add. The
//! corresponding option of hyper has no limit, and withholds responses while the next request is
//! incomplete.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use bytes::{Buf, BytesMut};
use hyper::{Response, StatusCode};
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::held::Entry;
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
    entry: Entry,
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
    /// The timer while nothing can be written.
    blocked: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    pub(super) fn new(
        stream: S,
        bounds: &Bounds,
        entry: Entry,
        unreadable: Option<Unreadable>,
    ) -> Self {
        Self {
            stream,
            entry,
            unreadable,
            write_wait: bounds.write_wait,
            held: BytesMut::new(),
            is_new: false,
            may_follow: false,
            silent: bounds.first_byte.map(|longest| Box::pin(sleep(longest))),
            blocked: None,
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
        into.extend_from_slice(name.as_str().as_bytes());
        into.extend_from_slice(b": ");
        into.extend_from_slice(value.as_bytes());
        into.extend_from_slice(b"\r\n");
    }
    let length = format!("content-length: {}\r\n", answer.body().len());
    into.extend_from_slice(length.as_bytes());
    into.extend_from_slice(&empty[at + NO_BODY.len() - 2..]);
    into.extend_from_slice(answer.body());
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
        if let Poll::Ready(result) = &written {
            self.blocked = None;
            self.entry.sent(*result.as_ref().unwrap_or(&0));
            return written;
        }
        let wait = self.write_wait;
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(wait)));
        ready!(blocked.as_mut().poll(cx));
        Poll::Ready(Err(timed_out("the client does not read its response")))
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
        self.entry.gave(response.len());
        self.held.extend_from_slice(response);
    }

    /// Writes all responses that are held back.
    pub(super) fn poll_flush_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_held(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    pub(super) async fn flush_held(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_flush_held(cx)).await
    }
}

impl<S> Drop for Paced<S> {
    fn drop(&mut self) {
        self.entry.left();
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
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hyper::Request;
    use hyper::body::{Body, Frame, Incoming};
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, timeout};

    use super::super::held::Held;
    use super::super::limits::HttpLimits;
    use super::*;

    const LIMITS: HttpLimits = HttpLimits {
        head_bytes: 32 * 1024,
        headers: 64,
        hot: None,
        head_wait: Some(Duration::from_secs(100)),
        bounds: BOUNDS,
    };
    const FIRST_BYTE: Duration = Duration::from_secs(5);
    const BOUNDS: Bounds = Bounds {
        first_byte: Some(FIRST_BYTE),
        write_wait: Duration::from_secs(10),
        unsent_bytes: 1 << 20,
    };
    const SECOND: Duration = Duration::from_secs(1);

    /// A body of one piece.
    struct Once(Option<Bytes>);

    impl Body for Once {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_none()
        }

        fn size_hint(&self) -> hyper::body::SizeHint {
            let length = self.0.as_ref().map_or(0, Bytes::len);
            hyper::body::SizeHint::with_exact(length as u64)
        }
    }

    /// The client's side of a served connection with a buffer of `on_its_way` bytes, and the number
    /// of answered requests. `/slow` takes a minute. Any other path has a response of `length`
    /// bytes.
    fn served(on_its_way: usize, length: usize) -> (DuplexStream, Arc<AtomicUsize>) {
        let (near, far) = duplex(on_its_way);
        let answered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&answered);
        let service = service_fn(move |request: Request<Incoming>| {
            let count = Arc::clone(&count);
            async move {
                if request.uri().path() == "/slow" {
                    sleep(60 * SECOND).await;
                }
                count.fetch_add(1, Ordering::SeqCst);
                let body = Once(Some(Bytes::from(vec![b'x'; length])));
                Ok::<_, Infallible>(Response::new(body))
            }
        });
        tokio::spawn(async move {
            let entry = Held::new(2, BOUNDS.unsent_bytes).entry(None);
            let unreadable: Unreadable = Arc::new(|_| Response::new(Bytes::from_static(b"why")));
            let stream = TokioIo::new(Paced::new(near, &BOUNDS, entry, Some(unreadable)));
            let _ = LIMITS.builder().serve_connection(stream, service).await;
        });
        (far, answered)
    }

    const ONE: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    async fn answer(client: &mut DuplexStream, length: usize) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = timeout(SECOND, client.read_u8()).await;
            head.push(byte.expect("an answer in time").unwrap());
        }
        let mut body = vec![0; length];
        client.read_exact(&mut body).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_neither_for_a_partial_request_nor_for_a_slow_one_after_it() {
        for behind in [
            &b"\r\n"[..],
            b"GE",
            b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n",
        ] {
            let (mut client, _) = served(1 << 20, 3);
            client.write_all(&[ONE, behind].concat()).await.unwrap();
            answer(&mut client, 3).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pipelined_answers_leave_together_and_in_order() {
        let (mut client, answered) = served(1 << 20, 3);
        client.write_all(&ONE.repeat(100)).await.unwrap();
        for _ in 0..100 {
            answer(&mut client, 3).await;
        }
        assert_eq!(answered.load(Ordering::SeqCst), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_never_read_are_few_and_end_the_connection() {
        let (mut client, answered) = served(64 << 10, 100 << 10);
        client.write_all(&ONE.repeat(1000)).await.unwrap();
        sleep(BOUNDS.write_wait / 2).await;
        let few = answered.load(Ordering::SeqCst);
        assert!(few <= 3, "{few} answers of 100 KiB");
        sleep(BOUNDS.write_wait).await;
        let mut rest = Vec::new();
        let read = timeout(SECOND, client.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "the connection is open");
        assert_eq!(answered.load(Ordering::SeqCst), few);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_gets_everything() {
        let (mut client, _) = served(1 << 10, 10 << 10);
        client.write_all(&ONE.repeat(20)).await.unwrap();
        for _ in 0..20 {
            sleep(BOUNDS.write_wait / 2).await;
            answer(&mut client, 10 << 10).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_cannot_be_read_is_answered_with_a_body_after_those_before_it() {
        let many = format!(
            "GET / HTTP/1.1\r\n{}\r\n",
            "a: b\r\n".repeat(LIMITS.headers + 1)
        );
        let long = format!(
            "GET / HTTP/1.1\r\na: {}\r\n\r\n",
            "b".repeat(LIMITS.head_bytes)
        );
        for (head, status) in [
            (&b"GET / HTTP/1.1\r\nno colon\r\n\r\n"[..], 400),
            (b"GET /\r\n\r\n", 400),
            (b"no request\r\n\r\n", 400),
            (many.as_bytes(), 431),
            (long.as_bytes(), 431),
        ] {
            for before in [0, 1, 20] {
                let (mut client, _) = served(1 << 20, 3);
                let all = [&ONE.repeat(before), head].concat();
                client.write_all(&all).await.unwrap();
                for _ in 0..before {
                    answer(&mut client, 3).await;
                }
                let mut last = String::new();
                client.read_to_string(&mut last).await.unwrap();
                let begin = format!("HTTP/1.1 {status} ");
                assert!(last.starts_with(&begin), "{status} {before}: {last:?}");
                assert!(last.contains("connection: close\r\n"), "{last:?}");
                assert!(
                    last.ends_with("content-length: 3\r\n\r\nwhy") || last.ends_with("\r\n\r\nwhy"),
                    "{last:?}"
                );
                assert!(last.contains("content-length: 3\r\n"), "{last:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn http_2_is_refused_with_an_answer() {
        let (mut client, _) = served(1 << 10, 3);
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        client.write_all(preface).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 505 "), "{answer}");
        assert!(head.contains(&format!("content-length: {}", body.len())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_sends_nothing_is_closed() {
        let (mut client, _) = served(1 << 10, 3);
        let began = Instant::now();
        let end = client.read_u8().await;
        assert!(end.is_err());
        assert!(began.elapsed() >= FIRST_BYTE && began.elapsed() < 2 * FIRST_BYTE);
        // After its first request, a connection may be idle for longer.
        let (mut client, _) = served(1 << 10, 3);
        client.write_all(ONE).await.unwrap();
        answer(&mut client, 3).await;
        sleep(2 * FIRST_BYTE).await;
        client.write_all(ONE).await.unwrap();
        answer(&mut client, 3).await;
    }
}
