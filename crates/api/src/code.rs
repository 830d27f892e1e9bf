//! The single table of error codes: each with its HTTP status, exit code, retryability, and the
//! text of `/problems/{code}`, which `docs/PROBLEMS.md` contains too.
//!
//! `retryable` means that the request certainly had no effect. The same request may be sent again,
//! to the same endpoint or to the next.

use std::fmt;
use std::str::FromStr;

use crate::exit;

/// The meaning of an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeRow {
    /// The code in the member `code` and in `/problems/{code}`.
    pub code: &'static str,
    /// The HTTP status of a response with this code.
    pub status: u16,
    /// The exit code of a command that receives this code.
    pub exit: u8,
    /// True if the request certainly had no effect and may be retried.
    pub retryable: bool,
    /// A short title for people, the same for every occurrence.
    pub title: &'static str,
    /// The condition under which a response has this code.
    pub when: &'static str,
    /// The remedy.
    pub what_to_do: &'static str,
}

macro_rules! error_codes {
    ($(
        $variant:ident = $code:literal, $status:literal, $exit:ident, $retryable:literal, $title:literal,
        $when:literal, $what_to_do:literal;
    )+) => {
        /// The reason why a request was not served.
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
                        when: $when,
                        what_to_do: $what_to_do,
                    },)+
                }
            }
        }
    };
}

