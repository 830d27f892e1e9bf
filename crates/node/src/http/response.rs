//! What a handler answers: status, form and bytes, and how they become an HTTP response.

use axum::body::Body;
use axum::http;
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use seqd_api::problem::PROBLEM_JSON;
use seqd_api::{ErrorCode, Problem, SNAPSHOT_CONTENT_TYPE};
use serde::Serialize;

use super::etag::ETag;
use super::request::is_without_body;
use crate::connections::Streamed;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static(PROBLEM_JSON);
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const BYTES: HeaderValue = HeaderValue::from_static(SNAPSHOT_CONTENT_TYPE);
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// JSON as a line: a terminal's prompt stands below it.
fn line(mut json: Vec<u8>) -> Vec<u8> {
    json.push(b'\n');
    json
}

/// The body of a problem.
pub(super) fn body_of(problem: &Problem) -> Vec<u8> {
    line(serde_json::to_vec(problem).unwrap_or_default())
}

#[derive(Debug)]
pub(crate) struct Response {
    status: StatusCode,
    kind: HeaderValue,
    body: Body,
    more: Vec<(HeaderName, HeaderValue)>,
    /// The connection ends with it.
    is_last: bool,
    /// Its body is read as it is sent.
    is_streamed: bool,
}

impl Response {
    fn new(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> Response {
        Response {
            status,
            kind,
            body: Body::from(body.into()),
            more: Vec::new(),
            is_last: false,
            is_streamed: false,
        }
    }

    /// Plain text, complete with its line ends.
    pub(crate) fn text(body: impl Into<Bytes>) -> Response {
        Response::new(StatusCode::OK, TEXT, body)
    }

    pub(crate) fn json(value: &impl Serialize) -> Result<Response, Problem> {
        let bytes = serde_json::to_vec(value)
            .map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
        Ok(Response::json_bytes(bytes))
    }

    /// JSON that is written already.
    pub(crate) fn json_bytes(body: Vec<u8>) -> Response {
        Response::new(StatusCode::OK, JSON, line(body))
    }

    /// JSON that is part of the program, with its line end.
    pub(crate) fn json_static(body: &'static [u8]) -> Response {
        Response::new(StatusCode::OK, JSON, Bytes::from_static(body))
    }

    /// Bytes that come piece by piece.
    pub(crate) fn stream(body: Body) -> Response {
        let mut response = Response::new(StatusCode::OK, BYTES, Bytes::new());
        (response.body, response.is_streamed) = (body, true);
        response
    }

    /// Metrics in Prometheus's text form.
    pub(crate) fn metrics(body: String) -> Response {
        Response::new(StatusCode::OK, METRICS, body)
    }

    pub(crate) fn open_metrics(body: String) -> Response {
        Response::new(StatusCode::OK, OPEN_METRICS, body)
    }

    /// A problem: always `application/problem+json`, whatever the client accepts.
    pub(crate) fn problem(problem: &Problem) -> Response {
        let status = StatusCode::from_u16(problem.status);
        let mut response = Response::new(
            status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            PROBLEM,
            body_of(problem),
        );
        if let Some(ms) = problem.retry_after_ms {
            let seconds = HeaderValue::from(ms.div_ceil(1000).max(1));
            response.more.push((RETRY_AFTER, seconds));
        }
        response
    }

    /// An answer of these parts.
    pub(super) fn of_parts(
        status: StatusCode,
        kind: HeaderValue,
        body: impl Into<Bytes>,
    ) -> Response {
        Response::new(status, kind, body)
    }

    /// Status, content type and body; other headers are left out.
    pub(super) fn into_parts(self) -> (StatusCode, HeaderValue, Body) {
        (self.status, self.kind, self.body)
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Response {
        self.status = status;
        self
    }

    pub(crate) fn with_etag(self, tag: ETag) -> Response {
        self.with_header("etag", &tag.to_string())
    }

    /// What the caller has already: nothing but the headers.
    pub(crate) fn not_modified(self) -> Response {
        Response {
            status: StatusCode::NOT_MODIFIED,
            body: Body::empty(),
            ..self
        }
    }

    /// The same with another header; one that cannot be a header's value is left out.
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Response {
        if let Ok(value) = HeaderValue::try_from(value) {
            self.more.push((HeaderName::from_static(name), value));
        }
        self
    }

    /// The answer to a request whose body was not read, so that its connection can carry no other:
    /// unsaid, a client would send the next one into a closing socket.
    pub(super) fn closing(mut self) -> Response {
        self.is_last = true;
        self
    }

    /// The answer to a request with this head, of which nothing more was read.
    pub(super) fn without_reading(self, head: &HeaderMap) -> Response {
        if is_without_body(head) {
            return self;
        }
        self.closing()
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The response. `no-store` stands on everything: nearly all answers either allocate or are a
    /// moment's state, and a cached error would be as wrong as a cached ID.
    pub(crate) fn into_http(self) -> http::Response<Body> {
        let mut response = http::Response::new(self.body);
        *response.status_mut() = self.status;
        if self.is_streamed {
            response.extensions_mut().insert(Streamed);
        }
        let headers = response.headers_mut();
        headers.reserve(8);
        headers.insert(CONTENT_TYPE, self.kind);
        headers.insert(CACHE_CONTROL, NO_STORE);
        headers.extend(self.more);
        if self.is_last || self.status == StatusCode::PAYLOAD_TOO_LARGE {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn header(response: &http::Response<Body>, name: HeaderName) -> Option<&str> {
        response.headers().get(name)?.to_str().ok()
    }

    #[tokio::test]
    async fn json_is_a_line() {
        for response in [
            Response::json(&7).unwrap(),
            Response::json_bytes(b"7".to_vec()),
        ] {
            let body = response.into_http().into_body().collect().await.unwrap();
            assert_eq!(body.to_bytes(), "7\n");
        }
    }

    #[test]
    fn what_may_be_repeated_later_has_a_time() {
        for code in ErrorCode::ALL {
            let response = Response::problem(&Problem::new(*code, "")).into_http();
            let is_later = matches!(code.row().status, 429 | 503);
            let expected = is_later.then_some("1");
            assert_eq!(header(&response, RETRY_AFTER), expected, "{code}");
        }
        for (ms, seconds) in [(1, "1"), (1000, "1"), (1001, "2"), (29_500, "30")] {
            let problem = Problem::new(ErrorCode::NoQuorum, "").with_retry_after_ms(ms);
            let response = Response::problem(&problem).into_http();
            assert_eq!(header(&response, RETRY_AFTER), Some(seconds));
        }
    }

    /// The port counts such a body as it is sent, and any other as a whole.
    #[test]
    fn only_what_is_streamed_says_so() {
        let streamed = |response: Response| {
            let response = response.into_http();
            response.extensions().get::<Streamed>().is_some()
        };
        assert!(streamed(Response::stream(Body::empty())));
        assert!(!streamed(Response::text("1\n")));
    }
}
