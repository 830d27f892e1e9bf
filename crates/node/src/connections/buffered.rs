//! A client's connection with the bytes that were read and not served yet.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::arriving::Feed;
use super::paced::{Paced, TOGETHER};

/// The size of the read buffer, equal to hyper's initial size: about 80 pipelined requests.
const READ: usize = 8 * 1024;

/// The largest buffers that an idle connection keeps: a few usual requests, and a response with a
/// hundred IDs.
const KEPT: usize = 1024;
const RESPONSE_KEPT: usize = 4 * 1024;

/// Frees the memory of an empty buffer of more than `kept` bytes. Its capacity does not show this,
/// because it does not include the part before the bytes that were taken last.
fn release(buffer: &mut BytesMut, kept: usize) {
    if buffer.is_empty() && buffer.try_reclaim(kept + 1) {
        *buffer = BytesMut::new();
    }
}

/// Sends the responses and closes the connection of a client that may still be sending, as
/// [`Buffered::close_unread`].
pub(super) async fn close_unread<T>(stream: &mut Paced<T>) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    stream.shutdown().await?;
    let discard = async {
        let mut left = MOST_DISCARDED;
        let mut space = vec![0; READ];
        while left > 0 {
            let read = stream.read(&mut space).await?;
            if read == 0 {
                break;
            }
            left = left.saturating_sub(read);
        }
        Ok(())
    };
    timeout(DISCARD_FOR, discard).await.unwrap_or(Ok(()))
}

thread_local! {
    /// The read buffer that all connections of a thread share, so that an idle connection needs
    /// none.
    static SPACE: RefCell<[MaybeUninit<u8>; READ]> =
        const { RefCell::new([MaybeUninit::uninit(); READ]) };
}

/// The time limit for the rest of a request whose beginning has arrived, equal to that of the body
/// of an HTTP request. The time in which replies wait for the client to read them does not count.
pub(crate) const REST_WAIT: Duration = Duration::from_secs(10);

/// The limits for discarding the input of a connection that is being closed.
const MOST_DISCARDED: usize = 1 << 20;
const DISCARD_FOR: Duration = Duration::from_secs(1);

/// After this many reads without a wait, the task yields to other connections.
const EAGER: u32 = 4;

pub(crate) struct Buffered<T> {
    pub(super) stream: Paced<T>,
    pub(crate) bytes: BytesMut,
    idle: Idle,
    /// The timer of an incomplete request, for a protocol whose clients may be idle.
    rest: Option<Pin<Box<Sleep>>>,
    /// The reads since the connection last waited for bytes.
    eager: u32,
}

