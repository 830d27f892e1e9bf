//! The single table of error codes: each with its HTTP status, exit code, retryability, and the
//! text of `/problems/{code}`, which `docs/PROBLEMS.md` contains too.
//!
//! `retryable` means that the request certainly had no effect. The same request may be sent again,
//! to the same endpoint or to the next.

use std::fmt;

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
    InvalidArgument = "invalid-argument", 400, USAGE, false, "An argument is invalid",
        "a value cannot be parsed or is out of range",
        "send a value that the detail allows";
    UnknownField = "unknown-field", 400, USAGE, false, "A field or query key is unknown",
        "a field or a query key is unknown",
        "the hint suggests the nearest known name";
    CountTooLarge = "count-too-large", 400, USAGE, false, "The count exceeds the limit",
        "the request exceeds the limit of one request",
        "split it into several requests; the response contains the limit";
    MethodNotAllowed = "method-not-allowed", 405, USAGE, false, "The path does not support this method",
        "the path supports only the methods in `Allow`; HEAD is rejected where a GET would \
         allocate something",
        "use one of the methods in `Allow`";
    NotAcceptable = "not-acceptable", 406, USAGE, false, "No acceptable format is available",
        "the response is not available in any format that `Accept` lists",
        "request the format that the hint names";
    BodyTooLarge = "body-too-large", 413, USAGE, false, "The body exceeds the limit",
        "the body is larger than 64 KiB, or the commands together are larger than a log entry may \
         be (8 MiB)",
        "send less in one request";
    UriTooLong = "uri-too-long", 414, USAGE, false, "The path and query exceed the limit",
        "the path and the query together are longer than 4 KiB",
        "send the fields in a JSON body";
    HeadTooLarge = "head-too-large", 431, USAGE, false, "The request head exceeds the limit",
        "the request head is larger than 16 KiB, or has more than 64 headers",
        "send fewer or shorter headers";
    UnsupportedMediaType = "unsupported-media-type", 415, USAGE, false, "The body is not JSON",
        "the `Content-Type` of the body is not `application/json`",
        "curl -H 'content-type: application/json'";
    Unauthorized = "unauthorized", 401, AUTH, false, "The caller is not authenticated",
        "the node requires a token, and the request has none, an unknown one, or an expired one; \
         the response is the same for every path",
        "send one header `Authorization: Bearer TOKEN`; commands take --token-file FILE";
    Forbidden = "forbidden", 403, AUTH, false, "The caller lacks permission",
        "the token does not permit the request (the detail names the missing permission), or a \
         web page of another origin attempts a change",
        "have an administrator create a token that permits it: seqd access create";
    NotFound = "not-found", 404, NOT_FOUND, false, "It does not exist",
        "there is no such path, sequence, member, layout, key, token or code; under `/v1`, \
         `next` does not create a sequence",
        "the hint has the nearest name, or the command that creates the object";
    AlreadyExists = "already-exists", 409, CONFLICT, false, "It exists with another definition",
        "the name exists with another definition, or was deleted and had another definition",
        "use the existing object, or choose another name";
    WouldGoBackwards = "would-go-backwards", 409, CONFLICT, false, "A sequence only moves forward",
        "`advance` names a value that the sequence has already passed",
        "nothing: the sequence is already beyond that value";
    SequenceExhausted = "sequence-exhausted", 409, CONFLICT, false, "The sequence is exhausted",
        "the sequence has no values left, or no contiguous range of the requested size",
        "use another sequence, or a larger `max`";
    LayoutExhausted = "layout-exhausted", 409, CONFLICT, false, "The time field of the layout is full",
        "the time field of the layout is full: its IDs can only be decoded",
        "use another layout";
    LeaseLost = "lease-lost", 409, CONFLICT, false, "The lease, lock or claim was lost",
        "the caller no longer has the worker lease, the lock, or the claim on the idempotency key",
        "stop the work that depends on it; then lease another worker, acquire the lock again, or \
         begin the key again to see whether another caller has completed it";
    GrantSuperseded = "grant-superseded", 409, CONFLICT, false, "A later grant superseded this one",
        "the segment can no longer be returned or extended: a later grant, an `advance` or a \
         deletion intervened, or it was never granted over HTTP",
        "nothing: its unused values remain a gap";
    TokenUsed = "token-used", 409, CONFLICT, false, "The token was already used",
        "another request consumed the one-time token",
        "do not perform the action of the token: the other request performs it";
    UnsafeMemberRemoval = "unsafe-member-removal", 409, CONFLICT, false, "The removal would break the quorum",
        "the cluster would lose its quorum",
        "bring a node back, or add one first";
    LockHeld = "lock-held", 409, CONFLICT, true, "The lock has a holder",
        "the lock is held, or its lock delay after an expired hold has not ended, and the request \
         does not wait any longer",
        "retry after `retry_after_ms`, or wait for the lock with `wait_ms`";
    InProgress = "in-progress", 409, CONFLICT, true, "Another caller works on this key",
        "another caller has a live claim on the key, and has neither completed nor abandoned it",
        "retry with the same key: the response is the result or, once the claim has expired, a \
         new claim";
    MembershipChangeInProgress = "membership-change-in-progress", 409, CONFLICT, true, "Another membership change is under way",
        "another change of the members is under way",
        "retry when the other change has finished";
    LearnerLagging = "learner-lagging", 409, CONFLICT, true, "The learner has not caught up yet",
        "the learner has not caught up, and as a voter would delay the quorum",
        "wait until it has caught up (seqd status), then retry";
    PreconditionFailed = "precondition-failed", 412, CONFLICT, false, "A precondition failed",
        "`If-Match` names another revision, a member or a lock is in another state, there are too \
         many layouts or access tokens, or a command needs a higher level of the cluster",
        "read the current state again, then decide; the detail has the reason";
    FingerprintMismatch = "fingerprint-mismatch", 422, CONFLICT, false, "The key belongs to another request",
        "the key belongs to another request: it was begun with another fingerprint, or sent in \
         `Idempotency-Key` with another request; or the `nonce` belongs to a lock request with \
         other terms",
        "use a new key for each operation, and a new nonce for each acquisition";
    WrongCluster = "wrong-cluster", 421, FAILURE, false, "This node belongs to another cluster",
        "the `Seqd-Cluster` header names a cluster other than this node's",
        "check the endpoints: they belong to another cluster";
    UnknownHost = "unknown-host", 421, FAILURE, false, "The request is for another host",
        "the `Host` header names neither loopback nor this node, for example because a web page \
         made a name of its own resolve to this node",
        "use a name of this node, or add the name to `http.hosts`";
    Internal = "internal", 500, FAILURE, false, "Internal server error",
        "the server failed to process the request",
        "look for the request's ID in the server's log, and report it";
    RateLimited = "rate-limited", 429, UNAVAILABLE, true, "Too many requests",
        "the token has a rate limit, and this node received more requests than that in the last \
         second",
        "wait for the time in `Retry-After`, or have an administrator create a token with a \
         higher rate";
    NoQuorum = "no-quorum", 503, UNAVAILABLE, true, "No leader is in contact with a quorum",
        "no leader is in contact with a majority, the node is not a member of a cluster yet, or the \
         minting window of its worker ended meanwhile",
        "start the members that are down, or repair the network to them: seqd status lists them";
    NoWorkerYet = "no-worker-yet", 503, UNAVAILABLE, true, "The node has no worker ID yet",
        "the node has no worker yet, or its minting window begins later, as in a restored cluster",
        "use another node, or retry in a moment";
    WorkersExhausted = "workers-exhausted", 503, UNAVAILABLE, true, "No worker ID is free",
        "every worker of the layout is leased, or reserved until its last window ends",
        "wait for the time in `Retry-After`; stop nodes that are not needed";
    ClockBehind = "clock-behind", 503, UNAVAILABLE, true, "The clock is behind the last ID",
        "the node's clock is behind its last ID or timestamp, so it issues none of them, and no \
         one-time tokens or worker leases; or the clock of a restored cluster's leader is before \
         the last entry of the backup",
        "use another node, and check this node's clock: chronyc tracking; if the clock is correct \
         and was ahead before: seqd worker reset NODE";
    ClockSkewed = "clock-skewed", 503, UNAVAILABLE, true, "The clock disagrees with the other nodes",
        "a majority of the cluster's clocks agrees and the node's differs, or no majority agrees; \
         or the wall clock moved ahead of the node's monotonic clock or of the leader's time",
        "use another node, and check this node's clock: chronyc tracking";
    Draining = "draining", 503, UNAVAILABLE, true, "The node is stopping or drained",
        "the node is stopping, or (in `/readyz`) it is being drained",
        "use another node";
    Overloaded = "overloaded", 503, UNAVAILABLE, true, "The node is overloaded",
        "a queue, the connections or the memory for bodies are exhausted, all IDs of a tick are \
         used, a limit in `limits` or a tenant's share of it is reached, two snapshots are already \
         being downloaded, the disk has only its reserve left, or (in `/readyz`) the disk hangs",
        "retry in a moment, or use another node";
    NodeRemoved = "node-removed", 503, UNAVAILABLE, true, "The node was removed from the cluster",
        "the node was removed from the cluster and is about to stop",
        "use another node";
    OutcomeUnknown = "outcome-unknown", 504, OUTCOME_UNKNOWN, false, "The request may or may not have taken effect",
        "the command was proposed and its outcome was lost: it may or may not have taken effect",
        "check whether it took effect before you retry; for sequence values a retry costs at most \
         a gap";
}

impl ErrorCode {
    /// The code with this wire form. `None` if this version does not have it: a newer server may
    /// send one.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }

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
            assert_eq!(ErrorCode::of(code.as_str()), Some(*code));
        }
        assert_eq!(ErrorCode::of("no-such-code"), None);
    }

    #[test]
    fn an_unknown_code_gets_the_exit_code_of_its_status() {
        for code in ErrorCode::ALL {
            assert_eq!(exit::for_status(code.row().status), code.exit(), "{code}");
        }
    }
}
