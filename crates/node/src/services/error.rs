//! What is wrong with a request whatever the cluster's state is.

use seqd_state::SequenceName;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("{0}")]
    Invalid(String),
    #[error("{field} is 1 to {limit}, not {count}")]
    TooMany {
        field: &'static str,
        count: u64,
        limit: u64,
    },
    #[error("there is no layout {:?}", .name.chars().take(80).collect::<String>())]
    NoLayout { name: String, known: Vec<String> },
}

impl RequestError {
    pub(super) fn invalid(detail: impl ToString) -> RequestError {
        RequestError::Invalid(detail.to_string())
    }
}

/// A count within `1..=limit`; 1 where none was given.
pub(super) fn count_within(count: Option<u64>, limit: u64) -> Result<u64, RequestError> {
    within("count", count.unwrap_or(1), limit)
}

/// A number of values within `1..=limit`.
pub(super) fn within(field: &'static str, count: u64, limit: u64) -> Result<u64, RequestError> {
    match count {
        0 => Err(RequestError::Invalid(format!(
            "{field} is 1 to {limit}, not 0"
        ))),
        count if count > limit => Err(RequestError::TooMany {
            field,
            count,
            limit,
        }),
        count => Ok(count),
    }
}

pub(crate) fn sequence_name(text: &str) -> Result<SequenceName, RequestError> {
    SequenceName::new(text).map_err(RequestError::invalid)
}
