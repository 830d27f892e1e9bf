//! One request and its response: the same for requests that hyper has read and for hot requests.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response};
use seqd_state::Tenant;

use super::arriving::Arriving;
use super::held::{Answer, Answering, Entry, Pause};

/// The connection of a request.
#[derive(Clone, Debug)]
pub(crate) struct ClientConnection {
    entry: Entry,
    is_reserved: bool,
    is_first: bool,
}

impl ClientConnection {
    pub(super) fn new(entry: Entry, is_reserved: bool, is_first: bool) -> Self {
        Self {
            entry,
            is_reserved,
            is_first,
        }
    }

    /// The address of the client; `None` if the network has no addresses.
    #[must_use]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.entry.from()
    }

    /// Returns whether the connection has a reserved place, because it arrived while no other
    /// connection could be closed. It serves a single request.
    #[must_use]
    pub(crate) fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Returns whether the client's address had no other connection when this one arrived. Recorded
    /// only for connections in reserved places.
    #[must_use]
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// Charges the connection to the tenant of its latest request.
    pub(crate) fn charge(&self, tenant: Tenant) {
        self.entry.charge(tenant);
    }

    /// Counts a request as being answered until the result is dropped.
    pub(crate) fn begin(&self) -> Answering {
        self.entry.begin()
    }

    /// Records that the current request waits because the client requested the wait.
    pub(crate) fn note_wait(&self) {
        self.entry.note_wait();
    }

    /// Returns whether the latest request waited because the client requested the wait.
    #[must_use]
    pub(crate) fn has_waited(&self) -> bool {
        self.entry.has_waited()
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

/// The body of a request.
pub(crate) enum Received {
    /// The whole body of a hot request.
    Whole(Bytes),
    /// The body of a hot request, of which a part has not arrived.
    Arriving(Arriving),
    /// A body that hyper reads.
    Streamed(Incoming),
}

/// The future response to a request. It is boxed, so that an idle connection needs no memory for
/// it.
pub(crate) type Answered<B> = Pin<Box<dyn Future<Output = Response<B>> + Send>>;

/// Answers the requests of one connection and accounts for them.
#[derive(Clone)]
pub(super) struct Exchange<S> {
    answer: S,
    connection: ClientConnection,
}

impl<S> Exchange<S> {
    pub(super) fn new(answer: S, connection: ClientConnection) -> Self {
        Self { answer, connection }
    }

    pub(super) fn entry(&self) -> &Entry {
        &self.connection.entry
    }

    /// Answers a request. It counts as being answered until the body of the response ends.
    pub(super) fn call<B>(
        &self,
        request: Request<Received>,
    ) -> impl Future<Output = Response<Answer<B>>> + Send + use<S, B>
    where
        S: Fn(Request<Received>, ClientConnection) -> Answered<B>,
        B: Body + 'static,
    {
        let is_reserved = self.connection.is_reserved;
        let answering = self.entry().begin();
        let answered = (self.answer)(request, self.connection.clone());
        async move {
            let answer = answered.await;
            let is_streamed = answer.extensions().get::<Streamed>().is_some();
            let mut response = answer.map(|body| answering.with(body, is_streamed));
            if is_reserved {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            response
        }
    }
}
