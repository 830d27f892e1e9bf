//! What can go wrong with a request, and the exit code of a command that met it.

use std::fmt;

use seqd_api::{Problem, exit};

/// One endpoint that was tried and gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The endpoint.
    pub endpoint: String,
    /// Why there was none.
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

/// Why a request has no good answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// An endpoint does not parse, or there is none.
    #[error("{0}")]
    Endpoint(String),
    /// The files for TLS cannot be used.
    #[error("{0}")]
    Tls(String),
    /// The client could not be set up.
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
    /// No endpoint could be connected to, or none showed that it lives; the request was not sent.
    #[error("no node could be reached: {}", Attempts(.0))]
    Unreachable(Vec<Attempt>),
    /// A node answered with a problem.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// A request that changes something was sent, and no answer came: it may have taken effect.
    #[error(
        "outcome unknown: the request was sent to {} and not answered ({}); it may have taken effect",
        .0.endpoint, .0.reason
    )]
    OutcomeUnknown(Attempt),
    /// A request that changes nothing of worth was sent, and no answer came from any node.
    #[error("no answer: {}", Attempts(.0))]
    NoAnswer(Vec<Attempt>),
    /// What a node sent could not be written.
    #[error("cannot write it: {0}")]
    Write(String),
    /// An answer that is not seqd's.
    #[error("{endpoint} answered with status {status}, which is not an answer of seqd: {reason}")]
    BadAnswer {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    pub(crate) fn setup(error: impl fmt::Display) -> Self {
        Self::Setup(error.to_string())
    }

    /// The exit code of a command that met this error.
    #[must_use]
    pub fn exit(&self) -> u8 {
        match self {
            Self::Endpoint(_) | Self::Tls(_) => exit::USAGE,
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

    /// The problem that the node answered with, if it did.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }
}

/// `a:1 (refused), b:2 (timed out)`.
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
