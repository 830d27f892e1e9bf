//! One connection to a peer at the calling side: its task, and its calls.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use seqd_net::{BoxStream, Dial};
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::codec::FramedRead;

use super::calls::{Calls, Ended};
use super::frame::{Frame, FrameCodec, VERSION};
use super::route::Route;
use super::transport::{CallError, Limit, Link, Payload};
use super::writer::{Parts, URGENT, Writer};
use crate::tasks::Tasks;

/// The longest time to connect to a peer.
const CONNECT: Duration = Duration::from_millis(500);

/// A connection that was not used for this long is closed.
const IDLE: Duration = Duration::from_secs(60);

/// The most concurrent calls of one connection. A follower watches its leader once, a node has two
/// groups in flight, and all other calls are rarer.
const CALLS: usize = 256;

/// A connection that is open or being opened. It is closed when this is dropped.
pub(super) struct Connection {
    pub(super) calls: Arc<Calls>,
    places: Arc<Semaphore>,
    queue: mpsc::UnboundedSender<Outgoing>,
    urgent: mpsc::Sender<Frame>,
    task: AbortHandle,
}

/// A call that waits to be sent.
struct Outgoing {
    call: u64,
    route: Route,
    limit_ms: u32,
    payload: Payload,
}

impl Connection {
    /// Connects in the background, so that the time limit of a caller does not interrupt it.
    pub(super) fn open(dial: Arc<dyn Dial>, tasks: &dyn Tasks, addr: String, link: Link) -> Self {
        let calls = Arc::new(Calls::new(link.window()));
        let (queue, outgoing) = mpsc::unbounded_channel();
        let (urgent, urgent_frames) = mpsc::channel(URGENT);
        let ends = TaskQueues {
            outgoing,
            urgent: urgent.clone(),
            urgent_frames,
        };
        let task = tasks.spawn(Box::pin(run(dial, addr, link, Arc::clone(&calls), ends)));
        Self {
            calls,
            places: Arc::new(Semaphore::new(CALLS)),
            queue,
            urgent,
            task: task.abort_handle(),
        }
    }

