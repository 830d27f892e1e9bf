//! Why a lock was not had, and why it is not held any more.

use seqd_api::{ErrorCode, Problem};

use crate::error::Error;

/// Why a lock was not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LockError {
    /// Options that no cluster takes.
    #[error("{0}")]
    Options(String),
    /// Another holds it, and the wait is over. The problem names the holder.
    #[error("{0}")]
    Held(Box<Problem>),
    /// The cluster refused, or could not be asked.
    #[error(transparent)]
    Request(Error),
}

/// Why a lock is not held any more.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LockLost {
    /// The cluster says so: the hold ran out before it was renewed, and another may have it.
    #[error("the cluster says that the lock is not held any more: {0}")]
    TakenAway(Box<Problem>),
    /// It was not renewed in time. The cluster may count it as held for a little longer.
    #[error("the lock ran out, as it was not renewed in time{}", because(.why.as_deref()))]
    RanOut {
        /// Why the last renewal failed; `None` if this process was stopped meanwhile.
        why: Option<Box<Error>>,
    },
    /// It was given back.
    #[error("the lock was given back")]
    Released,
    /// This process is a fork of the one that took the lock, which holds it alone.
    #[error("the lock is held by the process that this one was forked from")]
    Forked,
}

fn because(why: Option<&Error>) -> String {
    why.map_or(String::new(), |why| format!(": {why}"))
}

/// What an error means for a request about a lock.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Another holds it.
    Held(Box<Problem>),
    /// The token is not that of a hold.
    NotHeld(Box<Problem>),
    /// The same request may succeed later; it is safe to repeat.
    Again(Error),
    /// It will not.
    Never(Error),
}

impl Verdict {
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
            // Of a proxy in between, as likely as not.
            Error::BadAnswer { status, .. } if status >= 500 => Self::Again(error),
            _ => Self::Never(error),
        }
    }
}
