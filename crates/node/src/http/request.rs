//! A request, read once: path parameters, query, body, deadline and the form of the response.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Query, RawPathParams};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{self, HeaderMap};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use percent_encoding::percent_decode_str;
use seqd_api::request::{MAX_BODY_BYTES, decode, decode_known, each_once};
use seqd_api::{ErrorCode, Media, Problem};
use seqd_raft::{Part, Pool};
use seqd_state::{Share, Tenant};
use tokio::time::Instant;

use super::request_key::RequestKey;
use crate::access::Caller;
use crate::admission::lanes::Slot;
use crate::admission::{Sender, Serving};
use crate::connections::ClientConnection;

/// The time limit for receiving a body, which has at most 64 KiB.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

const MAX_TIMEOUT_MS: u64 = 30_000;

/// The limit of bytes of bodies in memory for all requests together: 256 of the largest bodies, or
/// 100,000 usual ones.
const BODIES_BYTES: u64 = 16 << 20;

/// The memory for bodies, which all tenants of a port share.
#[derive(Clone, Debug)]
pub(crate) struct Bodies(Arc<Pool>);

impl Bodies {
    pub(crate) fn new(share: Share) -> Bodies {
        Bodies(Pool::new(share, BODIES_BYTES))
    }

    /// Begins to charge a body to this tenant, with no bytes yet.
    pub(super) fn begin(&self, tenant: Tenant) -> Option<Part> {
        self.0.take(tenant, 0)
    }
}

fn no_room() -> Problem {
    let detail = "the bodies of other requests of this client, or of all clients, use up the \
                  memory for request bodies";
    Problem::new(ErrorCode::Overloaded, detail).with_hint("send fewer large bodies at once")
}

/// The source of the parameters of a path.
pub(super) enum PathOf {
    /// The path has no parameters.
    None,
    /// The router has matched the path.
    Router,
    /// The only parameter, which is not percent-encoded.
    Name(String),
}

#[derive(Debug)]
pub(crate) struct Request {
    /// The path's parameters, decoded, in order.
    pub(crate) path: Vec<String>,
    /// The query, decoded, without the keys that every path takes.
    pub(crate) query: Vec<(String, String)>,
    /// The body. An empty body means the defaults.
    pub(crate) body: Bytes,
    pub(crate) headers: HeaderMap,
    /// The time by which the request must be answered.
    pub(crate) deadline: Instant,
    /// The form of the response.
    pub(crate) media: Media,
    /// A dry run: the effect is only computed.
    pub(crate) is_dry_run: bool,
    pub(crate) caller: Caller,
    /// The tenant that is charged for the request's resources.
    pub(crate) tenant: Tenant,
    /// The idempotency key, on paths that accept one.
    pub(crate) key: Option<RequestKey>,
    /// The connection of the request; `None` within one process.
    pub(crate) connection: Option<ClientConnection>,
    /// The request's place in the lane of its client.
    pub(super) slot: Option<Slot>,
    _held: Option<Part>,
}

impl Request {
    /// The context for the task that answers the request. Moves the connection and the place in the
    /// lane into it.
    pub(crate) fn serving(&mut self) -> Serving {
        Serving::new(self.tenant, self.connection.take()).with_slot(self.slot.take())
    }

    /// Reads a request. `timeout` is the configured one. `permit` is called with the name in the
    /// path before any of the body is held in memory.
    pub(super) async fn read(
        (request, sender): (http::Request<Body>, Sender),
        media: Media,
        path: PathOf,
        timeout: Duration,
        bodies: &Bodies,
        permit: impl Fn(Caller, &str) -> Result<(), Problem>,
    ) -> Result<Request, Problem> {
        let (mut parts, body) = request.into_parts();
        let tenant = sender.tenant();
        let Sender { caller, connection } = sender;
        let path = match path {
            PathOf::None => Vec::new(),
            PathOf::Router => path_of(&mut parts).await?,
            PathOf::Name(name) => vec![name],
        };
        permit(caller, path.first().map_or("", String::as_str))?;
        let mut query = query_of(&parts)?;
        let timeout = timeout_of(&mut query, timeout)?;
        let is_dry_run = dry_run_of(&mut query)?;
        let (body, held) = if is_without_body(&parts.headers) {
            (Bytes::new(), None)
        } else {
            let _pause = connection.as_ref().map(ClientConnection::pause);
            Box::pin(read_body(&parts.headers, body, bodies.begin(tenant))).await?
        };
        // A body has a time limit of its own.
        let deadline = Instant::now() + timeout;
        let key = RequestKey::of(&parts, &query, media, &body)?;
        Ok(Request {
            key,
            path,
            query,
            body,
            headers: parts.headers,
            deadline,
            media,
            is_dry_run,
            caller,
            tenant,
            connection,
            slot: None,
            _held: held,
        })
    }

