//! The refusals of callers: without a valid token, without the scope, or without a connection.

use seqd_api::{ErrorCode, Need, Problem, call_or_command};
use seqd_guards::is_out;
use tokio::time::Instant;

use super::sender::Sender;
use crate::access::{Access, Caller, NotLetIn};
use crate::times::rfc3339;

/// The refusal of a caller. All callers with an unknown token get the same response, regardless of
/// the request and of the part of the token that is wrong.
pub(crate) fn refusal(why: NotLetIn) -> Problem {
    let code = why.code();
    match why {
        NotLetIn::Missing => {
            let detail = "this node requires an access token, and the request has none";
            Problem::new(code, detail).with_hint(
                "send the header Authorization: Bearer TOKEN; the commands take --token-file FILE or \
                 SEQD_TOKEN_FILE",
            )
        }
        NotLetIn::Unknown => {
            let detail = "the access token is wrong: this cluster has no such token";
            Problem::new(code, detail).with_hint(
                "compare it with the token that was printed when it was created: it may be \
                 incomplete, revoked, or of another cluster; the operator's token must be the same \
                 on every node (auth.bootstrap_token_file)",
            )
        }
        NotLetIn::Expired { id, at } => {
            let detail = format!("the token {id} expired at {}", rfc3339(at));
            Problem::new(code, detail).with_hint(call_or_command(
                "POST /v1/access makes another",
                "seqd access create makes another",
            ))
        }
        NotLetIn::NotCurrent => {
            let detail =
                "this node has no contact with its cluster, so it cannot check access tokens";
            Problem::new(code, detail).with_hint("use another node, or retry in a moment")
        }
        NotLetIn::TooMany { per_second, wait } => {
            let detail = format!("this token serves {per_second} requests a second on each node");
            let ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX).max(1);
            Problem::new(code, detail).with_retry_after_ms(ms)
        }
    }
}

/// Refuses a request on a connection in a reserved place, unless the caller may use the reserve.
/// Not called for requests about the node's health.
pub(crate) fn has_place(access: &Access, sender: &Sender) -> Result<(), Problem> {
    let Sender { caller, connection } = sender;
    let reserved = connection
        .as_ref()
        .filter(|connection| connection.is_reserved());
    let Some(connection) = reserved else {
        return Ok(());
    };
    if access.may_use_reserve(*caller, connection.is_first()) {
        return Ok(());
    }
    let detail = "every connection of this node has a request in progress";
    let problem = Problem::new(ErrorCode::Overloaded, detail);
    Err(problem.with_hint("use another node, or retry with fewer connections"))
}

/// Refuses a request that the caller's token does not permit; `name` is the name in its path.
pub(crate) fn check(
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
    let hint = call_or_command(
        "POST /v1/access makes tokens, for an administrator",
        "an administrator makes tokens: seqd access create --scope SCOPE[:PREFIX]",
    );
    Err(Problem::new(ErrorCode::Forbidden, detail).with_hint(hint))
}

/// Refuses an admitted caller whose token was revoked or has expired while its request waited.
pub(crate) fn recheck(access: &Access, caller: Caller) -> Result<(), Problem> {
    match access.recheck(caller) {
        Err(why) if !is_out!(AccessRechecked) => Err(refusal(why)),
        _ => Ok(()),
    }
}

/// Waits until this node has applied all acknowledged revocations.
pub(crate) async fn confirm(
    access: &Access,
    caller: Caller,
    deadline: Instant,
) -> Result<(), Problem> {
    let confirmed = access.confirm(caller, deadline).await;
    confirmed.map_err(|error| {
        let detail = format!("the access token could not be verified: {error}");
        Problem::new(ErrorCode::NoQuorum, detail).with_hint("use another node")
    })
}

/// Removes the hint, which may contain a name that the caller may not see.
pub(crate) fn without_names(access: &Access, caller: Caller, problem: Problem) -> Problem {
    let sees_all = Need::Whole(seqd_api::Scope::Read);
    let is_named = problem.is(ErrorCode::NotFound);
    if !is_named || access.permits(caller, sees_all, "") {
        return problem;
    }
    Problem {
        hint: None,
        ..problem
    }
}
