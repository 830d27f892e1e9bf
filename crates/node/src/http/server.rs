//! The clients' listener: accepts, bounds, serves, drains.
//!
//! hyper rather than `axum::serve`, because only it can flush pipelined answers together, which is
//! worth a factor of six to clients that pipeline.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::routes::Front;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Connections at once. Each costs two buffers and a descriptor; the next ones wait in the
/// listener's queue.
const MAX_CONNECTIONS: usize = 8192;

/// Bytes of a request's head: generous for cookies and tracing, small for an attacker.
const MAX_HEAD: usize = 32 * 1024;

/// Headers of a request.
const MAX_HEADERS: usize = 64;

/// How long a request's head may take, the wait for the next one on an idle connection included:
/// longer than the pools of common clients keep one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(100);

/// The wait after an accept failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The running server.
#[derive(Debug)]
pub(crate) struct Server {
    stop: watch::Sender<Option<Duration>>,
    task: JoinHandle<()>,
    addr: SocketAddr,
}

impl Server {
    /// Begins to serve.
    pub(crate) fn start(listener: std::net::TcpListener, front: Front) -> io::Result<Server> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let addr = listener.local_addr()?;
        let (stop, stopping) = watch::channel(None);
        let task = tokio::spawn(accept(listener, front, stopping));
        Ok(Server { stop, task, addr })
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Accepts no more, lets requests in flight finish for up to `grace`, then cuts.
    pub(crate) async fn stop(self, grace: Duration) {
        self.stop.send_replace(Some(grace));
        let _ = self.task.await;
    }
}

async fn accept(listener: TcpListener, front: Front, mut stop: watch::Receiver<Option<Duration>>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let graceful = GracefulShutdown::new();
    let builder = Arc::new(builder());
    // Held here, so that what outlasts the grace ends with it.
    let mut connections = JoinSet::new();
    let grace = loop {
        let next = async {
            let place = Arc::clone(&room)
                .acquire_owned()
                .await
                .map_err(io::Error::other)?;
            let (stream, _) = listener.accept().await?;
            Ok::<_, io::Error>((stream, place))
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            _ = stop.changed() => break stop.borrow().unwrap_or_default(),
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!("accept: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let serving = serve(stream, &front, &builder, &graceful);
        connections.spawn(async move {
            serving.await;
            drop(place);
        });
    };
    drop(listener);
    if tokio::time::timeout(grace, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("requests in flight were cut after {grace:?}");
    }
    connections.shutdown().await;
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .pipeline_flush(true)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS);
    builder
}

/// One connection. The one place where a client's stream is prepared.
fn serve(
    stream: TcpStream,
    front: &Front,
    builder: &Arc<Builder<TokioExecutor>>,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + 'static {
    // Without this, small answers wait for the client's delayed acknowledgements.
    let _ = stream.set_nodelay(true);
    let front = front.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let front = front.clone();
        async move { Ok::<_, Infallible>(front.answer(request.map(Body::new)).await) }
    });
    let connection = builder
        .serve_connection(TokioIo::new(stream), service)
        .into_owned();
    let watched = graceful.watch(connection);
    async move {
        if let Err(error) = watched.await {
            tracing::debug!("connection: {error}");
        }
    }
}
