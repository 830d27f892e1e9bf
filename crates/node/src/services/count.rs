//! How many values a request may take.

/// A count that is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CountError {
    #[error("count is 1 to {limit}")]
    Zero { limit: u64 },
    #[error("count is 1 to {limit}, not {count}")]
    TooLarge { count: u64, limit: u64 },
}

/// A count within `1..=limit`; 1 where none was given.
pub(crate) fn within(count: Option<u64>, limit: u64) -> Result<u64, CountError> {
    match count.unwrap_or(1) {
        0 => Err(CountError::Zero { limit }),
        count if count > limit => Err(CountError::TooLarge { count, limit }),
        count => Ok(count),
    }
}
