//! The reasons why a generator mints no ID, and why a worker was not released.

use seqd_api::{ErrorCode, Problem};
use seqd_idgen::{ClockVerdict, WallMs};

use super::MAX_COUNT;
use crate::definition::UnknownLayout;
use crate::error::{Error, because};

/// The reason why no ID is minted.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The owner is empty, too long or has control characters.
    #[error(
        "{owner:?} is not a valid owner: an owner has 1 to 255 bytes without control characters"
    )]
    Owner {
        /// The given owner.
        owner: String,
    },
    /// The count is 0 or above [`MAX_COUNT`].
    #[error("the count must be 1 to {MAX_COUNT}, not {count}")]
    Count {
        /// The given count.
        count: u32,
    },
    /// No lease has been taken yet.
    #[error("there is no worker lease yet{}", because(.why))]
    NoLease {
        /// The reason why the last attempt failed. `None` while the first attempt is in progress.
        why: Option<Box<GenerateError>>,
    },
    /// The window has ended without a renewal.
    #[error("the window ended at {}{}", time(*.at), because(.why))]
    WindowEnded {
        /// The end of the window, by the wall clock.
        at: WallMs,
        /// The reason why it was not renewed. `None` if no attempt was due yet.
        why: Option<Box<GenerateError>>,
    },
    /// The cluster could not be reached or could not respond. The request is retried.
    #[error("{0}")]
    Unavailable(Box<Error>),
    /// The cluster refuses the lease for a permanent reason, such as a token without the permission
    /// or a layout that does not exist.
    #[error("{0}")]
    Refused(Box<Error>),
    /// All workers of the layout, or of the datacenter, are leased.
    #[error("all workers are leased; the next may be free at {} ({detail})", time(*.until))]
    WorkersExhausted {
        /// The time when the next worker may be free, by the wall clock.
        until: WallMs,
        /// The detail of the cluster's response.
        detail: String,
    },
    /// The time field of the layout is full. This is permanent.
    #[error("layout {layout} has no ticks left: {detail}")]
    LayoutExhausted {
        /// The layout.
        layout: String,
        /// The time when it was exhausted, or the detail of the cluster's response.
        detail: String,
    },
    /// The lease has a layout that this version does not support.
    #[error(transparent)]
    UnknownLayout(#[from] UnknownLayout),
    /// The lease does not fit its own layout, or a renewal belongs to another lease.
    #[error("the cluster's response cannot be used: {detail}")]
    BadLease {
        /// The mismatch.
        detail: String,
    },
    /// The wall clock is behind the last tick, the window or the layout's epoch.
    #[error("the wall clock is {by_ms} ms behind; the generator serves again at {}", time(*.until))]
    ClockBehind {
        /// The difference in milliseconds.
        by_ms: u64,
        /// The reading from which IDs are minted again.
        until: WallMs,
    },
    /// The wall clock jumped ahead of the monotonic clock. It is trusted once it has been steady
    /// for [`FORWARD_JUMP_CONFIRM`](crate::idgen::FORWARD_JUMP_CONFIRM).
    #[error(
        "the wall clock jumped {by_ms} ms ahead; it is trusted again after it has been steady for \
         5 s"
    )]
    ClockJumped {
        /// The size of the jump in milliseconds.
        by_ms: u64,
    },
    /// The wall clock is past the end of a window that was renewed a moment ago, so it is ahead of
    /// the cluster's clock.
    #[error("the wall clock is past the new window by {by_ms} ms: it is ahead of the cluster's")]
    ClockAhead {
        /// The milliseconds since the end of the window.
        by_ms: u64,
    },
    /// Other callers use all IDs of the worker's ticks until the deadline of this call.
    #[error("the worker's ticks are used up; the next begins in {ms} ms")]
    Busy {
        /// The milliseconds until the next tick.
        ms: u64,
    },
    /// This process is a fork of the process that created the generator. It must create its own.
    #[error(
        "process {here} is a fork of process {made_in}, which created this generator: create \
         another generator"
    )]
    Forked {
        /// The ID of the process that created the generator.
        made_in: u32,
        /// The ID of this process.
        here: u32,
    },
    /// The generator was closed. This is permanent.
    #[error("the generator is closed")]
    Closed,
}

impl GenerateError {
    /// Maps a failed lease request to an error. `now` is a reading of the wall clock.
    pub(super) fn of_request(error: Error, layout: &str, now: WallMs) -> Self {
        let Some(problem) = error.problem() else {
            return match error {
                Error::Unreachable(_) | Error::NoAnswer(_) | Error::OutcomeUnknown(_) => {
                    Self::Unavailable(Box::new(error))
                }
                // Most likely a page of a proxy. The next attempt may succeed.
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
            // The other verdicts come from the comparison with peers, which a generator does not
            // have.
            ClockVerdict::Good
            | ClockVerdict::Wait { .. }
            | ClockVerdict::Skewed { .. }
            | ClockVerdict::Split => Self::ClockJumped { by_ms: 0 },
        }
    }

    /// Returns whether another attempt would most likely fail in the same way.
    pub(super) fn is_for_good(&self) -> bool {
        matches!(
            self,
            Self::Refused(_)
                | Self::LayoutExhausted { .. }
                | Self::UnknownLayout(_)
                | Self::BadLease { .. }
        )
    }

    /// Adds the reason why no lease was taken or renewed.
    pub(super) fn with(mut self, reason: Option<GenerateError>) -> Self {
        if let Self::NoLease { why } | Self::WindowEnded { why, .. } = &mut self {
            *why = reason.map(Box::new);
        }
        self
    }

    /// Returns the problem that a node responded with, if any.
    pub(super) fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Unavailable(error) | Self::Refused(error) => error.problem(),
            _ => None,
        }
    }
}

/// The reason why a worker was not released. Nothing is minted with it any more, and it is free
/// after the end of its window.
#[derive(Debug, Clone, thiserror::Error)]
#[error("worker {worker} was not released and stays reserved until {}: {why}", time(*.until))]
pub struct NotReleased {
    /// The whole worker field, including the datacenter bits.
    pub worker: u32,
    /// The end of its window, by the wall clock.
    pub until: WallMs,
    /// The result of the last attempt.
    pub why: String,
}

/// Formats the time as `2026-11-21T02:26:41.118Z`.
pub(super) fn time(at: WallMs) -> String {
    let known = i64::try_from(at.0)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    match known {
        Some(stamp) => format!("{stamp:.3}"),
        None => format!("{} ms after 1970", at.0),
    }
}
