//! Exit codes of the `seqd` binary, client and server.

/// The command succeeded.
pub const OK: u8 = 0;
/// The command failed for a reason without an exit code of its own.
pub const FAILURE: u8 = 1;
/// The command line or the request was wrong.
pub const USAGE: u8 = 2;
/// The named object does not exist.
pub const NOT_FOUND: u8 = 3;
/// The caller is unknown or not permitted.
pub const AUTH: u8 = 4;
/// No node answered, or there is no quorum. The same command may succeed later.
pub const UNAVAILABLE: u8 = 5;
/// The request conflicts with the existing state.
pub const CONFLICT: u8 = 6;
/// The cluster answered but is not healthy.
pub const UNHEALTHY: u8 = 7;
/// The request may or may not have taken effect.
pub const OUTCOME_UNKNOWN: u8 = 8;
/// Server: the folder was refused or the node was removed. A restart does not help. `StopReason` of
/// the crate `store` maps each reason to its exit code.
pub const REFUSED: u8 = 9;
/// Server: a failed fsync, corruption or a broken invariant.
pub const BROKEN: u8 = 10;

/// Maps the HTTP status of a response with an unknown error code to an exit code.
#[must_use]
pub fn for_status(status: u16) -> u8 {
    match status {
        200..=299 => OK,
        401 | 403 => AUTH,
        404 => NOT_FOUND,
        409 | 412 | 422 => CONFLICT,
        429 | 502 | 503 => UNAVAILABLE,
        504 => OUTCOME_UNKNOWN,
        421 => FAILURE,
        400..=499 => USAGE,
        _ => FAILURE,
    }
}