    /// Decodes the request type of the handler from the query and the body.
    pub(crate) fn decode<T: seqd_api::Request>(&self) -> Result<T, Problem> {
        decode::<T>(&self.query, &self.body)
    }

    /// Decodes the request type of an operation that accepts only the `known` fields.
    pub(crate) fn decode_known<T: seqd_api::Request>(&self, known: &[&str]) -> Result<T, Problem> {
        decode_known::<T>(&self.query, &self.body, known)
    }

    pub(crate) fn name(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }
}

fn query_of(parts: &Parts) -> Result<Vec<(String, String)>, Problem> {
    if parts.uri.query().is_none_or(str::is_empty) {
        return Ok(Vec::new());
    }
    if !is_encoded_text(parts.uri.query().unwrap_or_default()) {
        let detail = "the query is not percent-encoded UTF-8";
        return Err(Problem::new(ErrorCode::InvalidArgument, detail));
    }
    let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let Query(pairs) = query.map_err(|error| {
        Problem::new(
            ErrorCode::InvalidArgument,
            format!("the query cannot be read: {error}"),
        )
    })?;
    each_once(&pairs)?;
    Ok(pairs)
}

/// Returns whether each `%` has two hexadecimal digits, and the decoded bytes are UTF-8.
fn is_encoded_text(text: &str) -> bool {
    let is_code = |code: &str| {
        let digits = code.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    text.split('%').skip(1).all(is_code) && percent_decode_str(text).decode_utf8().is_ok()
}

/// Removes a key that every path accepts from the query, in which each key occurs once.
fn take(query: &mut Vec<(String, String)>, key: &str) -> Option<String> {
    let at = query.iter().position(|(found, _)| found == key)?;
    Some(query.remove(at).1)
}

fn timeout_of(
    query: &mut Vec<(String, String)>,
    configured: Duration,
) -> Result<Duration, Problem> {
    let Some(value) = take(query, "timeout_ms") else {
        return Ok(configured);
    };
    let is_plain = value.bytes().all(|byte| byte.is_ascii_digit());
    match value.parse::<u64>() {
        Ok(ms) if is_plain && (1..=MAX_TIMEOUT_MS).contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => Err(Problem::new(
            ErrorCode::InvalidArgument,
            format!("timeout_ms is 1 to {MAX_TIMEOUT_MS}"),
        )),
    }
}

fn dry_run_of(query: &mut Vec<(String, String)>) -> Result<bool, Problem> {
    match take(query, "dry_run").as_deref() {
        None | Some("0" | "false") => Ok(false),
        Some("" | "1" | "true") => Ok(true),
        Some(_) => {
            let detail = "dry_run is 1 or 0";
            Err(Problem::new(ErrorCode::InvalidArgument, detail))
        }
    }
}

pub(super) async fn path_of(parts: &mut Parts) -> Result<Vec<String>, Problem> {
    let invalid = || {
        let detail = "the path is not percent-encoded UTF-8: a % is written %25";
        Problem::new(ErrorCode::InvalidArgument, detail)
    };
    // The extractor would keep a `%` without digits as it is, so that two paths would mean one
    // name.
    if !is_encoded_text(parts.uri.path()) {
        return Err(invalid());
    }
    let params = RawPathParams::from_request_parts(parts, &()).await;
    let params = params.map_err(|_| invalid())?;
    Ok(params.iter().map(|(_, value)| value.to_owned()).collect())
}

/// Returns whether the head announces no body, or an empty one.
pub(super) fn is_without_body(headers: &HeaderMap) -> bool {
    let length = headers.get(CONTENT_LENGTH);
    length.is_none_or(|length| length == "0") && !headers.contains_key(TRANSFER_ENCODING)
}

/// Reads a body of any kind, within the limits of its size and time.
pub(super) async fn receive(
    headers: &HeaderMap,
    body: Body,
    held: Option<Part>,
) -> Result<(Bytes, Option<Part>), Problem> {
    let length = headers.get(CONTENT_LENGTH);
    let announced = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|announced| announced > MAX_BODY_BYTES) {
        return Err(too_large());
    }
    let Ok(read) = tokio::time::timeout(BODY_TIMEOUT, collect(body, held)).await else {
        let detail = format!(
            "the body did not arrive within {} s",
            BODY_TIMEOUT.as_secs()
        );
        return Err(Problem::new(ErrorCode::InvalidArgument, detail));
    };
    read
}

