//! A network in memory, and a handler whose routes do what the tests need.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use seqd_net::{BoxStream, Dial, Dialing};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::codec::{Decoder, Framed};

use crate::tasks::{Task, Tasks};
use crate::watched::Watched;
use crate::wire::dialer::Dialer;
use crate::wire::frame::{Frame, FrameCodec, Part, VERSION};
use crate::wire::incoming::{Body, Handler, Replying};
use crate::wire::places::Places;
use crate::wire::route::Route;
use crate::wire::serving;
use crate::wire::transport::{
    CallError, Limit, Link, MESSAGE_BYTES, Payload, Rejection, RejectionCode, Transport,
};

/// The buffer of a TCP connection in these tests.
const BUFFER: usize = 64 << 10;

/// Spawns tasks on the runtime of the caller.
pub(super) struct ThisRuntime;

impl Tasks for ThisRuntime {
    fn spawn(&self, task: Task) -> JoinHandle<()> {
        tokio::spawn(task)
    }

    fn bind(&self, task: Task) -> Task {
        task
    }
}

/// Connections in memory. Their far ends go to a test or to a server.
pub(super) struct Wires {
    pub(super) refuses: AtomicBool,
    /// The far end of a connection is closed before it accepts anything.
    pub(super) is_closed: AtomicBool,
    pub(super) dialed: AtomicUsize,
    pub(super) takes: Duration,
    far: mpsc::UnboundedSender<DuplexStream>,
}

impl Dial for Wires {
    fn dial<'a>(&'a self, _: &'a str) -> Dialing<'a> {
        Box::pin(async {
            self.dialed.fetch_add(1, Ordering::SeqCst);
            sleep(self.takes).await;
            if self.refuses.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (near, far) = duplex(BUFFER);
            if !self.is_closed.load(Ordering::SeqCst) {
                let _ = self.far.send(far);
            }
            Ok(Box::new(near) as BoxStream)
        })
    }
}

pub(super) struct Network {
    pub(super) wires: Arc<Wires>,
    pub(super) dialer: Arc<Dialer>,
    /// The far ends of connections, unless a server takes them.
    pub(super) far: mpsc::UnboundedReceiver<DuplexStream>,
}

impl Network {
    pub(super) fn new() -> Self {
        Self::slow(Duration::ZERO)
    }

    /// A network in which a connection takes this long to open.
    pub(super) fn slow(takes: Duration) -> Self {
        let (sender, far) = mpsc::unbounded_channel();
        let wires = Arc::new(Wires {
            refuses: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            dialed: AtomicUsize::new(0),
            takes,
            far: sender,
        });
        let dial: Arc<dyn Dial> = wires.clone();
        let dialer = Arc::new(Dialer::new(dial, Arc::new(ThisRuntime)));
        Self { wires, dialer, far }
    }

    /// Serves all connections from here on. Returns the value that stops this: gracefully if it is
    /// set to `true`, immediately if it is dropped.
    pub(super) fn serve(self, handler: &Arc<TestHandler>) -> (Served, Arc<Watched<bool>>) {
        let Self {
            wires,
            dialer,
            mut far,
        } = self;
        let stopping = Arc::new(Watched::new(false));
        let stop = Arc::clone(&stopping);
        let handler: Arc<dyn Handler> = handler.clone();
        let connections = Arc::new(Mutex::new(tokio::task::JoinSet::new()));
        let accepted = Arc::clone(&connections);
        tokio::spawn(async move {
            let places = Places::new();
            while let Some(stream) = far.recv().await {
                let place = places.enter(None, None);
                let (handler, stopping) = (Arc::clone(&handler), Arc::clone(&stopping));
                let served = serving::serve(stream, place, handler, stopping);
                accepted.lock().unwrap().spawn(served);
            }
        });
        let served = Served {
            wires,
            dialer,
            connections,
        };
        (served, stop)
    }

    /// Returns the far end of the next connection as frames.
    pub(super) async fn accept(&mut self) -> Far {
        let stream = self.far.recv().await.unwrap();
        Far(FrameCodec::default().framed(stream))
    }
}

pub(super) struct Served {
    pub(super) wires: Arc<Wires>,
    pub(super) dialer: Arc<Dialer>,
    connections: Arc<Mutex<tokio::task::JoinSet<()>>>,
}

impl Served {
    pub(super) fn dialed(&self) -> usize {
        self.wires.dialed.load(Ordering::SeqCst)
    }

    /// Cuts all connections.
    pub(super) fn cut(&self) {
        self.connections.lock().unwrap().abort_all();
    }
}

/// One manually driven side of a connection.
pub(super) struct Far<S = DuplexStream>(pub(super) Framed<S, FrameCodec>);

