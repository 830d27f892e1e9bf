//! The one table of error codes: each with its HTTP status, exit code and retryability.
//!
//! `retryable` means: certainly no effect; the same request may be sent again, here or at the next
//! endpoint.

use std::fmt;
use std::str::FromStr;

use crate::exit;

/// What a code means wherever it is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeRow {
    /// The code as it is written in `code` and in `/problems/{code}`.
    pub code: &'static str,
    /// The HTTP status of an answer with this code.
    pub status: u16,
    /// The exit code of a command that met it.
    pub exit: u8,
    /// Whether the request certainly had no effect and may be repeated.
    pub retryable: bool,
    /// A short title for people; the same for every occurrence.
    pub title: &'static str,
}

macro_rules! error_codes {
    ($($variant:ident = $code:literal, $status:literal, $exit:ident, $retryable:literal, $title:literal;)+) => {
        /// Why a request was not served.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode {
            $(#[doc = $title] $variant,)+
        }

        impl ErrorCode {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The row of this code.
            #[must_use]
            pub const fn row(self) -> CodeRow {
                match self {
                    $(Self::$variant => CodeRow {
                        code: $code,
                        status: $status,
                        exit: exit::$exit,
                        retryable: $retryable,
                        title: $title,
                    },)+
                }
            }
        }
    };
}

error_codes! {
    InvalidArgument = "invalid-argument", 400, USAGE, false, "An argument is not valid";
    UnknownField = "unknown-field", 400, USAGE, false, "A field or query key is not known";
    CountTooLarge = "count-too-large", 400, USAGE, false, "The count is over the limit";
    MethodNotAllowed = "method-not-allowed", 405, USAGE, false, "The path does not take this method";
    NotAcceptable = "not-acceptable", 406, USAGE, false, "No form that the client accepts can be sent";
    BodyTooLarge = "body-too-large", 413, USAGE, false, "The body is over the limit";
    UriTooLong = "uri-too-long", 414, USAGE, false, "The path and query are over the limit";
    UnsupportedMediaType = "unsupported-media-type", 415, USAGE, false, "The body is not JSON";
    Unauthorized = "unauthorized", 401, AUTH, false, "The caller is not known";
    Forbidden = "forbidden", 403, AUTH, false, "The caller may not do this";
    NotFound = "not-found", 404, NOT_FOUND, false, "It does not exist";
    AlreadyExists = "already-exists", 409, CONFLICT, false, "It exists with another definition";
    WouldGoBackwards = "would-go-backwards", 409, CONFLICT, false, "A sequence only moves forward";
    SequenceExhausted = "sequence-exhausted", 409, CONFLICT, false, "The sequence has no value left";
    LayoutExhausted = "layout-exhausted", 409, CONFLICT, false, "The time field of the layout is full";
    LeaseLost = "lease-lost", 409, CONFLICT, false, "The lease is not the caller's any more";
    GrantSuperseded = "grant-superseded", 409, CONFLICT, false, "A later grant took the place of this one";
    TokenUsed = "token-used", 409, CONFLICT, false, "The token was used before";
    UnsafeMemberRemoval = "unsafe-member-removal", 409, CONFLICT, false, "The removal would cost the quorum";
    LockHeld = "lock-held", 409, CONFLICT, true, "The lock has a holder";
    InProgress = "in-progress", 409, CONFLICT, true, "Another caller is at it";
    MembershipChangeInProgress = "membership-change-in-progress", 409, CONFLICT, true, "Another membership change is under way";
    LearnerLagging = "learner-lagging", 409, CONFLICT, true, "The learner has not caught up yet";
    PreconditionFailed = "precondition-failed", 412, CONFLICT, false, "It was changed in between";
    FingerprintMismatch = "fingerprint-mismatch", 422, CONFLICT, false, "The key belongs to another request";
    WrongCluster = "wrong-cluster", 421, FAILURE, false, "This node is of another cluster";
    UnknownHost = "unknown-host", 421, FAILURE, false, "The request is for another host";
    Internal = "internal", 500, FAILURE, false, "The server met an error of its own";
    RateLimited = "rate-limited", 429, UNAVAILABLE, true, "Too many requests";
    NoQuorum = "no-quorum", 503, UNAVAILABLE, true, "No leader is in contact with a quorum";
    NoWorkerYet = "no-worker-yet", 503, UNAVAILABLE, true, "The node has no worker ID yet";
    WorkersExhausted = "workers-exhausted", 503, UNAVAILABLE, true, "No worker ID is free";
    ClockBehind = "clock-behind", 503, UNAVAILABLE, true, "The clock is behind the last ID";
    ClockSkewed = "clock-skewed", 503, UNAVAILABLE, true, "The clock disagrees with the other nodes";
    Draining = "draining", 503, UNAVAILABLE, true, "The node is stopping or drained";
    Overloaded = "overloaded", 503, UNAVAILABLE, true, "The node has too much to do";
    NodeRemoved = "node-removed", 503, UNAVAILABLE, true, "The node was removed from the cluster";
    OutcomeUnknown = "outcome-unknown", 504, OUTCOME_UNKNOWN, false, "The request may or may not have taken effect";
}

