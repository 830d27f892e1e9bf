//! A request, read once: path parameters, query, body, deadline and the form of the answer.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Query, RawPathParams};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{self, HeaderMap};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use seqd_api::request::{MAX_BODY_BYTES, decode};
use seqd_api::{ErrorCode, Problem};
use tokio::time::Instant;

use super::negotiate::Media;

/// A body of 64 KiB that takes longer is not worth its connection.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

const MAX_TIMEOUT_MS: u64 = 30_000;

#[derive(Debug)]
pub(crate) struct Request {
    /// The path's parameters, decoded, in order.
    pub(crate) path: Vec<String>,
    /// The query, decoded, without the keys that every path takes.
    pub(crate) query: Vec<(String, String)>,
    /// The body; empty stands for the defaults.
    pub(crate) body: Bytes,
    pub(crate) headers: HeaderMap,
    /// Until when it has to be answered.
    pub(crate) deadline: Instant,
    /// The form of the answer.
    pub(crate) media: Media,
}

impl Request {
    /// Reads a request. `timeout` is the configured one.
    pub(crate) async fn read(
        request: http::Request<Body>,
        media: Media,
        has_path: bool,
        timeout: Duration,
    ) -> Result<Request, Problem> {
        let (mut parts, body) = request.into_parts();
        let mut query = query_of(&parts)?;
        let timeout = timeout_of(&mut query, timeout)?;
        let deadline = Instant::now() + timeout;
        let path = if has_path {
            path_of(&mut parts).await?
        } else {
            Vec::new()
        };
        let body = read_body(&parts.headers, body).await?;
        Ok(Request {
            path,
            query,
            body,
            headers: parts.headers,
            deadline,
            media,
        })
    }

    /// The request type of the handler, from query and body.
    pub(crate) fn decode<T: seqd_api::Request>(&self) -> Result<T, Problem> {
        decode::<T>(&self.query, &self.body)
    }

    pub(crate) fn name(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }
}

fn query_of(parts: &Parts) -> Result<Vec<(String, String)>, Problem> {
    if parts.uri.query().is_none_or(str::is_empty) {
        return Ok(Vec::new());
    }
    let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    query.map(|Query(pairs)| pairs).map_err(|error| {
        Problem::new(
            ErrorCode::InvalidArgument,
            format!("the query cannot be read: {error}"),
        )
    })
}

fn timeout_of(
    query: &mut Vec<(String, String)>,
    configured: Duration,
) -> Result<Duration, Problem> {
    let Some(at) = query.iter().position(|(key, _)| key == "timeout_ms") else {
        return Ok(configured);
    };
    let (_, value) = query.remove(at);
    if query.iter().any(|(key, _)| key == "timeout_ms") {
        let detail = "timeout_ms is given twice in the query";
        return Err(Problem::new(ErrorCode::InvalidArgument, detail));
    }
    match value.parse::<u64>() {
        Ok(ms) if (1..=MAX_TIMEOUT_MS).contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => Err(Problem::new(
            ErrorCode::InvalidArgument,
            format!("timeout_ms is 1 to {MAX_TIMEOUT_MS}"),
        )),
    }
}

async fn path_of(parts: &mut Parts) -> Result<Vec<String>, Problem> {
    let params = RawPathParams::from_request_parts(parts, &())
        .await
        .map_err(|error| {
            Problem::new(
                ErrorCode::InvalidArgument,
                format!("the path cannot be read: {error}"),
            )
        })?;
    Ok(params.iter().map(|(_, value)| value.to_owned()).collect())
}

