//! Checks before a request is read: its origin and its cluster.

use axum::http::header::{HOST, IF_MATCH, IF_NONE_MATCH, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use seqd_api::{ErrorCode, IDEMPOTENCY_KEY_HEADER, Problem};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const SEQD_NODE: HeaderName = HeaderName::from_static("seqd-node");
const SEQD_CLUSTER: HeaderName = HeaderName::from_static("seqd-cluster");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static(IDEMPOTENCY_KEY_HEADER);

/// Longer request IDs are replaced, because they would be copied into each log line.
const MAX_REQUEST_ID: usize = 128;

/// The limit of path and query together: several times the longest name, percent-encoded, and all
/// query keys.
const MAX_TARGET_BYTES: usize = 4096;

/// Refuses a request whose path and query are too long.
pub(crate) fn check_length(uri: &Uri) -> Result<(), Problem> {
    let length = uri
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    if length <= MAX_TARGET_BYTES {
        return Ok(());
    }
    let detail =
        format!("path and query have {length} bytes, at most {MAX_TARGET_BYTES} are allowed");
    Err(Problem::new(ErrorCode::UriTooLong, detail))
}

/// Refuses a change from a page of another origin, a request for another cluster, and an
/// idempotency key that the operation does not accept. `cluster` returns the ID of this cluster and
/// is called only if the request names a cluster. `takes_key` is whether the operation accepts an
/// idempotency key.
pub(crate) fn check(
    method: &Method,
    headers: &HeaderMap,
    takes_key: bool,
    cluster: impl FnOnce() -> Option<String>,
) -> Result<(), Problem> {
    if *method != Method::GET
        && !(headers.get_all(ORIGIN).iter()).all(|origin| same_origin(origin, headers.get(HOST)))
    {
        let detail = "a page of another origin may not change anything here";
        return Err(Problem::new(ErrorCode::Forbidden, detail));
    }
    if !takes_key && headers.contains_key(IDEMPOTENCY_KEY) {
        let detail = "this request does not support the Idempotency-Key header";
        return Err(Problem::new(ErrorCode::InvalidArgument, detail).with_hint(
            "leave the header out; it is for /v1/id, /v1/ids, and next and segments of a sequence",
        ));
    }
    let mut wanted = headers.get_all(SEQD_CLUSTER).iter().peekable();
    if wanted.peek().is_some() {
        let own = cluster();
        let id = own.as_ref().map(|own| own.as_bytes());
        if wanted.any(|wanted| id != Some(wanted.as_bytes())) {
            let own = own.unwrap_or_else(|| "none yet".to_owned());
            let detail = format!("this node's cluster is {own}");
            return Err(Problem::new(ErrorCode::WrongCluster, detail)
                .with_hint("check the endpoints: they lead to another cluster"));
        }
    }
    Ok(())
}

/// Refuses a change with a condition that the operation does not evaluate. A GET may have any:
/// browsers and proxies add them.
pub(super) fn check_conditions(
    method: &Method,
    headers: &HeaderMap,
    evaluated: &[&str],
) -> Result<(), Problem> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    for (header, name) in [(IF_MATCH, "If-Match"), (IF_NONE_MATCH, "If-None-Match")] {
        if headers.contains_key(header) && !evaluated.contains(&name) {
            let detail = format!("this request does not support the {name} header");
            return Err(Problem::new(ErrorCode::InvalidArgument, detail).with_hint(
                "leave the header out; PUT, PATCH and DELETE of a sequence take If-Match, and PUT \
                 takes If-None-Match: *",
            ));
        }
    }
    Ok(())
}

/// Refuses a request that a browser sends for a page of another site, for example for an image.
pub(super) fn check_site(headers: &HeaderMap) -> Result<(), Problem> {
    let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    if matches!(site, None | Some(b"same-origin" | b"none")) {
        return Ok(());
    }
    let detail = "a page of another site may not allocate values here";
    Err(Problem::new(ErrorCode::Forbidden, detail))
}

fn same_origin(origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
    let authority = origin.to_str().ok().and_then(|text| text.split_once("://"));
    match (authority, host.and_then(|host| host.to_str().ok())) {
        (Some((_, authority)), Some(host)) => authority.eq_ignore_ascii_case(host),
        _ => false,
    }
}

/// Assigns request IDs: the caller's own ID if it can be logged, otherwise a random prefix and a
/// counter, which is unique and needs no system call.
#[derive(Debug)]
pub(crate) struct RequestIds {
    prefix: u32,
    count: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new(prefix: u32) -> RequestIds {
        RequestIds {
            prefix,
            count: AtomicU64::new(1),
        }
    }

    pub(crate) fn of(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(REQUEST_ID) {
            Some(given) if fit(given.as_bytes()) => given.clone(),
            _ => self.draw(),
        }
    }