impl<S: AsyncRead + AsyncWrite + Unpin> Far<S> {
    pub(super) async fn read(&mut self) -> Option<Frame> {
        self.0.next().await.transpose().unwrap()
    }

    /// Returns whether the connection was closed, with or without an error.
    pub(super) async fn is_closed(&mut self) -> bool {
        !matches!(self.0.next().await, Some(Ok(_)))
    }

    /// Reads the rest and returns whether the connection was then closed.
    pub(super) async fn is_over(&mut self) -> bool {
        let rest = async { while let Some(Ok(_)) = self.0.next().await {} };
        tokio::time::timeout(Duration::from_secs(5), rest)
            .await
            .is_ok()
    }

    pub(super) async fn write(&mut self, frame: &Frame) {
        let mut bytes = bytes::BytesMut::new();
        tokio_util::codec::Encoder::encode(&mut FrameCodec::default(), frame, &mut bytes).unwrap();
        self.write_bytes(&bytes).await;
    }

    pub(super) async fn write_bytes(&mut self, bytes: &[u8]) {
        // The other side may have closed it, which is what the test checks.
        let _ = self.0.get_mut().write_all(bytes).await;
    }

    pub(super) async fn open(&mut self, link: Link) {
        self.write(&Frame::Opening {
            version: VERSION,
            link: link.byte(),
        })
        .await;
    }
}

pub(super) fn call(call: u64, route: Route, is_last: bool, bytes: Bytes) -> Frame {
    Frame::Call {
        call,
        route: route.byte(),
        limit_ms: 0,
        part: Part { is_last, bytes },
    }
}

pub(super) async fn post(
    dialer: &Dialer,
    link: Link,
    route: Route,
    body: impl Into<Bytes>,
    limit: impl Into<Limit>,
) -> Result<Bytes, CallError> {
    let payload = Payload::Bytes(body.into());
    dialer
        .post(link, "peer:1", route, payload, limit.into())
        .await
}

/// Responds to the routes in different ways:
///
/// - `Ping`: with the body.
/// - `Watch`: once `gate` has a permit.
/// - `Append`: after as many milliseconds as the body has bytes.
/// - `Prepare`: with the body twice.
/// - `Snapshot`: with the length of the body, which it reads slowly.
/// - `Vote`: with a rejection.
/// - `Forward`: never, and it reads nothing of the body.
///
/// Strangers may send `Hello`, `Forward` and `Vote`.
pub(super) struct TestHandler {
    pub(super) gate: Semaphore,
    pub(super) events: Mutex<Vec<String>>,
    pub(super) working: AtomicUsize,
}

/// Counts a call while its handler exists.
struct Working<'a>(&'a AtomicUsize);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TestHandler {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            gate: Semaphore::new(0),
            events: Mutex::default(),
            working: AtomicUsize::new(0),
        })
    }

    pub(super) fn working(&self) -> usize {
        self.working.load(Ordering::SeqCst)
    }

    fn note(&self, event: String) {
        self.events.lock().unwrap().push(event);
    }
}

impl Handler for TestHandler {
    fn handle(self: Arc<Self>, route: Route, mut body: Body) -> Replying {
        Box::pin(async move {
            self.working.fetch_add(1, Ordering::SeqCst);
            let _working = Working(&self.working);
            match route {
                Route::Forward => std::future::pending().await,
                Route::Vote => Err(Rejection::new(RejectionCode::Removed, "why")),
                Route::Hello => Ok(body.collect(MESSAGE_BYTES).await?.bytes),
                Route::Prepare => {
                    body.admit_sender()?;
                    let bytes = body.collect(MESSAGE_BYTES).await?.bytes;
                    Ok([&bytes[..], &bytes].concat().into())
                }
                Route::Append => {
                    body.admit_sender()?;
                    let length = body.collect(MESSAGE_BYTES).await?.bytes.len();
                    self.note(format!("begin {length}"));
                    sleep(Duration::from_millis(length as u64)).await;
                    self.note(format!("end {length}"));
                    Ok(Bytes::new())
                }
                Route::Snapshot => {
                    body.admit_sender()?;
                    let mut taken = 0;
                    while let Some(bytes) = body.next().await? {
                        taken += bytes.len();
                        sleep(Duration::from_millis(100)).await;
                    }
                    Ok(taken.to_string().into())
                }
                Route::Watch => {
                    body.admit_sender()?;
                    self.gate.acquire().await.unwrap().forget();
                    Ok("over".into())
                }
                _ => {
                    body.admit_sender()?;
                    Ok(body.collect(MESSAGE_BYTES).await?.bytes)
                }
            }
        })
    }
}

/// Waits until a condition holds. Only the test's time advances.
pub(super) async fn until(mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < limit, "it does not come to hold");
        sleep(Duration::from_millis(1)).await;
    }
}
