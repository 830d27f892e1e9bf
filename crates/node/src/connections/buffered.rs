//! A client's connection with the bytes that were read and not served yet.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::arriving::Feed;
use super::paced::{Paced, TOGETHER};

/// The size of the read buffer, equal to hyper's initial size: about 80 pipelined requests.
const READ: usize = 8 * 1024;

/// The largest buffer that an idle connection keeps, a few usual requests.
const KEPT: usize = 1024;

thread_local! {
    /// The read buffer that all connections of a thread share, so that an idle connection needs
    /// none.
    static SPACE: RefCell<[MaybeUninit<u8>; READ]> =
        const { RefCell::new([MaybeUninit::uninit(); READ]) };
}

/// The limits for discarding the input of a connection that is being closed.
const MOST_DISCARDED: usize = 1 << 20;
const DISCARD_FOR: Duration = Duration::from_secs(1);

/// After this many reads without a wait, the task yields to other connections.
const EAGER: u32 = 4;

pub(crate) struct Buffered<T> {
    pub(super) stream: Paced<T>,
    pub(crate) bytes: BytesMut,
    idle: Idle,
    /// The reads since the connection last waited for bytes.
    eager: u32,
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

impl<T: AsyncRead + AsyncWrite + Unpin> Buffered<T> {
    /// A connection that may be idle for `longest_idle`; `None` for no limit.
    pub(super) fn new(stream: Paced<T>, bytes: BytesMut, longest_idle: Option<Duration>) -> Self {
        let idle = Idle {
            longest: longest_idle,
            timer: None,
        };
        Self {
            stream,
            bytes,
            idle,
            eager: 0,
        }
    }

    /// A new connection of a protocol whose clients may be idle.
    pub(crate) fn pooled(stream: Paced<T>) -> Self {
        Self::new(stream, BytesMut::new(), None)
    }

    /// Returns whether the last read waited for bytes, after all replies were sent.
    pub(crate) fn has_waited(&self) -> bool {
        self.eager == 0
    }

    /// Appends a reply. It is sent when more bytes are read.
    pub(crate) fn reply(&mut self, bytes: &[u8]) {
        self.stream.hold(bytes);
    }

    /// Sends the replies if there are many.
    pub(crate) async fn flush_many(&mut self) -> io::Result<()> {
        if self.stream.held.len() > TOGETHER {
            self.stream.flush_held().await?;
        }
        Ok(())
    }

    /// Sends the replies and closes the connection of a client that has closed its side.
    pub(crate) async fn close(mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// Sends the replies and closes the connection of a client that may still be sending. Then
    /// reads the input to its end: the system resets a connection that is closed with unread input,
    /// and the client could lose replies.
    pub(crate) async fn close_unread(mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        let discard = async {
            let mut left = MOST_DISCARDED;
            while left > 0 {
                self.bytes.clear();
                let read = poll_fn(|cx| self.poll_read(cx)).await?;
                if read == 0 {
                    break;
                }
                left = left.saturating_sub(read);
            }
            Ok(())
        };
        timeout(DISCARD_FOR, discard).await.unwrap_or(Ok(()))
    }

    /// Waits for a reply, while earlier replies are sent. Unlike [`Buffered::while_connected`],
    /// continues after the client has closed its side, because the client may still read.
    pub(crate) async fn while_flushing<R>(
        &mut self,
        mut replied: Pin<&mut impl Future<Output = R>>,
    ) -> io::Result<R> {
        poll_fn(|cx| {
            if let Poll::Ready(reply) = replied.as_mut().poll(cx) {
                return Poll::Ready(Ok(reply));
            }
            self.poll_send(cx)
        })
        .await
    }

    /// Sends earlier replies. Ready only with an error.
    fn poll_send<R>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<R>> {
        match self.stream.poll_flush_held(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Pending,
        }
    }

    /// Reads more bytes, after the responses are sent. Returns `false` at the end of the
    /// connection. `stop` ends when the port stops.
    pub(crate) async fn fill(
        &mut self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> io::Result<bool> {
        if self.eager == EAGER {
            self.eager = 0;
            yield_now().await;
        }
        self.eager += 1;
        let mut is_waiting = false;
        poll_fn(|cx| {
            if let Poll::Ready(read) = self.poll_read(cx) {
                return Poll::Ready(read.map(|bytes| bytes > 0));
            }
            if !is_waiting {
                is_waiting = true;
                self.eager = 0;
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
        // Flushed, not only written, because TLS may buffer the end of a response.
        ready!(self.stream.poll_flush_held(cx))?;
        SPACE.with_borrow_mut(|space| {
            let mut space = ReadBuf::uninit(space);
            let read = Pin::new(&mut self.stream).poll_read(cx, &mut space);
            if read.is_pending() && self.bytes.is_empty() && self.bytes.capacity() > KEPT {
                self.bytes = BytesMut::new();
            }
            ready!(read)?;
            self.bytes.extend_from_slice(space.filled());
            Poll::Ready(Ok(space.filled().len()))
        })
    }

    /// Waits for a response to a request whose body is arriving, while the body is read and earlier
    /// responses are sent. Returns `None` if the body is complete before the response.
    ///
    /// The body is read only after the response was polled, so that memory holds no more of the
    /// body than the handler has requested.
    pub(super) async fn while_arriving<R>(
        &mut self,
        mut answered: Pin<&mut impl Future<Output = R>>,
        feed: &Feed,
    ) -> io::Result<Option<R>> {
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(response) = answered.as_mut().poll(cx) {
                    return Poll::Ready(Ok(Some(response)));
                }
                if feed.is_complete() {
                    return Poll::Ready(Ok(None));
                }
                if !feed.is_wanted() {
                    return self.poll_send(cx);
                }
                match ready!(self.poll_read(cx))? {
                    0 => feed.cut(),
                    _ => feed.give(&mut self.bytes),
                }
            }
        })
        .await
    }

    /// Waits for a response, while earlier responses are sent. Returns `None` if the client
    /// disconnects first. As in hyper, a disconnection is detected only if no further request has
    /// arrived: a client that has sent one may still read the response. `ignored` returns the
    /// number of leading bytes that are not part of a request.
    pub(crate) async fn while_connected<R>(
        &mut self,
        mut answered: Pin<&mut impl Future<Output = R>>,
        ignored: impl Fn(&[u8]) -> usize,
    ) -> io::Result<Option<R>> {
        poll_fn(|cx| {
            if let Poll::Ready(response) = answered.as_mut().poll(cx) {
                return Poll::Ready(Ok(Some(response)));
            }
            loop {
                self.bytes.advance(ignored(&self.bytes));
                if !self.bytes.is_empty() {
                    return self.poll_send(cx);
                }
                if ready!(self.poll_read(cx))? == 0 {
                    return Poll::Ready(Ok(None));
                }
            }
        })
        .await
    }
}
