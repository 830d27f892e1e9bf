//! What a handler answers: status, form and bytes, and how they become an HTTP response.

use axum::body::Body;
use axum::http;
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use seqd_api::problem::PROBLEM_JSON;
use seqd_api::{ErrorCode, Problem, SNAPSHOT_CONTENT_TYPE};
use serde::Serialize;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static(PROBLEM_JSON);
const METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const BYTES: HeaderValue = HeaderValue::from_static(SNAPSHOT_CONTENT_TYPE);
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

#[derive(Debug)]
pub(crate) struct Response {
    status: StatusCode,
    kind: HeaderValue,
    body: Body,
    more: Vec<(HeaderName, HeaderValue)>,
}

impl Response {
    fn new(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> Response {
        Response {
            status,
            kind,
            body: Body::from(body.into()),
            more: Vec::new(),
        }
    }

    /// Plain text, complete with its line ends.
    pub(crate) fn text(body: impl Into<Bytes>) -> Response {
        Response::new(StatusCode::OK, TEXT, body)
    }

    pub(crate) fn json(value: &impl Serialize) -> Result<Response, Problem> {
        let bytes = serde_json::to_vec(value)
            .map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
        Ok(Response::new(StatusCode::OK, JSON, bytes))
    }

    pub(crate) fn json_bytes(body: impl Into<Bytes>) -> Response {
        Response::new(StatusCode::OK, JSON, body)
    }

    /// Bytes that come piece by piece.
    pub(crate) fn stream(body: Body) -> Response {
        let mut response = Response::new(StatusCode::OK, BYTES, Bytes::new());
        response.body = body;
        response
    }

    pub(crate) fn metrics(body: String) -> Response {
        Response::new(StatusCode::OK, METRICS, body)
    }

    /// A problem: always `application/problem+json`, whatever the client accepts.
    pub(crate) fn problem(problem: &Problem) -> Response {
        let status = StatusCode::from_u16(problem.status);
        let body = serde_json::to_vec(problem).unwrap_or_default();
        Response::new(
            status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            PROBLEM,
            body,
        )
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Response {
        self.status = status;
        self
    }

    pub(crate) fn with_etag(self, revision: u64) -> Response {
        self.with_header("etag", &format!("\"{revision}\""))
    }

    /// The same with another header; one that cannot be a header's value is left out.
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Response {
        if let Ok(value) = HeaderValue::try_from(value) {
            self.more.push((HeaderName::from_static(name), value));
        }
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The response. `no-store` stands on everything: nearly all answers either allocate or are a
    /// moment's state, and a cached error would be as wrong as a cached ID.
    pub(crate) fn into_http(self) -> http::Response<Body> {
        let mut response = http::Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.reserve(8);
        headers.insert(CONTENT_TYPE, self.kind);
        headers.insert(CACHE_CONTROL, NO_STORE);
        headers.extend(self.more);
        if self.status == StatusCode::PAYLOAD_TOO_LARGE {
            // The body was not read, so the connection cannot carry another request: unsaid, a
            // client would send its next one into a closing socket.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
