//! One connection at the receiving side: its opening, its calls to the handler, and its responses.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{AbortHandle, AbortRegistration, Abortable};
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::codec::FramedRead;

use super::frame::{Frame, FrameCodec, VERSION};
use super::incoming::{Body, Handler, Incoming};
use super::places::ConnectionPlace;
use super::route::Route;
use super::transport::{Link, Payload, Rejection, RejectionCode};
use super::window::SendWindow;
use super::writer::{Parts, URGENT, Writer};
use crate::watched::Watched;

/// The longest time until the first frame.
const OPENING: Duration = Duration::from_secs(3);

/// The longest time without a call from a stranger. A joining node sends five hellos per second.
const STRANGER_IDLE: Duration = Duration::from_secs(10);

type Frames<S> = FramedRead<ReadHalf<S>, FrameCodec>;

/// A call that waits for its handler.
struct WaitingCall {
    call: u64,
    route: u8,
    limit_ms: u32,
    body: Body,
    aborted: AbortRegistration,
}

struct CallEnd {
    call: u64,
    answer: Result<Bytes, Rejection>,
}

/// Serves a connection until it ends, another stranger takes over its place, or `stopping` is true
/// and all calls have a response.
pub(super) async fn serve<S: AsyncRead + AsyncWrite>(
    stream: S,
    (place, evicted): (Arc<ConnectionPlace>, oneshot::Receiver<()>),
    handler: Arc<dyn Handler>,
    stopping: Arc<Watched<bool>>,
) {
    let (read, write) = tokio::io::split(stream);
    let frames = FramedRead::new(read, FrameCodec::default());
    let served = async {
        match run(frames, write, place, handler, stopping).await {
            Ok(()) => {}
            Err(error) => tracing::debug!("connection of a peer: {error}"),
        }
    };
    let evicted = async {
        if evicted.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = served => {}
        () = evicted => tracing::debug!("a connection without a message from a member was closed \
            to free a slot"),
    }
}

/// Returns whether the first bytes are those of an HTTP request. Read as the length of a frame,
/// they far exceed the longest frame.
fn is_http(bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 7] = [
        b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"PATC", b"OPTI",
    ];
    METHODS.iter().any(|method| bytes.starts_with(method))
}

/// The response to a client that uses the peers' port.
const WRONG_PORT: &str = "{\"type\":\"/problems/invalid-argument\",\"title\":\"An argument is invalid\",\
    \"status\":400,\"code\":\"invalid-argument\",\"detail\":\"this is the port for the other nodes \
    (peer.listen), which does not serve clients\",\"retryable\":false,\"hint\":\"clients use the \
    port of http.listen, 7400 by default\"}\n";

/// Answers an HTTP request, and closes the connection.
async fn answer_http<S: AsyncWrite>(write: WriteHalf<S>) -> io::Result<()> {
    let mut write = std::pin::pin!(write);
    let length = WRONG_PORT.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\
         content-length: {length}\r\nconnection: close\r\ncache-control: no-store\r\n\r\n\
         {WRONG_PORT}"
    );
    let written = async {
        write.write_all(answer.as_bytes()).await?;
        write.shutdown().await
    };
    timeout(OPENING, written).await?
}

async fn run<S: AsyncRead + AsyncWrite>(
    mut frames: Frames<S>,
    write: WriteHalf<S>,
    place: Arc<ConnectionPlace>,
    handler: Arc<dyn Handler>,
    stopping: Arc<Watched<bool>>,
) -> io::Result<()> {
    let opened = timeout(OPENING, frames.next()).await;
    let first = opened.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
    if matches!(first, Some(Err(_))) && is_http(frames.read_buffer()) {
        return answer_http(write).await;
    }
    let (urgent, urgent_frames) = mpsc::channel(URGENT);
    let mut writer = Writer::new(write, urgent_frames);
    let link = match first.transpose()? {
        Some(Frame::Opening { version, link }) => link_of(version, link),
        Some(_) => return Err(io::Error::other("the first frame is not an opening")),
        None => return Ok(()),
    };
    let link = match link {
        Ok(link) => link,
        Err(rejection) => {
            let text = rejection.to_string();
            writer.put(&Frame::Rejection { call: 0, text })?;
            return writer.close().await;
        }
    };
    writer.put(&Frame::Opening {
        version: VERSION,
        link: link.byte(),
    })?;
    let incoming = Arc::new(Incoming::new(urgent, Arc::clone(&place), link.window()));
    let window = SendWindow::new(link.window());
    let (jobs, waiting) = mpsc::unbounded_channel();
    let (ends, ended) = mpsc::unbounded_channel();
    let handled = async {
        let work = handle(link, waiting, &handler, ends);
        tokio::select! {
            biased;
            () = work => {},
            () = drained(stopping, &incoming) => {},
        }
        // The end of the handlers has dropped the sender of ends, which closes the writer.
        std::future::pending::<()>().await;
    };
    // A single task: a call needs no task switch.
    tokio::select! {
        biased;
        // Received calls are handled and their responses are sent before more is read.
        () = handled => Ok(()),
        written = answer(&mut writer, ended, &incoming, &window) => written,
        received = receive(&mut frames, &place, &incoming, &window, &jobs) => received,
        () = idle_stranger(&place, &incoming) => Ok(()),
    }
}