/// The result of a wait for more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Bytes were read.
    More,
    /// The connection ends: the client has closed its side, was idle for too long, or `stop` ended.
    End,
    /// The rest of a request did not arrive in time.
    Late,
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
            rest: None,
            eager: 0,
        }
    }

    /// A new connection of a protocol whose clients may be idle.
    pub(crate) fn pooled(stream: Paced<T>) -> Self {
        Self::new(stream, BytesMut::new(), None)
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
        close_unread(&mut self.stream).await
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

    /// Begins the time limit of the next incomplete request, because a request was complete.
    pub(crate) fn end_request(&mut self) {
        self.rest = None;
    }

    /// Returns whether the rest of the incomplete request is late.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        if self.idle.longest.is_some() || self.bytes.is_empty() {
            self.rest = None;
            return false;
        }
        let rest = self.rest.get_or_insert_with(|| Box::pin(sleep(REST_WAIT)));
        if !self.stream.held.is_empty() {
            rest.as_mut().reset(Instant::now() + REST_WAIT);
        }
        rest.as_mut().poll(cx).is_ready()
    }

    /// Reads more bytes, after the responses are sent. `stop` ends when the port stops.
    pub(crate) async fn fill(
        &mut self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> io::Result<Filled> {
        if self.eager == EAGER {
            self.eager = 0;
            yield_now().await;
        }
        self.eager += 1;
        let mut is_waiting = false;
        poll_fn(|cx| {
            if let Poll::Ready(read) = self.poll_read(cx) {
                return Poll::Ready(read.map(|bytes| match bytes {
                    0 => Filled::End,
                    _ => Filled::More,
                }));
            }
            if !is_waiting {
                is_waiting = true;
                self.eager = 0;
                self.idle.begin();
            }
            if stop.as_mut().poll(cx).is_ready() || self.idle.is_over(cx) {
                return Poll::Ready(Ok(Filled::End));
            }
            if self.is_late(cx) {
                return Poll::Ready(Ok(Filled::Late));
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
            if read.is_pending() {
                release(&mut self.bytes, KEPT);
                release(&mut self.stream.held, RESPONSE_KEPT);
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

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::super::held::Held;
    use super::super::limits::Bounds;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The client's side of a connection with a buffer of `on_its_way` bytes, and the node's side.
    fn connected(on_its_way: usize) -> (DuplexStream, Buffered<DuplexStream>) {
        let (client, node) = duplex(on_its_way);
        let own = Held::new(2, Bounds::POOLED.unsent_bytes).connection(None, false);
        let paced = Paced::new(node, &Bounds::POOLED, own, None);
        (client, Buffered::pooled(paced))
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_keeps_no_memory_of_its_largest_request_and_response() {
        let (mut client, mut node) = connected(1 << 20);
        client.write_all(&[b'x'; 60_000]).await.unwrap();
        while node.bytes.len() < 60_000 {
            assert_eq!(node.fill(pin!(pending())).await.unwrap(), Filled::More);
        }
        // A part is taken as requests are, which leaves little capacity.
        drop(node.bytes.split_to(60_000));
        node.reply(&[b'y'; 200_000]);
        // The wait for the next request is cut off.
        assert_eq!(node.fill(pin!(sleep(SECOND))).await.unwrap(), Filled::End);
        let mut response = vec![0; 200_000];
        client.read_exact(&mut response).await.unwrap();
        for (buffer, kept) in [
            (&mut node.bytes, KEPT),
            (&mut node.stream.held, RESPONSE_KEPT),
        ] {
            assert!(buffer.is_empty());
            let is_large = buffer.try_reclaim(kept + 1);
            assert!(!is_large, "an idle connection keeps a large buffer");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_buffer_of_responses_is_freed_while_requests_follow() {
        let (mut client, mut node) = connected(1 << 20);
        node.reply(&[b'y'; 200_000]);
        node.flush_many().await.unwrap();
        assert!(!node.stream.held.try_reclaim(2 * TOGETHER + 1));
        let mut response = vec![0; 200_000];
        client.read_exact(&mut response).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_request_has_a_time_limit() {
        let (mut client, mut node) = connected(1 << 20);
        // Between two requests, there is no limit.
        let idle = node.fill(pin!(sleep(10 * REST_WAIT))).await.unwrap();
        assert_eq!(idle, Filled::End);
        let begun = Instant::now();
        let trickles = async {
            for _ in 0..5 {
                client.write_all(b"x").await.unwrap();
                sleep(REST_WAIT / 4).await;
            }
        };
        let late = async {
            while node.fill(pin!(pending())).await.unwrap() == Filled::More {}
            begun.elapsed()
        };
        let late = timeout(4 * REST_WAIT, late);
        let ((), late) = tokio::join!(trickles, late);
        let late = late.expect("a request may stay incomplete for ever");
        assert!((REST_WAIT..REST_WAIT + SECOND).contains(&late), "{late:?}");
        // A request was complete, and another begins.
        node.end_request();
        let next = node.fill(pin!(sleep(REST_WAIT / 2))).await.unwrap();
        assert_eq!(next, Filled::End);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_in_which_a_client_reads_its_replies_does_not_count() {
        let (mut client, mut node) = connected(1 << 10);
        client.write_all(b"x").await.unwrap();
        assert_eq!(node.fill(pin!(pending())).await.unwrap(), Filled::More);
        node.reply(&[b'y'; 4 << 10]);
        let reads = async {
            // After the third read, all replies are sent.
            for _ in 0..3 {
                sleep(REST_WAIT).await;
                let mut part = [0; 1 << 10];
                client.read_exact(&mut part).await.unwrap();
            }
            sleep(REST_WAIT / 2).await;
            client.write_all(b"x").await.unwrap();
        };
        let never = pin!(pending());
        let ((), filled) = tokio::join!(reads, node.fill(never));
        assert_eq!(filled.unwrap(), Filled::More);
    }
}
