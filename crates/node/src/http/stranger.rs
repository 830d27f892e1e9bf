//! Refuses requests before any other check: unreadable heads, requests without a host, and requests
//! without a token.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{self, HeaderMap, StatusCode};
use bytes::Bytes;
use seqd_api::{ErrorCode, Problem};
use tokio::time::Instant;

use super::bearer;
use super::context::{Arrival, Context, Exit};
use super::hosts;
use super::response::{Response, body_of};
use crate::access::Caller;
use crate::admission::{Sender, hold_back, refusal};
use crate::connections::ClientConnection;

/// Refuses a request without a token before anything else is checked, so that the response is
/// always the same.
pub(crate) struct Stranger(Exit);

impl Stranger {
    pub(crate) fn new(context: &Arc<Context>) -> Arc<Stranger> {
        Arc::new(Stranger(Exit::new(context, "unknown", "other", None)))
    }

    /// Returns the sender of an admitted request. The request is only read, but is borrowed
    /// mutably, because its body cannot be shared between threads.
    ///
    /// # Errors
    /// The response to a refused request.
    pub(crate) async fn admit(
        &self,
        request: &mut http::Request<Body>,
        connection: ClientConnection,
    ) -> Result<Sender, Box<http::Response<Body>>> {
        let context = &self.0.context;
        let at = Instant::now();
        let admitted = hosts::check_form(request).and_then(|()| {
            let (path, headers) = (request.uri().path(), request.headers());
            let admitted = bearer::admit(&context.admission.access, path, headers);
            match admitted {
                Err(_) if context.is_open(path) => Ok(Caller::Anyone),
                admitted => admitted.map_err(refusal),
            }
        });
        let refused = match admitted {
            Ok(caller) => return Ok(Sender::on(connection, caller)),
            Err(refused) => refused,
        };
        Box::pin(hold_back(&refused.code, false, Some(&connection))).await;
        let arrival = Arrival::new(context, request.headers(), at);
        let refused = bearer::response(&refused).without_reading(request.headers());
        Err(Box::new(self.0.finish(refused, arrival)))
    }

    /// The response to an unreadable head.
    pub(crate) fn unreadable(&self, status: StatusCode) -> http::Response<Bytes> {
        let problem = if status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE {
            let detail = "the head of the request has more than 16 KiB, or more than 64 headers";
            Problem::new(ErrorCode::HeadTooLarge, detail).with_hint("send fewer or shorter headers")
        } else {
            let detail =
                "the head of the request is not HTTP/1.1: a line, or a header, cannot be read";
            Problem::new(ErrorCode::InvalidArgument, detail)
        };
        let arrival = Arrival::of(&self.0.context, &HeaderMap::new());
        let response = self.0.finish(Response::problem(&problem), arrival);
        let (mut parts, _) = response.into_parts();
        // hyper writes this header itself.
        parts.headers.remove(CONNECTION);
        http::Response::from_parts(parts, body_of(&problem).into())
    }
}