async fn read_body(
    headers: &HeaderMap,
    body: Body,
    held: Option<Part>,
) -> Result<(Bytes, Option<Part>), Problem> {
    let (body, held) = receive(headers, body, held).await?;
    if !body.is_empty() && headers.contains_key(CONTENT_ENCODING) {
        let detail = "a request body must not have a Content-Encoding";
        return Err(Problem::new(ErrorCode::UnsupportedMediaType, detail));
    }
    if !body.is_empty() && !is_json(headers) {
        return Err(Problem::new(
            ErrorCode::UnsupportedMediaType,
            "the content type of a body must be application/json",
        )
        .with_hint("curl -H 'content-type: application/json'"));
    }
    Ok((body, held))
}

fn too_large() -> Problem {
    let detail = format!("a body has at most {MAX_BODY_BYTES} bytes");
    Problem::new(ErrorCode::BodyTooLarge, detail)
}

/// The reason why a body cannot be read: the same, however the request was read.
fn why_unread(error: &(dyn Error + 'static)) -> String {
    let mut causes = std::iter::successors(Some(error), |error| (*error).source());
    let is_end = |cause: &(dyn Error + 'static)| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::UnexpectedEof)
    };
    match causes.any(is_end) {
        true => "the connection ended before the body".to_owned(),
        false => error.to_string(),
    }
}

/// Reads a body to its end. Received bytes are charged, not the announced length.
async fn collect(mut body: Body, mut held: Option<Part>) -> Result<(Bytes, Option<Part>), Problem> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let detail = format!("the body cannot be read: {}", why_unread(&error));
            Problem::new(ErrorCode::InvalidArgument, detail)
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if all.len() + data.len() > MAX_BODY_BYTES {
            return Err(too_large());
        }
        if !(held.as_mut()).is_some_and(|held| held.add(data.len() as u64)) {
            return Err(no_room());
        }
        all.extend_from_slice(&data);
    }
    Ok((all.freeze(), held))
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
    use seqd_api::NextRequest;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(3);

    async fn read_in(
        bodies: &Bodies,
        request: http::request::Builder,
        body: impl Into<Body>,
        caller: Caller,
    ) -> Result<Request, Problem> {
        let sender = Sender {
            caller,
            connection: None,
        };
        let request = (request.body(body.into()).unwrap(), sender);
        let (media, path, permit) = (Media::Json, PathOf::None, |_, _: &str| Ok(()));
        Request::read(request, media, path, TIMEOUT, bodies, permit).await
    }

    async fn read(request: http::request::Builder, body: &'static str) -> Result<Request, Problem> {
        let request = request.header(CONTENT_LENGTH, body.len());
        read_in(&Bodies::new(Share::WHOLE), request, body, Caller::Anyone).await
    }

    /// Sends a body of the greatest length.
    async fn read_large(bodies: &Bodies, caller: Caller) -> Result<Request, Problem> {
        let request = post("/x").header(CONTENT_LENGTH, MAX_BODY_BYTES);
        read_in(bodies, request, vec![b' '; MAX_BODY_BYTES], caller).await
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
        for value in ["0", "30001", "%2B1", "soon", "1&timeout_ms=2"] {
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
        let bodies = Bodies::new(Share::WHOLE);
        let announced = http::Request::post("/x").header(CONTENT_LENGTH, MAX_BODY_BYTES + 1);
        let large = read_in(&bodies, announced, Body::empty(), Caller::Anyone);
        assert_eq!(code(large.await), "body-too-large");
        let chunked = post("/x").header(TRANSFER_ENCODING, "chunked");
        let body = vec![b' '; MAX_BODY_BYTES + 1];
        let large = read_in(&bodies, chunked, body, Caller::Anyone);
        assert_eq!(code(large.await), "body-too-large");
    }

    #[tokio::test]
    async fn a_tenant_s_bodies_leave_room_for_those_of_others() {
        let bodies = Bodies::new(Share::of_percent(25).unwrap());
        let request = |token| read_large(&bodies, Caller::Token(seqd_state::AccessId(token)));
        let mut held = Vec::new();
        while let Ok(read) = request(1).await {
            held.push(read);
        }
        let most = BODIES_BYTES as usize / MAX_BODY_BYTES / 4 + 1;
        assert!(held.len() <= most, "{} bodies of one tenant", held.len());
        assert_eq!(code(request(1).await), "overloaded");
        assert_eq!(code(request(2).await), "none");
    }

    #[tokio::test]
    async fn bodies_are_held_within_bounds_until_their_requests_are_over() {
        let bodies = Bodies::new(Share::WHOLE);
        let request = || read_large(&bodies, Caller::Anyone);
        let mut held = Vec::new();
        for _ in 0..BODIES_BYTES as usize / MAX_BODY_BYTES {
            held.push(request().await.unwrap());
        }
        assert_eq!(code(request().await), "overloaded");
        held.pop();
        assert_eq!(code(request().await), "none");
    }
}