    pub(super) async fn call(
        &self,
        route: Route,
        payload: Payload,
        limit: Limit,
    ) -> Result<Bytes, CallError> {
        let began = Instant::now();
        let (first, limit_ms) = match limit {
            // Rounded up to milliseconds: the receiver never ends a call before its caller does.
            Limit::Total(total) => (total, u32::try_from(total.as_millis() + 1)),
            Limit::Progress { moving, .. } => (moving, Ok(0)),
        };
        let place = timeout_at(began + first, Arc::clone(&self.places).acquire_owned()).await;
        let Ok(Ok(place)) = place else {
            return Err(CallError::Unsent("too many calls are under way".to_owned()));
        };
        let (call, mut waiting) = self.calls.begin(place)?;
        let mut under_way = UnderWay {
            connection: self,
            call,
            is_over: false,
        };
        // If the task has ended, it has ended this call too.
        let _ = self.queue.send(Outgoing {
            call,
            route,
            limit_ms: limit_ms.unwrap_or(0),
            payload,
        });
        loop {
            let until = self.calls.deadline(call, began, limit);
            tokio::select! {
                biased;
                answer = &mut waiting => {
                    under_way.is_over = true;
                    let lost = || CallError::Broken("the connection was dropped".to_owned());
                    return answer.unwrap_or_else(|_| Err(lost()));
                }
                () = sleep_until(until.unwrap_or(began)), if until.is_some() => {
                    let until = self.calls.deadline(call, began, limit);
                    if until.is_some_and(|until| until <= Instant::now())
                        && let Some(was_sent) = under_way.give_up()
                    {
                        return Err(if was_sent {
                            CallError::NoAnswer
                        } else {
                            CallError::Unsent("not sent in time".to_owned())
                        });
                    }
                }
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A call that is abandoned when its caller drops it.
struct UnderWay<'a> {
    connection: &'a Connection,
    call: u64,
    is_over: bool,
}

impl UnderWay<'_> {
    /// Returns whether the call was sent, or `None` if it has ended.
    fn give_up(&mut self) -> Option<bool> {
        let was_sent = self.connection.calls.give_up(self.call)?;
        self.is_over = true;
        if was_sent {
            let cancel = Frame::Cancel { call: self.call };
            if self.connection.urgent.try_send(cancel).is_err() {
                // The connection accepts no bytes, so only its end can end the call at the peer.
                self.connection.calls.retire();
            }
        }
        Some(was_sent)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.give_up();
        }
    }
}

/// The queues of the connection's task: calls and urgent frames.
struct TaskQueues {
    outgoing: mpsc::UnboundedReceiver<Outgoing>,
    urgent: mpsc::Sender<Frame>,
    urgent_frames: mpsc::Receiver<Frame>,
}

async fn run(dial: Arc<dyn Dial>, addr: String, link: Link, calls: Arc<Calls>, ends: TaskQueues) {
    let unsent = |why: String| Ended::Unused(CallError::Unsent(why));
    let (ended, accepted) = match timeout(CONNECT, dial.dial(&addr)).await {
        Ok(Ok(stream)) => {
            calls.connected();
            converse(stream, link, &calls, ends).await
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            (Ended::Unused(CallError::Refused), 0)
        }
        Ok(Err(error)) => (unsent(error.to_string()), 0),
        Err(_) => (unsent("no response to connect".to_owned()), 0),
    };
    calls.end(&ended, accepted);
}

/// Transfers calls and responses until the connection ends. Returns the reason, and the number of
/// bytes that the operating system has accepted.
async fn converse(stream: BoxStream, link: Link, calls: &Calls, ends: TaskQueues) -> (Ended, u64) {
    let (read, write) = tokio::io::split(stream);
    let mut frames = FramedRead::new(read, FrameCodec::default());
    let mut writer = Writer::new(write, ends.urgent_frames);
    let mut outgoing = ends.outgoing;
    // A single task: a call needs no task switch except to its caller.
    let ended = tokio::select! {
        biased;
        ended = receive(&mut frames, calls, &ends.urgent) => ended,
        sent = send(&mut writer, link, calls, &mut outgoing) => match sent {
            Ok(()) => Ended::Broken("the connection was dropped".to_owned()),
            Err(error) => Ended::Broken(error.to_string()),
        },
        () = idle(calls) => Ended::Broken("the connection was idle".to_owned()),
    };
    (ended, writer.accepted())
}

async fn receive<S: AsyncRead + AsyncWrite>(
    frames: &mut FramedRead<ReadHalf<S>, FrameCodec>,
    calls: &Calls,
    urgent: &mpsc::Sender<Frame>,
) -> Ended {
    loop {
        let frame = match frames.next().await {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Ended::Broken(error.to_string()),
            None => return Ended::Broken("the peer closed the connection".to_owned()),
        };
        match calls.arrived(frame) {
            Ok(None) => {}
            Ok(Some(credit)) => {
                if urgent.try_send(credit).is_err() {
                    return Ended::Broken("the peer does not read credits".to_owned());
                }
            }
            Err(ended) => return ended,
        }
    }
}

async fn send<W: AsyncWrite + Unpin>(
    writer: &mut Writer<W>,
    link: Link,
    calls: &Calls,
    outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
) -> io::Result<()> {
    writer.put(&Frame::Opening {
        version: VERSION,
        link: link.byte(),
    })?;
    while let Some(next) = writer.wait(outgoing.recv()).await? {
        send_call(writer, calls, next).await?;
    }
    writer.close().await
}

/// Sends a call while its caller waits for it.
async fn send_call<W: AsyncWrite + Unpin>(
    writer: &mut Writer<W>,
    calls: &Calls,
    outgoing: Outgoing,
) -> io::Result<()> {
    let Outgoing {
        call,
        route,
        limit_ms,
        payload,
    } = outgoing;
    let mut parts = Parts::new(payload);
    let mut is_first = true;
    loop {
        let part = match writer.wait(parts.next()).await? {
            Ok(part) => part,
            Err(error) => {
                if calls.fail(call, error.to_string()) {
                    writer.put(&Frame::Cancel { call })?;
                }
                return Ok(());
            }
        };
        let (cost, is_last) = (part.cost(), part.is_last);
        writer.wait(calls.window.take(cost)).await?;
        if !calls.sends(call, &part, writer.position()) {
            calls.window.give(cost.into());
            return Ok(());
        }
        let frame = if is_first {
            let route = route.byte();
            Frame::Call {
                call,
                route,
                limit_ms,
                part,
            }
        } else {
            Frame::Part { call, part }
        };
        writer.put(&frame)?;
        is_first = false;
        if is_last {
            return Ok(());
        }
    }
}

/// Returns once no call has used the connection for [`IDLE`].
async fn idle(calls: &Calls) {
    loop {
        sleep(IDLE).await;
        if calls.end_if_idle() {
            return;
        }
    }
}
