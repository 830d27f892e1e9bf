//! Why a generator makes no ID, and why a worker was not given back.

use seqd_api::{ErrorCode, Problem};
use seqd_idgen::{ClockVerdict, WallMs};

use super::MAX_COUNT;
use crate::error::Error;

/// Why no ID is made.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The owner is empty, too long or has control characters.
    #[error("{owner:?} is no owner: 1 to 255 bytes without control characters")]
    Owner {
        /// The owner as given.
        owner: String,
    },
    /// The count is 0 or above [`MAX_COUNT`].
    #[error("a count is 1 to {MAX_COUNT}, not {count}")]
    Count {
        /// The count as given.
        count: u32,
    },
    /// No lease was taken yet.
    #[error("there is no worker lease yet{}", because(.why))]
    NoLease {
        /// Why the last attempt failed; `None` if the first one is under way.
        why: Option<Box<GenerateError>>,
    },
    /// The window has ended and was not renewed.
    #[error("the window ended at {}{}", time(*.at), because(.why))]
    WindowEnded {
        /// The end of the window, by the wall clock.
        at: WallMs,
        /// Why it was not renewed; `None` if no attempt was due yet.
        why: Option<Box<GenerateError>>,
    },
    /// The cluster could not be asked, or could not answer; it is asked again.
    #[error("{0}")]
    Unavailable(Box<Error>),
    /// The cluster refuses the lease for a reason that stays, such as a token without the right or
    /// a layout that does not exist.
    #[error("{0}")]
    Refused(Box<Error>),
    /// All workers of the layout, or of the datacenter, are taken.
    #[error("all workers are taken; the next may be free at {} ({detail})", time(*.until))]
    WorkersExhausted {
        /// When the next may be free, by the wall clock.
        until: WallMs,
        /// What the cluster answered.
        detail: String,
    },
    /// The layout's time field is full. It stays so.
    #[error("layout {layout} has no ticks left: {detail}")]
    LayoutExhausted {
        /// The layout.
        layout: String,
        /// When it ended, or what the cluster answered.
        detail: String,
    },
    /// The lease names a definition that this version does not know; nothing is minted by a guess.
    #[error("layout {layout} has {field} {value:?}, which this version does not know")]
    UnknownLayout {
        /// The layout.
        layout: String,
        /// The field of the definition.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// The lease does not fit its own layout, or a renewal is not of the lease that was asked for.
    #[error("the cluster's answer cannot be used: {detail}")]
    BadLease {
        /// What does not fit.
        detail: String,
    },
    /// The wall clock is behind the last tick, the window or the layout's epoch.
    #[error("the wall clock is {by_ms} ms behind; it serves again at {}", time(*.until))]
    ClockBehind {
        /// By how many milliseconds.
        by_ms: u64,
        /// The reading from which on IDs are made again.
        until: WallMs,
    },
    /// The wall clock jumped ahead of the monotonic clock. It is trusted once it has been steady
    /// for [`FORWARD_JUMP_CONFIRM`](crate::idgen::FORWARD_JUMP_CONFIRM).
    #[error(
        "the wall clock jumped {by_ms} ms ahead; it is trusted once it has been steady for 5 s"
    )]
    ClockJumped {
        /// By how many milliseconds.
        by_ms: u64,
    },
    /// The wall clock is past a window that was renewed only just now: it is ahead of the
    /// cluster's.
    #[error("the wall clock is past the new window by {by_ms} ms: it is ahead of the cluster's")]
    ClockAhead {
        /// By how many milliseconds it is past the end of the window.
        by_ms: u64,
    },
    /// Others use the ticks of the worker up, and the patience is over.
    #[error("the worker's ticks are used up; the next begins in {ms} ms")]
    Busy {
        /// When the next tick begins, in milliseconds.
        ms: u64,
    },
    /// This process is a fork of the one that made the generator: it makes one of its own.
    #[error("process {here} is a fork of {made_in}, which made this generator: make another")]
    Forked {
        /// The process that made the generator.
        made_in: u32,
        /// This process.
        here: u32,
    },
    /// The generator was closed. It stays so.
    #[error("the generator is closed")]
    Closed,
}

impl GenerateError {
    /// What a failed request for a lease means, at this reading of the wall clock.
    pub(super) fn of_request(error: Error, layout: &str, now: WallMs) -> Self {
        let Some(problem) = error.problem() else {
            return match error {
                Error::Unreachable(_) | Error::NoAnswer(_) | Error::OutcomeUnknown(_) => {
                    Self::Unavailable(Box::new(error))
                }
                // A proxy's page, most likely: it may be gone with the next attempt.
                Error::BadAnswer { .. } => Self::Unavailable(Box::new(error)),
                _ => Self::Refused(Box::new(error)),
            };
        };
        match problem.error_code() {
            Some(ErrorCode::WorkersExhausted) => {
                let ms = u64::from(problem.retry_after_ms.unwrap_or_default());
                Self::WorkersExhausted {
                    until: WallMs(now.0.saturating_add(ms)),
                    detail: problem.detail.to_string(),
                }
            }
            Some(ErrorCode::LayoutExhausted) => Self::LayoutExhausted {
                layout: layout.to_owned(),
                detail: problem.detail.to_string(),
            },
            _ if problem.retryable || problem.status >= 500 => Self::Unavailable(Box::new(error)),
            _ => Self::Refused(Box::new(error)),
        }
    }

    pub(super) fn of_clock(verdict: ClockVerdict) -> Self {
        match verdict {
            ClockVerdict::Behind { by_ms, until } => Self::ClockBehind { by_ms, until },
            ClockVerdict::ForwardJump { by_ms } => Self::ClockJumped { by_ms },
            // The rest comes from peers, which a generator does not have.
            ClockVerdict::Good
            | ClockVerdict::Wait { .. }
            | ClockVerdict::Skewed { .. }
            | ClockVerdict::Split => Self::ClockJumped { by_ms: 0 },
        }
    }

    /// Whether another attempt would most likely end in the same way.
    pub(super) fn is_for_good(&self) -> bool {
        matches!(
            self,
            Self::Refused(_)
                | Self::LayoutExhausted { .. }
                | Self::UnknownLayout { .. }
                | Self::BadLease { .. }
        )
    }

    /// The same with the reason for which no lease was taken or renewed.
    pub(super) fn with(mut self, reason: Option<GenerateError>) -> Self {
        if let Self::NoLease { why } | Self::WindowEnded { why, .. } = &mut self {
            *why = reason.map(Box::new);
        }
        self
    }

    /// The problem that a node answered with, if one did.
    pub(super) fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Unavailable(error) | Self::Refused(error) => error.problem(),
            _ => None,
        }
    }
}

/// Why a worker was not given back. Nothing is minted with it any more, and it is free once its
/// window has ended.
#[derive(Debug, Clone, thiserror::Error)]
#[error("worker {worker} was not given back and stays taken until {}: {why}", time(*.until))]
pub struct NotReleased {
    /// The whole worker field, datacenter bits included.
    pub worker: u32,
    /// The end of its window, by the wall clock.
    pub until: WallMs,
    /// What the last attempt met.
    pub why: String,
}

fn because(why: &Option<Box<GenerateError>>) -> String {
    why.as_ref()
        .map_or_else(String::new, |why| format!(": {why}"))
}

/// The time as `2026-11-21T02:26:41.118Z`.
pub(super) fn time(at: WallMs) -> String {
    let known = i64::try_from(at.0)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    match known {
        Some(stamp) => format!("{stamp:.3}"),
        None => format!("{} ms after 1970", at.0),
    }
}
