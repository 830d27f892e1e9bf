//! What each path does: from a request type to an answer.

pub(crate) mod cluster;
mod cursor;
pub(crate) mod health;
pub(crate) mod ids;
pub(crate) mod layouts;
pub(crate) mod next;
pub(crate) mod segments;
pub(crate) mod sequences;
pub(crate) mod snapshot;
pub(crate) mod uuids;
pub(crate) mod workers;

use seqd_api::{ErrorCode, Problem};

/// An argument that cannot be used.
pub(crate) fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(ErrorCode::InvalidArgument, detail)
}

/// A count within `1..=limit`; 1 where none was given.
pub(crate) fn count_within(count: Option<u64>, limit: u64) -> Result<u64, Problem> {
    match count.unwrap_or(1) {
        0 => Err(invalid(format!("count is 1 to {limit}"))),
        count if count > limit => Err(Problem::new(
            ErrorCode::CountTooLarge,
            format!("count is 1 to {limit}, not {count}"),
        )
        .with_extra("limit", limit)),
        count => Ok(count),
    }
}

/// Refuses `count` where the path gives one value.
pub(crate) fn no_count(count: Option<u64>, plural: &str, known: &[&str]) -> Result<(), Problem> {
    if count.is_none() {
        return Ok(());
    }
    let known: Vec<&str> = known
        .iter()
        .copied()
        .filter(|key| *key != "count")
        .collect();
    Err(seqd_api::request::unknown("count", "query key", &known)
        .with_hint(format!("{plural} takes a count")))
}
