//! One request and its response: the same for requests that hyper has read and for hot requests.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response};

use super::arriving::Arriving;
use super::held::{Answer, ClientConnection};

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

    pub(super) fn connection(&self) -> &ClientConnection {
        &self.connection
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
        let is_reserved = self.connection.is_reserved();
        let answering = self.connection.begin();
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
