//! One direction of a connection, and the stream that a node makes of two of them.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use seqd_net::Lock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::net::Net;

/// Bytes that a connection buffers before its reader takes them: the buffers of both hosts.
const BUFFERED: usize = 512 << 10;

/// The largest piece that is sent, lost and delivered as a whole.
const SEGMENT: usize = 16 << 10;

pub(super) struct Pipe {
    pub(super) from: usize,
    pub(super) to: usize,
    net: Arc<Net>,
    began: Instant,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    segments: VecDeque<(Instant, Bytes)>,
    buffered: usize,
    last_due: Option<Instant>,
    /// Set once the writer has ended: the time at which the reader receives the end.
    ended: Option<Instant>,
    /// True if the reading end was dropped.
    is_left: bool,
    is_reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    pub(super) fn new(net: &Arc<Net>, from: usize, to: usize) -> Arc<Self> {
        Arc::new(Self {
            from,
            to,
            net: Arc::clone(net),
            began: Instant::now(),
            state: Lock::default(),
        })
    }

    pub(super) fn reset(&self) {
        let mut state = self.state.lock();
        state.is_reset = true;
        state.segments.clear();
        state.wake();
    }

    /// Delays all deliveries until `until`.
    pub(super) fn hold_up(&self, until: Instant) {
        let mut state = self.state.lock();
        for (due, _) in &mut state.segments {
            *due = until.max(*due);
        }
        state.last_due = state.last_due.max(Some(until));
        state.ended = state.ended.map(|ended| ended.max(until));
    }

    fn send(&self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(SEGMENT);
        let due = self.net.due(self.from, self.to, taken);
        let mut state = self.state.lock();
        let due = state.last_due.map_or(due, |last| last.max(due));
        state.last_due = Some(due);
        state.buffered += taken;
        let bytes = Bytes::copy_from_slice(&bytes[..taken]);
        state.segments.push_back((due, bytes));
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
        taken
    }
}

impl State {
    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()]
            .into_iter()
            .flatten()
        {
            waker.wake();
        }
    }
}

/// One node's end of a connection. Dropping it ends both directions.
pub(super) struct End {
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
    arrival: Option<Pin<Box<Sleep>>>,
}

impl End {
    pub(super) fn new(incoming: &Arc<Pipe>, outgoing: &Arc<Pipe>) -> Self {
        Self {
            incoming: Arc::clone(incoming),
            outgoing: Arc::clone(outgoing),
            arrival: None,
        }
    }
}

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let pipe = Arc::clone(&self.incoming);
            let mut state = pipe.state.lock();
            if state.is_reset {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            state.reader = Some(context.waker().clone());
            let next = state.segments.front().map(|(due, _)| *due).or(state.ended);
            let Some(due) = next else {
                return Poll::Pending;
            };
            drop(state);
            if !pipe.net.arrives(pipe.from, pipe.to, context.waker()) {
                return Poll::Pending;
            }
            if due > Instant::now() {
                let mut arrival = Box::pin(sleep_until(due));
                if arrival.as_mut().poll(context).is_pending() {
                    self.arrival = Some(arrival);
                    return Poll::Pending;
                }
                continue;
            }
            let mut state = pipe.state.lock();
            let Some((_, bytes)) = state.segments.front_mut() else {
                return Poll::Ready(Ok(()));
            };
            let part = bytes.split_to(bytes.len().min(buffer.remaining()));
            let is_empty = !bytes.has_remaining();
            if is_empty {
                state.segments.pop_front();
            }
            state.buffered -= part.len();
            if let Some(writer) = state.writer.take() {
                writer.wake();
            }
            drop(state);
            buffer.put_slice(&part);
            pipe.net
                .delivered(pipe.from, pipe.to, pipe.began.elapsed(), &part);
            return Poll::Ready(Ok(()));
        }
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.outgoing.state.lock();
        if state.is_reset || state.is_left {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if state.buffered >= BUFFERED {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        Poll::Ready(Ok(self.outgoing.send(bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.end();
        Poll::Ready(Ok(()))
    }
}

impl Pipe {
    fn end(&self) {
        let due = self.net.due(self.from, self.to, 0);
        let mut state = self.state.lock();
        if state.ended.is_none() {
            state.ended = Some(state.last_due.map_or(due, |last| last.max(due)));
        }
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let net = &self.outgoing.net;
        let (own, other) = (self.outgoing.from, self.outgoing.to);
        // The ends on a host without power end silently.
        if net.is_dark(own) {
            return;
        }
        self.outgoing.end();
        let mut incoming = self.incoming.state.lock();
        incoming.is_left = !net.is_dark(other);
        if let Some(writer) = incoming.writer.take() {
            writer.wake();
        }
    }
}
