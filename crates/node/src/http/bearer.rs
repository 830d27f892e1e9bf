//! The token that a request shows (RFC 6750).

use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue};
use seqd_api::{ErrorCode, Problem, routes};

use super::response::Response;
use crate::access::Access;

/// Whether a request may go on: it shows a token, or its path needs none.
pub(super) fn is_let_in(access: &Access, path: &str, headers: &HeaderMap) -> bool {
    if !access.needs_token() {
        return true;
    }
    let is_known = shown(headers).is_some_and(|token| access.knows(token));
    is_known || routes::find(path).is_some_and(|route| route.is_public)
}

/// One answer to all, whether the token is missing or wrong and whatever was asked for.
pub(super) fn refusal() -> Response {
    let detail = "this node serves those alone who show a token that it knows";
    let problem = Problem::new(ErrorCode::Unauthorized, detail).with_hint(
        "send the header Authorization: Bearer TOKEN; the commands take --token-file FILE or \
         SEQD_TOKEN_FILE",
    );
    Response::problem(&problem).with_header(WWW_AUTHENTICATE.as_str(), "Bearer")
}

/// The token of the one `Authorization` header; with two of them none counts.
fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().map(HeaderValue::as_bytes)?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then_some(token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bearer_header_shows_a_token() {
        let read = |values: &[&str]| {
            let pairs = values.iter();
            let pairs = pairs.map(|value| (AUTHORIZATION, value.parse().unwrap()));
            let headers: HeaderMap =
                pairs
                    .clone()
                    .fold(HeaderMap::new(), |mut all, (name, value)| {
                        all.append(name, value);
                        all
                    });
            shown(&headers).map(<[u8]>::to_vec)
        };
        assert_eq!(read(&["Bearer abc"]).as_deref(), Some(&b"abc"[..]));
        assert_eq!(read(&["bearer  abc "]).as_deref(), Some(&b"abc"[..]));
        for values in [
            &[][..],
            &["Bearer"],
            &["Basic abc"],
            &["abc"],
            &["Bearer a", "Bearer a"],
        ] {
            assert_eq!(read(values), None, "{values:?}");
        }
    }
}
