//! The bearer token of a request (RFC 6750).

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use seqd_api::{Problem, operations};

use super::response::Response;
use crate::access::{Access, Caller, NotLetIn};

/// Returns the caller of a request if it presents a valid token or its path needs none.
pub(super) fn admit(access: &Access, path: &str, headers: &HeaderMap) -> Result<Caller, NotLetIn> {
    let admitted = access.admit(shown(headers));
    match admitted {
        Err(_) if operations::is_public(path) => Ok(Caller::Anyone),
        admitted => admitted,
    }
}

/// The response to a problem. A response that demands a token names its scheme (RFC 6750, section
/// 3).
pub(super) fn response(problem: &Problem) -> Response {
    let response = Response::problem(problem);
    if problem.status == 401 {
        return response.with_header(WWW_AUTHENTICATE.as_str(), "Bearer");
    }
    response
}

/// The token of the only `Authorization` header; `None` if there are two.
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
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
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