error_codes! {
    InvalidArgument = "invalid-argument", 400, USAGE, false, "An argument is not valid",
        "a value is not understood or is out of range",
        "send what the detail says is allowed";
    UnknownField = "unknown-field", 400, USAGE, false, "A field or query key is not known",
        "a field or a query key is not known",
        "the hint has the nearest one that is known";
    CountTooLarge = "count-too-large", 400, USAGE, false, "The count is over the limit",
        "more is asked for than one request may take",
        "ask for less, in several requests; the limit is in the answer";
    MethodNotAllowed = "method-not-allowed", 405, USAGE, false, "The path does not take this method",
        "the path takes other methods, which `Allow` lists; HEAD is refused where a GET would \
         take something",
        "use one of those";
    NotAcceptable = "not-acceptable", 406, USAGE, false, "No form that the client accepts can be sent",
        "no form that `Accept` names can be sent",
        "ask for the form that the hint gives";
    BodyTooLarge = "body-too-large", 413, USAGE, false, "The body is over the limit",
        "a body has more than 64 KiB, or commands together more than an entry of the log may have \
         (8 MiB)",
        "send less at once";
    UriTooLong = "uri-too-long", 414, USAGE, false, "The path and query are over the limit",
        "path and query together have more than 4 KiB",
        "send the fields in a JSON body";
    HeadTooLarge = "head-too-large", 431, USAGE, false, "The head of the request is over the limit",
        "the head of the request has more than 16 KiB, or more than 64 headers",
        "send fewer or shorter headers";
    UnsupportedMediaType = "unsupported-media-type", 415, USAGE, false, "The body is not JSON",
        "a body is not announced as `application/json`",
        "curl -H 'content-type: application/json'";
    Unauthorized = "unauthorized", 401, AUTH, false, "The caller is not known",
        "the node serves nobody without a token that it knows, and the request has none, another, \
         or one that has expired; the answer is the same for every path",
        "send one header `Authorization: Bearer TOKEN`; commands take --token-file FILE";
    Forbidden = "forbidden", 403, AUTH, false, "The caller may not do this",
        "the token does not permit the request: the detail names what is missing; or a web page \
         of another origin would change something",
        "have an administrator make a token that permits it: seqd access create";
    NotFound = "not-found", 404, NOT_FOUND, false, "It does not exist",
        "no such path, sequence, member, layout, key, token or code; nothing is created by use",
        "the hint has the nearest name, or the command that creates it";
    AlreadyExists = "already-exists", 409, CONFLICT, false, "It exists with another definition",
        "the name is there with another definition, also when it was deleted before",
        "use the one that there is, or another name";
    WouldGoBackwards = "would-go-backwards", 409, CONFLICT, false, "A sequence only moves forward",
        "`advance` leads to a value that was passed",
        "nothing: the sequence is beyond that value already";
    SequenceExhausted = "sequence-exhausted", 409, CONFLICT, false, "The sequence has no value left",
        "no value is left before the end of the sequence, or no contiguous range of that size",
        "use another sequence, or a larger `max`";
    LayoutExhausted = "layout-exhausted", 409, CONFLICT, false, "The time field of the layout is full",
        "the time field of the layout is full: it only decodes",
        "mint with another layout";
    LeaseLost = "lease-lost", 409, CONFLICT, false, "What was held is not the caller's any more",
        "the lease of a worker, the hold of a lock, or the claim of an idempotency key is not the \
         caller's any more",
        "stop what rests on it; take another lease or the lock anew; begin the key again, and see \
         whether somebody has completed it";
    GrantSuperseded = "grant-superseded", 409, CONFLICT, false, "A later grant took the place of this one",
        "the segment can no longer be given back or extended: a later grant, an `advance` or a \
         deletion came between, or it was never granted over HTTP",
        "nothing: what is left of it stays a gap";
    TokenUsed = "token-used", 409, CONFLICT, false, "The token was used before",
        "another request consumed the one-time token",
        "do not do what the token is for: somebody else does it";
    UnsafeMemberRemoval = "unsafe-member-removal", 409, CONFLICT, false, "The removal would cost the quorum",
        "the quorum would be lost by the removal",
        "bring a node back, or add one first";
    LockHeld = "lock-held", 409, CONFLICT, true, "The lock has a holder",
        "the lock is held, or delayed behind a hold that ran out, and the wait for it is over",
        "ask again after `retry_after_ms`, or wait for it with `wait_ms`";
    InProgress = "in-progress", 409, CONFLICT, true, "Another caller is at it",
        "another caller was told to go on with the key and has neither completed nor abandoned it, and \
         its claim is not over",
        "repeat it with the same key, for the result or, once the claim is over, to go on";
    MembershipChangeInProgress = "membership-change-in-progress", 409, CONFLICT, true, "Another membership change is under way",
        "another change of the members is under way",
        "repeat it when the other is done";
    LearnerLagging = "learner-lagging", 409, CONFLICT, true, "The learner has not caught up yet",
        "the learner has not caught up, and would hold up the quorum as a voter",
        "wait for it (seqd status), then repeat";
    PreconditionFailed = "precondition-failed", 412, CONFLICT, false, "It was changed in between",
        "`If-Match` names another revision; or a member cannot be promoted or lead as it is; or a \
         command needs a level that the cluster does not have yet",
        "read it again, then decide; the detail says why";
    FingerprintMismatch = "fingerprint-mismatch", 422, CONFLICT, false, "The key belongs to another request",
        "something else was begun under the key: another fingerprint, or with the header \
         `Idempotency-Key` another request; or a lock was asked for with a `nonce` that stands for \
         other terms",
        "take a new key for each thing that is to be done once, and a new nonce for each acquisition";
    WrongCluster = "wrong-cluster", 421, FAILURE, false, "This node is of another cluster",
        "the `Seqd-Cluster` header names another cluster than this node's",
        "check the endpoints: they lead to another cluster";
    UnknownHost = "unknown-host", 421, FAILURE, false, "The request is for another host",
        "the `Host` header names neither loopback nor this node, as when a web page has a name of \
         its own lead here",
        "ask by a name of this node, or add the name to `http.hosts`";
    Internal = "internal", 500, FAILURE, false, "The server met an error of its own",
        "an error of the server's own",
        "look for the request's ID in the server's log, and report it";
    RateLimited = "rate-limited", 429, UNAVAILABLE, true, "Too many requests",
        "the token has a rate, and more requests than that came to this node in the last second",
        "wait as long as `Retry-After` asks for, or have a token with a higher rate made";
    NoQuorum = "no-quorum", 503, UNAVAILABLE, true, "No leader is in contact with a quorum",
        "no leader is in contact with a majority, or the window of time of the node's worker \
         ended without one",
        "start the members that are down, or fix the network to them: seqd status shows which";
    NoWorkerYet = "no-worker-yet", 503, UNAVAILABLE, true, "The node has no worker ID yet",
        "the node is taking a worker, or its window begins later, as in a cluster that was restored",
        "ask another node, or this one again in a moment";
    WorkersExhausted = "workers-exhausted", 503, UNAVAILABLE, true, "No worker ID is free",
        "every worker of the layout is leased, or its last window has not ended",
        "wait as long as `Retry-After` asks for; stop nodes that are not needed";
    ClockBehind = "clock-behind", 503, UNAVAILABLE, true, "The clock is behind the last ID",
        "the node's clock is behind its last ID, so it gives no IDs, one-time tokens and worker leases; or \
         the leader of a restored cluster has a clock before the backup's last entry",
        "ask another node, and check this one's clock: chronyc tracking; where the clock is right and was \
         ahead before: seqd worker reset NODE";
    ClockSkewed = "clock-skewed", 503, UNAVAILABLE, true, "The clock disagrees with the other nodes",
        "a majority of the cluster's clocks agrees without the node's, or no majority agrees; or the clock ran ahead of its own monotonic clock or of the leader's time",
        "ask another node, and check this one's clock: chronyc tracking";
    Draining = "draining", 503, UNAVAILABLE, true, "The node is stopping or drained",
        "the node is stopping",
        "ask another node";
    Overloaded = "overloaded", 503, UNAVAILABLE, true, "The node has too much to do",
        "a queue, the connections or the memory for bodies are full, all IDs of a tick are taken, \
         there are as many keys or one-time tokens as `limits` allows, two snapshots are being downloaded already, or (in `/readyz`) the disk hangs",
        "repeat it in a moment, or ask another node";
    NodeRemoved = "node-removed", 503, UNAVAILABLE, true, "The node was removed from the cluster",
        "the node was removed from the cluster, and is about to end",
        "ask another node";
    OutcomeUnknown = "outcome-unknown", 504, OUTCOME_UNKNOWN, false, "The request may or may not have taken effect",
        "it was proposed and its answer was lost: it may or may not have taken effect",
        "look before you repeat it; for values of a sequence a repetition costs at most a gap";
}

impl ErrorCode {
    /// The code in its wire form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().code
    }

    /// The exit code of a command that receives this code.
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

/// A code that is unknown to this version. A newer server may send one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("error code not known to this version")]
pub struct UnknownCode;

#[cfg(test)]
mod tests {
    use super::*;

    /// The published table, written by hand: status, exit code, retryability, codes.
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
        (431, 2, false, "head-too-large"),
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
