//! The response of a handler: status, media type and bytes, and its conversion to HTTP.

use axum::body::Body;
use axum::http;
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use seqd_api::problem::PROBLEM_JSON;
use seqd_api::{ErrorCode, Problem, SNAPSHOT_CONTENT_TYPE};
use serde::Serialize;
use serde_json::Value;

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

/// Ends the JSON with a newline, so that a terminal's prompt appears below it.
fn line(mut json: Vec<u8>) -> Vec<u8> {
    json.push(b'\n');
    json
}

/// The member of a problem that contains the checks of a node. Each check is on a line of its own,
/// for people.
const CHECKS: &str = "checks";

/// The body of a problem.
pub(super) fn body_of(problem: &Problem) -> Vec<u8> {
    let Some(Value::Array(checks)) = problem.extra.get(CHECKS) else {
        return line(serde_json::to_vec(problem).unwrap_or_default());
    };
    let mut rest = problem.clone();
    rest.extra.remove(CHECKS);
    let rest = serde_json::to_string(&rest).unwrap_or_default();
    let rest = rest.strip_suffix('}').unwrap_or_default();
    let checks: Vec<String> = checks.iter().map(Value::to_string).collect();
    let checks = checks.join(",\n");
    format!("{rest},\n\"{CHECKS}\":[\n{checks}\n]}}\n").into_bytes()
}

#[derive(Debug)]
pub(crate) struct Response {
    status: StatusCode,
    kind: HeaderValue,
    body: Body,
    more: Vec<(HeaderName, HeaderValue)>,
    /// The connection ends with this response.
    is_last: bool,
    /// The body is read while it is sent.
    is_streamed: bool,
}

impl Response {
    pub(crate) fn new(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> Response {
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

    /// JSON that is already encoded.
    pub(crate) fn json_bytes(body: Vec<u8>) -> Response {
        Response::new(StatusCode::OK, JSON, line(body))
    }

    /// Bytes that are produced piece by piece.
    pub(crate) fn stream(body: Body) -> Response {
        let mut response = Response::new(StatusCode::OK, BYTES, Bytes::new());
        (response.body, response.is_streamed) = (body, true);
        response
    }

    /// Metrics in the text format of Prometheus.
    pub(crate) fn metrics(body: String) -> Response {
        Response::new(StatusCode::OK, METRICS, body)
    }

    pub(crate) fn open_metrics(body: String) -> Response {
        Response::new(StatusCode::OK, OPEN_METRICS, body)
    }

    /// A problem. Its type is always `application/problem+json`, whatever the client accepts.
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

    /// Status, content type and body. Other headers are omitted.
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

    /// The response to a caller that already has this state: only the headers.
    pub(crate) fn not_modified(self) -> Response {
        Response {
            status: StatusCode::NOT_MODIFIED,
            body: Body::empty(),
            ..self
        }
    }

    /// Adds a header. A value that cannot be a header value is omitted.
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Response {
        if let Ok(value) = HeaderValue::try_from(value) {
            self.more.push((HeaderName::from_static(name), value));
        }
        self
    }

    /// Ends the connection with this response, because the body of the request was not read.
    /// Without this header, the client would send its next request into a closing socket.
    pub(super) fn closing(mut self) -> Response {
        self.is_last = true;
        self
    }

    /// Marks a response to a request of which only this head was read.
    pub(super) fn without_reading(self, head: &HeaderMap) -> Response {
        if is_without_body(head) {
            return self;
        }
        self.closing()
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Converts the response to HTTP. Unless it has a caching rule of its own, it gets `no-store`,
    /// because nearly all responses allocate values or report a momentary state, and a cached error
    /// would be as wrong as a cached ID.
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
        for (name, value) in self.more {
            headers.insert(name, value);
        }
        if self.is_last || self.status == StatusCode::PAYLOAD_TOO_LARGE {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde_json::json;

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
    fn retryable_problems_have_a_time() {
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

    #[tokio::test]
    async fn the_checks_of_a_problem_have_a_line_each() {
        let checks = vec![
            json!({"name": "serving", "ok": false}),
            json!({"name": "ids"}),
        ];
        let problem = Problem::new(ErrorCode::Draining, "d }")
            .with_extra(CHECKS, checks)
            .with_extra("until", json!({"a": {}}));
        let response = Response::problem(&problem).into_http();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let text = std::str::from_utf8(&body).unwrap();
        assert_eq!(text.lines().count(), 5, "{text}");
        let read: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read, serde_json::to_value(problem).unwrap());
    }

    /// The port counts a streamed body while it is sent, and any other body as a whole.
    #[test]
    fn only_streamed_responses_are_marked_as_streamed() {
        let streamed = |response: Response| {
            let response = response.into_http();
            response.extensions().get::<Streamed>().is_some()
        };
        assert!(streamed(Response::stream(Body::empty())));
        assert!(!streamed(Response::text("1\n")));
    }
}