    fn draw(&self) -> HeaderValue {
        let mut text = [0_u8; 8 + 1 + 12];
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let packed = (u128::from(self.prefix) << 48) | u128::from(count & 0xffff_ffff_ffff);
        let digit = |at: u32| b"0123456789abcdef"[((packed >> (4 * at)) & 15) as usize];
        for (place, byte) in text.iter_mut().enumerate() {
            let place = place as u32;
            *byte = match place {
                0..8 => digit(19 - place),
                8 => b'-',
                _ => digit(20 - place),
            };
        }
        HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("-"))
    }
}

fn fit(text: &[u8]) -> bool {
    (1..=MAX_REQUEST_ID).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect()
    }

    fn code(method: Method, pairs: &[(HeaderName, &str)]) -> Option<String> {
        let own = || Some("01J9".to_owned());
        check(&method, &headers(pairs), false, own)
            .err()
            .map(|problem| problem.code.into())
    }

    #[test]
    fn a_foreign_page_may_look_but_not_change() {
        let foreign = [(ORIGIN, "http://evil.example"), (HOST, "localhost:7400")];
        assert_eq!(code(Method::POST, &foreign).as_deref(), Some("forbidden"));
        assert_eq!(
            code(Method::DELETE, &[(ORIGIN, "null")]).as_deref(),
            Some("forbidden")
        );
        assert_eq!(code(Method::HEAD, &foreign).as_deref(), Some("forbidden"));
        assert_eq!(code(Method::GET, &foreign), None);
        let own = [(ORIGIN, "http://localhost:7400"), (HOST, "localhost:7400")];
        assert_eq!(code(Method::POST, &own), None);
        for other in [&own[..1], &foreign[..1], &[(ORIGIN, "null")]] {
            let mut both = headers(&own);
            for (name, value) in other {
                both.append(name, value.parse().unwrap());
            }
            let refused = check(&Method::POST, &both, false, || None);
            assert_eq!(refused.is_err(), other != &own[..1], "{both:?}");
        }
    }

    #[test]
    fn a_page_of_another_site_takes_nothing() {
        let taken = |site: &str| check_site(&headers(&[(SEC_FETCH_SITE, site)])).is_ok();
        assert!(check_site(&HeaderMap::new()).is_ok());
        assert!(taken("none") && taken("same-origin"));
        assert!(!taken("cross-site") && !taken("same-site"));
    }

    #[test]
    fn another_cluster_and_an_idempotency_key_are_refused() {
        let cluster = |id| code(Method::GET, &[(SEQD_CLUSTER, id)]);
        assert_eq!(cluster("01J9"), None);
        assert_eq!(cluster("01J8").as_deref(), Some("wrong-cluster"));
        let mut both = headers(&[(SEQD_CLUSTER, "01J9")]);
        both.append(SEQD_CLUSTER, "01J8".parse().unwrap());
        let own = || Some("01J9".to_owned());
        assert!(check(&Method::GET, &both, false, own).is_err());
        let key = code(Method::POST, &[(IDEMPOTENCY_KEY, "a")]);
        assert_eq!(key.as_deref(), Some("invalid-argument"));
        let headers = headers(&[(IDEMPOTENCY_KEY, "a")]);
        assert!(check(&Method::POST, &headers, true, || None).is_ok());
    }

    #[test]
    fn a_condition_that_would_be_ignored_is_refused_in_a_change_and_in_no_read() {
        let refused = |method: Method, (header, value), evaluated: &[&str]| {
            check_conditions(&method, &headers(&[(header, value)]), evaluated).is_err()
        };
        let (match_, none_match) = ((IF_MATCH, "\"3\""), (IF_NONE_MATCH, "*"));
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(refused(method.clone(), match_.clone(), &[]));
            assert!(refused(method.clone(), none_match.clone(), &["If-Match"]));
            assert!(!refused(method, match_.clone(), &["If-Match"]));
        }
        for method in [Method::GET, Method::HEAD] {
            assert!(!refused(method.clone(), match_.clone(), &[]));
            assert!(!refused(method, none_match.clone(), &[]));
        }
    }

    #[test]
    fn a_fit_request_id_is_kept_and_any_other_replaced() {
        let ids = RequestIds::new(0xabcd_ef01);
        assert_eq!(ids.of(&headers(&[(REQUEST_ID, "req-7")])), "req-7");
        assert_eq!(
            ids.of(&headers(&[(REQUEST_ID, "with space")])),
            "abcdef01-000000000001"
        );
        assert_eq!(ids.of(&HeaderMap::new()), "abcdef01-000000000002");
        let long = "x".repeat(129);
        assert_eq!(
            ids.of(&headers(&[(REQUEST_ID, &long)])),
            "abcdef01-000000000003"
        );
    }
}
