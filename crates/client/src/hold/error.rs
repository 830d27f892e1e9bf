//! The reasons why a lock was not acquired, and why it is no longer held.

use seqd_api::{ErrorCode, Problem};

use crate::error::{Error, because};

/// The reason why a lock was not acquired.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LockError {
    /// The options are not accepted by any cluster.
    #[error("{0}")]
    Options(String),
    /// Another caller holds the lock, and the wait has ended. The problem names the holder.
    #[error("{0}")]
    Held(Box<Problem>),
    /// The cluster refused, or could not be reached.
    #[error(transparent)]
    Request(Error),
}

/// The reason why a lock is no longer held.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LockLost {
    /// The cluster reports that the hold expired before it was renewed. Another caller may hold the
    /// lock.
    #[error("the cluster reports that the lock is no longer held: {0}")]
    TakenAway(Box<Problem>),
    /// It was not renewed in time. The cluster may treat it as held for slightly longer.
    #[error("the lock expired because it was not renewed in time{}", because(.why))]
    RanOut {
        /// The reason why the last renewal failed. `None` if this process was suspended in the
        /// meantime.
        why: Option<Box<Error>>,
    },
    /// It was released.
    #[error("the lock was released")]
    Released,
    /// This process is a fork of the process that acquired the lock. Only the parent holds it.
    #[error("the lock is held by the process that this one was forked from")]
    Forked,
}

/// The meaning of an error for a request about a lock.
#[derive(Debug)]
pub(super) enum FailureKind {
    /// Another caller holds the lock.
    Held(Box<Problem>),
    /// The token does not belong to a hold.
    NotHeld(Box<Problem>),
    /// The same request may succeed later and is safe to retry.
    Again(Error),
    /// The request cannot succeed.
    Never(Error),
}

impl FailureKind {
    pub(super) fn of(error: Error) -> Self {
        match error {
            Error::Problem(problem) => match problem.error_code() {
                Some(ErrorCode::LockHeld) => Self::Held(problem),
                Some(ErrorCode::LeaseLost) => Self::NotHeld(problem),
                Some(ErrorCode::OutcomeUnknown) => Self::Again(Error::Problem(problem)),
                _ if problem.retryable => Self::Again(Error::Problem(problem)),
                _ => Self::Never(Error::Problem(problem)),
            },
            Error::Unreachable(_) | Error::NoAnswer(_) | Error::OutcomeUnknown(_) => {
                Self::Again(error)
            }
            // Most likely a response of a proxy.
            Error::BadAnswer { status, .. } if status >= 500 => Self::Again(error),
            _ => Self::Never(error),
        }
    }
}
