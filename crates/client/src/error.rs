//! The errors of a request, and the exit code of a command that receives them.

use std::fmt;
use std::time::Duration;

use seqd_api::{ErrorCode, Problem, exit};

/// An endpoint that was tried and did not respond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The endpoint.
    pub endpoint: String,
    /// The reason why it did not respond.
    pub reason: String,
}

impl Attempt {
    pub(crate) fn new(endpoint: impl fmt::Display, reason: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.to_string(),
            reason: reason.into(),
        }
    }
}

/// The reason why a request has no successful response.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// An endpoint is invalid, or there is none.
    #[error("{0}")]
    Endpoint(String),
    /// The TLS files cannot be used.
    #[error("{0}")]
    Tls(String),
    /// A name that cannot be part of a URL's path. Nothing was sent.
    #[error("a name must not be empty, `.` or `..`, because it is a part of a URL: {0:?}")]
    Name(String),
    /// The client could not be created.
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
    /// No endpoint accepted a connection or responded to `/livez`. The request was not sent.
    #[error("no node could be reached: {}", Attempts(.0))]
    Unreachable(Vec<Attempt>),
    /// A node responded with a problem.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// A request that changes something was sent, and no response arrived. It may have taken
    /// effect.
    #[error(
        "outcome unknown: the request was sent to {} and got no response ({}); it may have taken \
         effect",
        .0.endpoint, .0.reason
    )]
    OutcomeUnknown(Attempt),
    /// A request without an important effect was sent, and no node responded.
    #[error("no response: {}", Attempts(.0))]
    NoAnswer(Vec<Attempt>),
    /// The received data could not be written.
    #[error("cannot write it: {0}")]
    Write(String),
    /// A response that is not from seqd.
    #[error("{endpoint} returned status {status}, and the response is not from seqd: {reason}")]
    BadAnswer {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// The reason why it is invalid.
        reason: String,
    },
}

impl Error {
    pub(crate) fn setup(error: impl fmt::Display) -> Self {
        Self::Setup(error.to_string())
    }

    /// Returns the exit code of a command that receives this error.
    #[must_use]
    pub fn exit(&self) -> u8 {
        match self {
            Self::Endpoint(_) | Self::Name(_) | Self::Tls(_) => exit::USAGE,
            Self::Setup(_) | Self::Write(_) => exit::FAILURE,
            Self::Unreachable(_) | Self::NoAnswer(_) => exit::UNAVAILABLE,
            Self::Problem(problem) => problem.exit(),
            Self::OutcomeUnknown(_) => exit::OUTCOME_UNKNOWN,
            Self::BadAnswer { status, .. } => match exit::for_status(*status) {
                exit::OK => exit::FAILURE,
                code => code,
            },
        }
    }

    /// Returns the problem that the node responded with, if any.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// Returns whether a node responded with the problem of this code.
    pub(crate) fn is(&self, code: ErrorCode) -> bool {
        self.problem().is_some_and(|problem| problem.is(code))
    }

    /// Returns the wait that the response requests.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let ms = self.problem()?.retry_after_ms?;
        Some(Duration::from_millis(ms.into()))
    }
}

/// Continues a message with the reason, if it is known.
pub(crate) fn because(why: &Option<Box<impl fmt::Display>>) -> String {
    why.as_ref()
        .map_or_else(String::new, |why| format!(": {why}"))
}

/// Displays as `a:1 (refused), b:2 (timed out)`.
struct Attempts<'a>(&'a [Attempt]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, attempt) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{} ({})", attempt.endpoint, attempt.reason)?;
        }
        Ok(())
    }
}