async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let length = headers.get(CONTENT_LENGTH);
    if length.is_none_or(|length| length == "0") && !headers.contains_key(TRANSFER_ENCODING) {
        return Ok(Bytes::new());
    }
    let too_large = || {
        let detail = format!("a body has at most {MAX_BODY_BYTES} bytes");
        Problem::new(ErrorCode::BodyTooLarge, detail)
    };
    let announced = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|announced| announced > MAX_BODY_BYTES) {
        return Err(too_large());
    }
    let reading = Limited::new(body, MAX_BODY_BYTES).collect();
    let body = match tokio::time::timeout(BODY_TIMEOUT, reading).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => return Err(too_large()),
        Ok(Err(error)) => {
            let detail = format!("the body cannot be read: {error}");
            return Err(Problem::new(ErrorCode::InvalidArgument, detail));
        }
        Err(_) => {
            let detail = format!(
                "the body did not arrive within {} s",
                BODY_TIMEOUT.as_secs()
            );
            return Err(Problem::new(ErrorCode::InvalidArgument, detail));
        }
    };
    if !body.is_empty() && !is_json(headers) {
        return Err(Problem::new(
            ErrorCode::UnsupportedMediaType,
            "a body has to be application/json",
        )
        .with_hint("curl -H 'content-type: application/json'"));
    }
    Ok(body)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use seqd_api::NextRequest;

    const TIMEOUT: Duration = Duration::from_secs(3);

    async fn read(request: http::request::Builder, body: &'static str) -> Result<Request, Problem> {
        let length = body.len();
        let request = request
            .header(CONTENT_LENGTH, length)
            .body(Body::from(body))
            .unwrap();
        Request::read(request, Media::Json, false, TIMEOUT).await
    }

    fn post(uri: &str) -> http::request::Builder {
        http::Request::post(uri).header(CONTENT_TYPE, "application/json; charset=utf-8")
    }

    fn code<T>(result: Result<T, Problem>) -> String {
        result
            .map(|_| "none".into())
            .unwrap_or_else(|problem| problem.code)
            .into()
    }

    #[tokio::test]
    async fn query_and_body_are_one_request() {
        let request = read(post("/next?count=5"), "{\"contiguous\":true}")
            .await
            .unwrap();
        let next: NextRequest = request.decode().unwrap();
        assert_eq!((next.count, next.contiguous), (Some(5), Some(true)));
        let twice = read(post("/next?count=5"), "{\"count\":5}").await.unwrap();
        assert_eq!(code(twice.decode::<NextRequest>()), "invalid-argument");
        let typo = read(post("/next?cuont=5"), "").await.unwrap();
        let problem = typo.decode::<NextRequest>().unwrap_err();
        assert!(problem.hint.unwrap().contains("count"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_the_callers_within_the_limit() {
        let start = Instant::now();
        let deadline = |request: Request| request.deadline - start;
        assert_eq!(deadline(read(post("/x"), "").await.unwrap()), TIMEOUT);
        let asked = read(post("/x?timeout_ms=250"), "").await.unwrap();
        assert!(asked.query.is_empty());
        assert_eq!(deadline(asked), Duration::from_millis(250));
        for value in ["0", "30001", "soon", "1&timeout_ms=2"] {
            let result = read(post(&format!("/x?timeout_ms={value}")), "").await;
            assert_eq!(code(result), "invalid-argument", "{value}");
        }
    }

    #[tokio::test]
    async fn a_body_is_json_and_small() {
        let bare = read(http::Request::post("/x"), "{}").await;
        assert!(
            bare.unwrap_err()
                .hint
                .unwrap()
                .contains("content-type: application/json")
        );
        assert_eq!(code(read(http::Request::post("/x"), "").await), "none");
        let announced = http::Request::post("/x").header(CONTENT_LENGTH, MAX_BODY_BYTES + 1);
        let large = Request::read(
            announced.body(Body::empty()).unwrap(),
            Media::Json,
            false,
            TIMEOUT,
        );
        assert_eq!(code(large.await), "body-too-large");
        let chunked = post("/x").header(TRANSFER_ENCODING, "chunked");
        let body = Body::from(vec![b' '; MAX_BODY_BYTES + 1]);
        let large = Request::read(chunked.body(body).unwrap(), Media::Json, false, TIMEOUT);
        assert_eq!(code(large.await), "body-too-large");
    }
}
