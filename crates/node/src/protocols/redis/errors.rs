//! The errors of services, as Redis clients expect them.

use seqd_api::{ErrorCode, Problem};

use super::reply::Reply;

/// The reply to a request that failed. `is_reserved` is whether its connection has a reserved
/// place.
pub(super) fn of_problem(problem: &Problem, is_reserved: bool) -> Reply {
    let (code, detail) = (&*problem.code, &*problem.detail);
    if problem.is(ErrorCode::Unauthorized) {
        return Reply::error("NOAUTH Authentication required.");
    }
    if problem.is(ErrorCode::Forbidden) {
        return Reply::error(format!("NOPERM {detail}"));
    }
    if is_reserved && problem.is(ErrorCode::Overloaded) {
        return Reply::error("ERR max number of clients reached");
    }
    let prefix = match problem.retryable {
        true => "TRYAGAIN",
        false => "ERR",
    };
    Reply::error(format!("{prefix} {code}: {detail}"))
}

pub(super) fn wrong_arguments(command: &str) -> Reply {
    let text = format!("ERR wrong number of arguments for '{command}' command");
    Reply::error(text)
}

pub(super) fn not_an_integer() -> Reply {
    Reply::error("ERR value is not an integer or out of range")
}

pub(super) fn syntax() -> Reply {
    Reply::error("ERR syntax error")
}

/// Converts a client's text for use in a message: printable, and at most 128 bytes of it.
pub(super) fn shown(bytes: &[u8]) -> String {
    bytes
        .iter()
        .take(128)
        .flat_map(|byte| byte.escape_ascii())
        .map(char::from)
        .collect()
}
