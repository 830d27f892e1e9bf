//! The bearer token of a request (RFC 6750).

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use seqd_api::{ErrorCode, Need, Problem, operations};

use tokio::time::Instant;

use super::response::Response;
use crate::access::{Access, Caller, NotLetIn};
use crate::times::rfc3339;

/// Returns the caller of a request if it presents a valid token or its path needs none.
pub(super) fn admit(access: &Access, path: &str, headers: &HeaderMap) -> Result<Caller, NotLetIn> {
    let admitted = access.admit(shown(headers));
    match admitted {
        Err(_) if operations::is_public(path) => Ok(Caller::Anyone),
        admitted => admitted,
    }
}

/// The refusal of a caller. All callers without a recorded token get the same response, whether the
/// token is missing or wrong, regardless of the request.
pub(crate) fn refusal(why: NotLetIn) -> Problem {
    let code = why.code();
    match why {
        NotLetIn::Unknown => {
            let detail = "this node serves those alone who show a token that it knows";
            Problem::new(code, detail).with_hint(
                "send the header Authorization: Bearer TOKEN; the commands take --token-file FILE or \
                 SEQD_TOKEN_FILE",
            )
        }
        NotLetIn::Expired { id, at } => {
            let detail = format!("the token {id} expired at {}", rfc3339(at));
            Problem::new(code, detail).with_hint("seqd access create makes another")
        }
        NotLetIn::NotCurrent => {
            let detail =
                "this node is not in touch with its cluster, so it cannot know which tokens count";
            Problem::new(code, detail).with_hint("ask another node, or this one in a moment")
        }
        NotLetIn::TooMany { per_second, wait } => {
            let detail = format!("this token serves {per_second} requests a second on each node");
            let ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX).max(1);
            Problem::new(code, detail).with_retry_after_ms(ms)
        }
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

/// Refuses a request that the caller's token does not permit; `name` is the name in its path.
pub(super) fn check(
    access: &Access,
    caller: Caller,
    need: Need,
    name: &str,
) -> Result<(), Problem> {
    if access.permits(caller, need, name) {
        return Ok(());
    }
    let missing = need.missing(name);
    let detail = format!("the {caller} does not permit this: it needs {missing}");
    let hint = "an administrator makes tokens: seqd access create --scope SCOPE[:PREFIX]";
    Err(Problem::new(ErrorCode::Forbidden, detail).with_hint(hint))
}

/// Waits until this node has applied all acknowledged revocations.
pub(super) async fn confirm(
    access: &Access,
    caller: Caller,
    deadline: Instant,
) -> Result<(), Problem> {
    let confirmed = access.confirm(caller, deadline).await;
    confirmed.map_err(|error| {
        let detail = format!("whether the token still counts was not confirmed: {error}");
        Problem::new(ErrorCode::NoQuorum, detail).with_hint("ask another node")
    })
}

/// Removes the hint, which may contain a name that the caller may not see.
pub(super) fn without_names(access: &Access, caller: Caller, problem: Problem) -> Problem {
    let sees_all = Need::Whole(seqd_api::Scope::Read);
    let is_named = *problem.code == *ErrorCode::NotFound.as_str();
    if !is_named || access.permits(caller, sees_all, "") {
        return problem;
    }
    Problem {
        hint: None,
        ..problem
    }
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