impl ErrorCode {
    /// The code as it is written on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().code
    }

    /// The exit code of a command that met this code.
    #[must_use]
    pub const fn exit(self) -> u8 {
        self.row().exit
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ErrorCode {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.as_str() == text)
            .ok_or(UnknownCode)
    }
}

/// A code that this version does not know; a newer server may send one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("error code not known to this version")]
pub struct UnknownCode;

#[cfg(test)]
mod tests {
    use super::*;

    /// The published table, written out by hand: status, exit, retryable, codes.
    const PUBLISHED: &[(u16, u8, bool, &str)] = &[
        (
            400,
            2,
            false,
            "invalid-argument unknown-field count-too-large",
        ),
        (405, 2, false, "method-not-allowed"),
        (406, 2, false, "not-acceptable"),
        (413, 2, false, "body-too-large"),
        (414, 2, false, "uri-too-long"),
        (415, 2, false, "unsupported-media-type"),
        (401, 4, false, "unauthorized"),
        (403, 4, false, "forbidden"),
        (404, 3, false, "not-found"),
        (
            409,
            6,
            false,
            "already-exists would-go-backwards sequence-exhausted layout-exhausted lease-lost \
             grant-superseded token-used unsafe-member-removal",
        ),
        (
            409,
            6,
            true,
            "lock-held in-progress membership-change-in-progress learner-lagging",
        ),
        (412, 6, false, "precondition-failed"),
        (422, 6, false, "fingerprint-mismatch"),
        (421, 1, false, "wrong-cluster unknown-host"),
        (500, 1, false, "internal"),
        (429, 5, true, "rate-limited"),
        (
            503,
            5,
            true,
            "no-quorum no-worker-yet workers-exhausted clock-behind clock-skewed draining \
             overloaded node-removed",
        ),
        (504, 8, false, "outcome-unknown"),
    ];

    #[test]
    fn the_table_is_the_published_one_and_has_each_code_once() {
        let mut published: Vec<_> = PUBLISHED
            .iter()
            .flat_map(|(status, exit, retryable, codes)| {
                codes
                    .split_whitespace()
                    .map(move |code| (code, *status, *exit, *retryable))
            })
            .collect();
        let mut ours: Vec<_> = ErrorCode::ALL
            .iter()
            .map(|code| code.row())
            .map(|row| (row.code, row.status, row.exit, row.retryable))
            .collect();
        published.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, published);
        ours.dedup_by_key(|row| row.0);
        assert_eq!(ours.len(), published.len());
    }

    #[test]
    fn a_code_is_found_by_its_text() {
        for code in ErrorCode::ALL {
            assert_eq!(code.as_str().parse(), Ok(*code));
        }
        assert_eq!("no-such-code".parse::<ErrorCode>(), Err(UnknownCode));
    }

    #[test]
    fn an_unknown_code_gets_the_exit_code_of_its_status() {
        for code in ErrorCode::ALL {
            assert_eq!(exit::for_status(code.row().status), code.exit(), "{code}");
        }
    }
}
