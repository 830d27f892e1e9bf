//! HTTP/1 on every connection of an [`Acceptor`], with bounds, pipelining and a graceful stop.
//!
//! It uses hyper instead of `axum::serve` for the bounds on heads. It supports HTTP/1 only: no
//! client of a node uses HTTP/2, and both together would add half a megabyte to the binary.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use seqd_net::Acceptor;
use seqd_state::Tenant;
use tokio::task::JoinSet;

use super::held::{Entry, Held, Pause};
use super::limits::{HttpLimits, Unreadable};
use super::paced::Paced;

/// An extension of a request: its connection.
#[derive(Clone, Debug)]
pub(crate) struct ClientConnection {
    entry: Entry,
    is_reserved: bool,
    is_first: bool,
}

impl ClientConnection {
    /// The address of the client; `None` if the network has no addresses.
    #[must_use]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.entry.from()
    }

    /// Returns whether it has a reserved place, because it arrived while no other connection could
    /// be closed. Only one of its requests is answered.
    #[must_use]
    pub(crate) fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Returns whether its address had no other connection when it arrived. Recorded only for
    /// connections in reserved places.
    #[must_use]
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// Charges the connection to the tenant of its latest request.
    pub(crate) fn charge(&self, tenant: Tenant) {
        self.entry.charge(tenant);
    }

    /// Allows the connection to be closed in favour of others while the request waits.
    #[must_use]
    pub(crate) fn pause(&self) -> Pause {
        self.entry.pause()
    }
}

/// An extension of a response: its body is read as it is sent, so that only a piece of it is in
/// memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streamed;

/// The future response to a request. It is boxed, so that an idle connection needs no memory for
/// it.
pub(crate) type Answered<B> = Pin<Box<dyn Future<Output = Response<B>> + Send>>;

/// Answers the requests of all connections, and unreadable heads with `unreadable`. When `stop`
/// yields a grace period, accepts no more connections, lets requests in flight finish for that
/// long, and then disconnects the rest. Dropping the future disconnects all at once.
///
/// Returns whether all requests were answered.
pub(crate) async fn serve<S, B>(
    mut acceptor: Acceptor,
    limits: HttpLimits,
    answer: S,
    unreadable: Unreadable,
    stop: impl Future<Output = Duration> + Send,
) -> bool
where
    S: Fn(Request<Incoming>) -> Answered<B> + Clone + Send + Sync + 'static,
    B: Body<Data: Send, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
{
    let builder = limits.builder();
    let graceful = GracefulShutdown::new();
    // Connections that outlast the grace period are dropped with this set.
    let mut connections = JoinSet::new();
    let mut held = Held::new(acceptor.most(), limits.unsent_bytes);
    let mut stop = pin!(stop);
    let grace = loop {
        let stream = tokio::select! {
            stream = acceptor.accept() => stream,
            () = held.too_much() => {
                held.relieve();
                continue;
            }
            grace = &mut stop => break grace,
        };
        while connections.try_join_next().is_some() {}
        let has_place = held.make_place();
        let (answer, entry) = (answer.clone(), held.entry(stream.from()));
        let is_first = !has_place && held.is_first(&entry);
        let own = entry.clone();
        let service = service_fn(move |mut request| {
            request.extensions_mut().insert(ClientConnection {
                entry: own.clone(),
                is_reserved: !has_place,
                is_first,
            });
            let (answering, answered) = (own.begin(), answer(request));
            async move {
                let answer: Response<_> = answered.await;
                let is_streamed = answer.extensions().get::<Streamed>().is_some();
                let mut response = answer.map(|body| answering.with(body, is_streamed));
                if !has_place {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                Ok::<_, Infallible>(response)
            }
        });
        let unreadable = Arc::clone(&unreadable);
        let stream = Paced::new(stream, &limits, entry.clone(), unreadable);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let watched = graceful.watch(connection);
        let task = connections.spawn(async move {
            if let Err(error) = watched.await {
                tracing::debug!("connection: {error}");
            }
        });
        held.add(task, &entry);
    };
    drop(acceptor);
    let is_drained = tokio::time::timeout(grace, graceful.shutdown())
        .await
        .is_ok();
    connections.shutdown().await;
    is_drained
}
