//! The reasons why an allocator returns no value.

use seqd_api::ErrorCode;

use super::MAX_TAKE;
use crate::error::{Error, because};

/// The reason why an allocator returns no value.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AllocateError {
    /// The options are invalid.
    #[error("{0}")]
    Options(String),
    /// The count is 0 or above [`MAX_TAKE`].
    #[error("a count is 1 to {MAX_TAKE}, not {count}")]
    Count {
        /// The given count.
        count: u32,
    },
    /// All values in memory are used up, and no further segment was granted within the patience. It
    /// is still being requested.
    #[error("no value within the patience{}", because(.why))]
    Unavailable {
        /// The reason why the last request failed. `None` while the first one is in progress.
        why: Option<Box<Error>>,
    },
    /// All values in memory are used up, and the cluster refuses another segment for a permanent
    /// reason: the sequence does not exist, is not a segment sequence or is exhausted, or the token
    /// lacks the permission. It is requested again every 10 s.
    #[error("{0}")]
    Refused(Box<Error>),
    /// A granted segment does not follow the segments before, as in a sequence that cycles.
    #[error("the granted values {first} to {last} do not follow {before}: {hint}")]
    OutOfOrder {
        /// The first granted value.
        first: i64,
        /// The last granted value.
        last: i64,
        /// The last value of the segment before.
        before: i64,
        /// The likely reason.
        hint: &'static str,
    },
    /// This process is a fork of the process that created the allocator. It must create its own.
    #[error("this process is a fork of the one that created this allocator: create another")]
    Forked,
    /// The allocator was closed. This is permanent.
    #[error("the allocator is closed")]
    Closed,
}

/// The meaning of a failed request for a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// Nothing was granted, and the request is repeated.
    Transient,
    /// A segment may have been granted. It is abandoned, and another one is requested.
    Abandoned,
    /// The cluster refuses for a permanent reason.
    Permanent,
}

impl Failed {
    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::Unreachable(_) | Error::NoAnswer(_) => Self::Transient,
            Error::OutcomeUnknown(_) | Error::BadAnswer { .. } => Self::Abandoned,
            Error::Problem(problem) if problem.retryable => Self::Transient,
            Error::Problem(problem) => match problem.error_code() {
                Some(ErrorCode::OutcomeUnknown | ErrorCode::Internal) | None => Self::Abandoned,
                Some(_) => Self::Permanent,
            },
            Error::Endpoint(_)
            | Error::Name(_)
            | Error::Tls(_)
            | Error::Setup(_)
            | Error::Write(_) => Self::Permanent,
        }
    }
}

/// Returns whether the failed request may have taken effect.
pub(super) fn may_have_effect(error: &Error) -> bool {
    matches!(error, Error::NoAnswer(_)) || Failed::of(error) == Failed::Abandoned
}