fn link_of(version: u16, byte: u8) -> Result<Link, Rejection> {
    let link = Link::ALL.into_iter().find(|link| link.byte() == byte);
    match link {
        Some(link) if version == VERSION => Ok(link),
        _ => {
            let why = format!("this program has version {VERSION} of the peers' protocol");
            Err(Rejection::new(RejectionCode::NewerFormat, why))
        }
    }
}

async fn receive<S: AsyncRead + AsyncWrite>(
    frames: &mut Frames<S>,
    place: &ConnectionPlace,
    incoming: &Arc<Incoming>,
    window: &SendWindow,
    jobs: &mpsc::UnboundedSender<WaitingCall>,
) -> io::Result<()> {
    loop {
        place.may_read(|| incoming.open()).await;
        let Some(frame) = frames.next().await.transpose()? else {
            return Ok(());
        };
        match frame {
            Frame::Call {
                call,
                route,
                limit_ms,
                part,
            } => {
                let (abort, aborted) = AbortHandle::new_pair();
                let body = incoming.begin(call, part, abort)?;
                let job = WaitingCall {
                    call,
                    route,
                    limit_ms,
                    body,
                    aborted,
                };
                // While the connection stops, the call is not accepted, and the connection is
                // closed.
                let _ = jobs.send(job);
            }
            Frame::Part { call, part } => incoming.part(call, part)?,
            Frame::Credit { call: 0, bytes } if window.returned(bytes.into()) => {}
            Frame::Cancel { call } => incoming.cancel(call),
            _ => return Err(io::Error::other("a frame that callers do not send")),
        }
    }
}

/// Handles the calls, in sequence on an ordered link, and concurrently on other links.
async fn handle(
    link: Link,
    mut jobs: mpsc::UnboundedReceiver<WaitingCall>,
    handler: &Arc<dyn Handler>,
    ends: mpsc::UnboundedSender<CallEnd>,
) {
    if link.is_ordered() {
        while let Some(job) = jobs.recv().await {
            let _ = ends.send(job.work(handler).await);
        }
        return;
    }
    let mut working = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(end) = working.next() => {
                let _ = ends.send(end);
            }
            job = jobs.recv() => match job {
                Some(job) => working.push(job.work(handler)),
                None => return,
            },
        }
    }
}

impl WaitingCall {
    async fn work(self, handler: &Arc<dyn Handler>) -> CallEnd {
        let call = self.call;
        let rejected = |code, why: String| Err(Rejection::new(code, why));
        let Some(route) = Route::of(self.route) else {
            let why = format!("this program has no handler for route {}", self.route);
            let answer = rejected(RejectionCode::NewerFormat, why);
            return CallEnd { call, answer };
        };
        let handled = Abortable::new(Arc::clone(handler).handle(route, self.body), self.aborted);
        let limit = Duration::from_millis(self.limit_ms.into());
        let handled = if limit.is_zero() {
            Ok(handled.await)
        } else {
            timeout(limit, handled).await
        };
        let answer = match handled {
            Ok(Ok(answer)) => answer,
            // The sender abandoned the call, or its body was interrupted.
            Ok(Err(_)) => {
                let why = "no memory for more messages from peers";
                rejected(RejectionCode::NotRunning, why.to_owned())
            }
            Err(_) => {
                let why = "the time limit for a response has passed";
                rejected(RejectionCode::Malformed, why.to_owned())
            }
        };
        CallEnd { call, answer }
    }
}

/// Writes the ends of calls until all of their senders are dropped.
async fn answer<W: AsyncWrite + Unpin>(
    writer: &mut Writer<W>,
    mut ends: mpsc::UnboundedReceiver<CallEnd>,
    incoming: &Incoming,
    window: &SendWindow,
) -> io::Result<()> {
    while let Some(CallEnd { call, answer }) = writer.wait(ends.recv()).await? {
        match answer {
            Ok(bytes) => {
                let mut parts = Parts::new(Payload::Bytes(bytes));
                loop {
                    let part = parts.next().await?;
                    writer.wait(window.take(part.cost())).await?;
                    let is_last = part.is_last;
                    writer.put(&Frame::Answer { call, part })?;
                    if is_last {
                        break;
                    }
                }
            }
            Err(rejection) => {
                let text = rejection.to_string();
                writer.put(&Frame::Rejection { call, text })?;
            }
        }
        incoming.end(call);
    }
    writer.close().await
}

/// Returns once the server stops and no call is open.
async fn drained(stopping: Arc<Watched<bool>>, incoming: &Incoming) {
    stopping.wait_for(|stopping| stopping).await;
    incoming.emptied().await;
}

/// Returns when a stranger has sent no call for too long.
async fn idle_stranger(place: &ConnectionPlace, incoming: &Incoming) {
    let mut until = Instant::now() + STRANGER_IDLE;
    loop {
        sleep_until(until).await;
        if place.is_member() {
            return std::future::pending().await;
        }
        until = Instant::now() + STRANGER_IDLE;
        if let Some(since) = incoming.idle_since() {
            if since.elapsed() >= STRANGER_IDLE {
                return;
            }
            until = since + STRANGER_IDLE;
        }
    }
}
