//! HTTP/1 on every connection of an [`Acceptor`]: bounds, pipelining, a stop that drains.
//!
//! hyper rather than `axum::serve`, for its bounds on heads. HTTP/1 alone: no client of a node uses
//! HTTP/2, and to understand both would add half a megabyte to the binary.

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

/// A request's extension: the connection that it came on.
#[derive(Clone, Debug)]
pub(crate) struct ClientConnection {
    entry: Entry,
    is_reserved: bool,
    is_first: bool,
}

impl ClientConnection {
    /// The address that it comes from, where there is such a thing.
    #[must_use]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.entry.from()
    }

    /// Whether it is in a reserved place, as it came while no other could end. One request of it is
    /// answered.
    #[must_use]
    pub(crate) fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Whether its address had no other connection when it came; known of those in reserved places.
    #[must_use]
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// Charges it to the tenant that its latest request is of.
    pub(crate) fn charge(&self, tenant: Tenant) {
        self.entry.charge(tenant);
    }

    /// Lets it end for others, while the request waits for something that others do.
    #[must_use]
    pub(crate) fn pause(&self) -> Pause {
        self.entry.pause()
    }
}

/// A response's extension: its body is read as it is sent, so that no more than a piece of it is in
/// memory, however long it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streamed;

/// The answer to a request, in a box: an idle connection has no room for one.
pub(crate) type Answered<B> = Pin<Box<dyn Future<Output = Response<B>> + Send>>;

/// Answers the requests of all connections, and heads that cannot be read with `unreadable`. When
/// `stop` yields a grace, it accepts no more connections, lets requests in flight finish for that
/// long, and then cuts them. If it is dropped, it cuts them at once.
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
    // Held here, so that what outlasts the grace ends with it.
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
