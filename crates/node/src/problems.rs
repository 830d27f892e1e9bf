//! Maps the error of a service to the problem in the response. The code and the message are the
//! error's own; this file adds advice: when to retry, and what to do.

use seqd_api::{ErrorCode, KeyState, Problem, SequenceSpec, call_or_command, nearest};
use seqd_raft::{MemberError, ProposeError, SnapshotError};
use seqd_state::{
    AccessRefusal, ClusterRefusal, KeyRefusal, LockHolder, LockRefusal, Refusal, SequenceRefusal,
    WorkerRefusal,
};
use serde_json::{Map, Value};

use crate::admission::refusal;
use crate::minting::MintError;
use crate::services::{
    KeyError, LeaseError, LockError, OneTimeError, Readiness, RequestError, SequenceError,
    ServiceError, Unready,
};
use crate::times::rfc3339;

pub(crate) fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(ErrorCode::InvalidArgument, detail)
}

pub(crate) fn internal(error: &impl ToString) -> Problem {
    Problem::new(ErrorCode::Internal, error.to_string())
}

/// The problem of a node that is not ready; `None` if it is ready.
pub(crate) fn not_ready(readiness: &Readiness) -> Option<Problem> {
    let (check, why) = readiness.failed()?;
    let mut problem = match why {
        // Unlike the detail of the check, this error also has the difference and the time until
        // which it lasts.
        Unready::Minting(error) => ServiceError::from(error.clone()).into(),
        _ => Problem::new(why.code(), check.detail.clone()),
    };
    if let Some(until) = &readiness.ids_until {
        problem.detail = format!("{}; IDs until {until} at least", problem.detail).into();
        problem = problem.with_extra("ids_until", until.clone());
    }
    Some(problem)
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Problem {
        let problem = Problem::new(error.code(), error.to_string());
        match &error {
            ServiceError::Request(error) => request(problem, error),
            ServiceError::Mint(error) => mint(problem, error),
            ServiceError::TimestampsAhead { ms } => problem.with_retry_after_ms(millis(*ms)),
            ServiceError::Full(why) => problem.with_retry_after_ms(why.retry_ms()),
            ServiceError::Overloaded { retry_after_ms, .. } => {
                problem.with_retry_after_ms(*retry_after_ms)
            }
            ServiceError::Unread(ProposeError::OutcomeUnknown { .. }) => {
                problem.with_hint(NO_QUORUM)
            }
            ServiceError::Unread(error) | ServiceError::Propose(error) => propose(problem, error),
            ServiceError::Refused(refusal) => refused(problem, refusal),
            ServiceError::Member { error, .. } => member(problem, error),
            ServiceError::Snapshot(error) => snapshot(problem, error),
            ServiceError::NoToken(_) => problem.with_hint(ALL_TOKENS),
            ServiceError::Internal(_) => problem,
            ServiceError::Sequence(error) => sequence(problem, error),
            ServiceError::Lease(error) => lease(problem, error),
            ServiceError::Key(error) => key(problem, error),
            ServiceError::OneTime(OneTimeError::NotFound | OneTimeError::Used) => problem,
            ServiceError::Lock(error) => lock(problem, error),
            ServiceError::Differs(differs) => {
                let name = &differs.name;
                let (path, command) = match differs.what {
                    "layout" => ("layouts", "layout explain"),
                    _ => ("sequences", "seq get"),
                };
                let problem = problem.with_extra("differences", differs.to_json());
                if differs.is_deleted {
                    return problem;
                }
                problem.with_hint(call_or_command(
                    &format!("GET /v1/{path}/{name} shows it"),
                    &format!("`seqd {command} {name}` shows it"),
                ))
            }
        }
    }
}

/// Advice if a quorum is missing.
const NO_QUORUM: &str = "start the members that are down, or repair the network to them: `seqd \
    status` lists them; IDs stay available while /readyz?for=ids returns 200";

const OTHER_NODE: &str = "use another node";

const ALL_TOKENS: &str = "GET /v1/access lists all tokens | `seqd access list` lists all tokens";

const LEASE_LOST: &str = "stop minting with this worker and lease another: POST /v1/workers | stop \
    minting with this worker and lease another: `seqd worker lease`";

const NOT_HELD: &str = "stop the work that the lock protects; another holder may have begun it";

fn millis(ms: u64) -> u32 {
    u32::try_from(ms.max(1)).unwrap_or(u32::MAX)
}

fn request(problem: Problem, error: &RequestError) -> Problem {
    match error {
        RequestError::Invalid(_) => problem,
        RequestError::TooMany { limit, .. } => problem.with_extra("limit", *limit),
        RequestError::NoLayout { name, known } => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            problem.with_hint(match nearest(name, &known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("known: {}", known.join(", ")),
            })
        }
    }
}

fn propose(problem: Problem, error: &ProposeError) -> Problem {
    match error {
        ProposeError::NoQuorum { .. } => problem.with_hint(NO_QUORUM),
        ProposeError::OutcomeUnknown { .. } => {
            problem.with_hint("the change may or may not have taken effect: check before you retry")
        }
        ProposeError::Overloaded { .. } | ProposeError::OverloadedBytes { .. } => {
            problem.with_retry_after_ms(100)
        }
        ProposeError::NoRoom { .. } => problem.with_retry_after_ms(1000).with_hint(
            "free disk space, or delete keys, tokens or sequences of the cluster: see the page DISK \
             of the documentation",
        ),
        ProposeError::TooLarge { .. } => problem.with_hint("send less in one request"),
        ProposeError::Stopping | ProposeError::NodeRemoved => problem.with_hint(OTHER_NODE),
        ProposeError::AboveLevel { .. } => problem.with_hint(
            "start every member with the newer program; the level rises after that",
        ),
    }
}

fn refused(problem: Problem, refusal: &Refusal) -> Problem {
    match refusal {
        Refusal::Cluster(ClusterRefusal::RestorationNotStamped { .. }) => problem
            .with_hint("check the clock of the leader (chronyc tracking); its log has the reason"),
        Refusal::Workers(WorkerRefusal::WorkersExhausted { retry_after_ms, .. }) => {
            problem.with_retry_after_ms(millis(*retry_after_ms))
        }
        Refusal::Workers(WorkerRefusal::WindowsBeginLater {
            until,
            retry_after_ms,
            ..
        }) => problem
            .with_retry_after_ms(millis(*retry_after_ms))
            .with_extra("until", rfc3339(*until)),
        Refusal::Access(AccessRefusal::NotFound { .. }) => problem.with_hint(ALL_TOKENS),
        Refusal::Sequences(SequenceRefusal::CountOutOfRange { limit, .. }) => {
            problem.with_extra("limit", *limit)
        }
        Refusal::Workers(WorkerRefusal::LeaseLost { .. }) => problem.with_hint(LEASE_LOST),
        Refusal::Keys(KeyRefusal::ClaimLost { .. }) => problem.with_hint(
            "begin the key again: the response shows whether another caller has completed it",
        ),
        Refusal::Locks(LockRefusal::Held {
            holder,
            retry_after_ms,
            ..
        }) => with_holder(problem, holder.as_deref()).with_retry_after_ms(millis(*retry_after_ms)),
        Refusal::Locks(LockRefusal::Lost { .. }) => problem.with_hint(NOT_HELD),
        Refusal::Locks(LockRefusal::NotHeld { name, .. }) => problem.with_hint(call_or_command(
            &format!(
                "GET {} shows the holder",
                seqd_api::paths::fill("/v1/locks/{name}", name.as_str())
            ),
            &format!("`seqd lock get {name}` shows the holder"),
        )),
        Refusal::Locks(LockRefusal::TooManyWaiters { .. } | LockRefusal::TooManyLocks) => {
            problem.with_retry_after_ms(1000)
        }
        Refusal::Locks(LockRefusal::TermsDiffer { .. }) => problem
            .with_hint("use a new nonce for each acquisition, or repeat the request unchanged"),
        _ => problem,
    }
}

/// Adds the holder of the lock.
fn with_holder(problem: Problem, holder: Option<&LockHolder>) -> Problem {
    let Some(holder) = holder else {
        return problem;
    };
    problem
        .with_extra("owner", holder.shown_owner())
        .with_extra("token", holder.token.to_string())
}

/// A clock that went back is corrected within this time, or clocks were far ahead before. It is
/// twice the default window.
const FAR_BEHIND_MS: u64 = 60_000;

/// A node whose clock is wrong has another error, `clock-skewed`, as soon as a majority disagrees
/// with it. A large difference therefore mostly means that all clocks were ahead.
fn clock_behind(by_ms: u64) -> &'static str {
    if by_ms >= FAR_BEHIND_MS {
        "if this node's clock is correct now and was ahead before: `seqd worker reset NODE`, see \
         the page CLOCKS of the documentation; otherwise correct the clock"
    } else {
        "use another node; this node serves again when its clock is correct"
    }
}

fn mint(problem: Problem, error: &MintError) -> Problem {
    match error {
        MintError::ClockBehind { by_ms, until } => problem
            .with_retry_after_ms(millis(*by_ms))
            .with_extra("behind_ms", *by_ms)
            .with_extra("until", rfc3339(*until))
            .with_hint(clock_behind(*by_ms)),
        MintError::ClockSkewed { .. } => {
            problem.with_hint("use another node; check this node's clock (chronyc tracking)")
        }
        // The general advice does not apply, because the lease is this node's own.
        MintError::Propose(ProposeError::OutcomeUnknown { .. })
        | MintError::Refused(Refusal::Workers(WorkerRefusal::LeaseLost { .. }))
        | MintError::WindowEnded { .. }
        | MintError::BeforeEpoch => problem,
        MintError::Propose(error) => propose(problem, error),
        MintError::Refused(refusal) => refused(problem, refusal),
        MintError::NoLeaseYet { .. } => problem.with_retry_after_ms(500),
        MintError::WindowBegins { ms }
        | MintError::TickFull { ms }
        | MintError::Crowded { ms, .. } => problem.with_retry_after_ms(millis(*ms)),
        MintError::TooMany { limit, .. } => problem.with_extra("limit", *limit),
        MintError::LayoutFull { .. } => {
            problem.with_hint("its IDs can only be decoded; use another layout")
        }
        MintError::Stopping => problem.with_hint(OTHER_NODE),
    }
}

fn member(problem: Problem, error: &MemberError) -> Problem {
    match error {
        MemberError::InProgress => problem.with_retry_after_ms(500),
        MemberError::LearnerLagging { .. } => problem.with_retry_after_ms(1000),
        MemberError::Propose(error) => propose(problem, error),
        MemberError::NotFound { .. }
        | MemberError::AlreadyExists { .. }
        | MemberError::Unsafe { .. }
        | MemberError::Unfit { .. } => problem,
    }
}

fn snapshot(problem: Problem, error: &SnapshotError) -> Problem {
    match error {
        SnapshotError::Propose(ProposeError::NoQuorum { .. }) => problem.with_hint(
            "?stale=1 returns the state of this node | `--stale` saves the state of this node",
        ),
        SnapshotError::Propose(error) => propose(problem, error),
        SnapshotError::Busy { .. } | SnapshotError::Disk { .. } => problem,
    }
}

fn sequence(problem: Problem, error: &SequenceError) -> Problem {
    match error {
        SequenceError::NotFound {
            name,
            former: Some(former),
            ..
        } => problem.with_hint(recreation(name.as_str(), former)),
        SequenceError::NotFound {
            name,
            near,
            for_use,
            ..
        } => problem.with_hint(match (near, for_use) {
            (Some(near), true) => call_or_command(
                &format!("did you mean {near}? if not: PUT /v1/sequences/{name} creates it"),
                &format!("did you mean {near}? if not: seqd seq create {name}"),
            ),
            (Some(near), false) => format!("did you mean {near}?"),
            (None, true) => call_or_command(
                &format!("PUT /v1/sequences/{name} creates it"),
                &format!("seqd seq create {name}"),
            ),
            (None, false) => call_or_command(
                "GET /v1/sequences lists all sequences",
                "`seqd seq list` lists all sequences",
            ),
        }),
        SequenceError::StartMissing { .. } => problem.with_hint(
            "set start to the first value that was never handed out, or to min (descending: max) \
             if the name was never used: seqd seq create NAME --start VALUE",
        ),
        SequenceError::NotTogether => {
            problem.with_hint("repeat the request, or use a sequence with longer passes")
        }
        SequenceError::NoRefill { .. } => problem.with_hint(NO_QUORUM),
        SequenceError::CreatedUnread(_)
        | SequenceError::ChangedUnread(_)
        | SequenceError::Exists { .. }
        | SequenceError::NothingToMatch { .. }
        | SequenceError::MoreThanGranted { .. }
        | SequenceError::UnknownGrant { .. }
        | SequenceError::GrantOfKey { .. } => problem,
    }
}

/// How to create a deleted sequence again, with its former definition.
fn recreation(name: &str, former: &SequenceSpec) -> String {
    let fields = match serde_json::to_value(former) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let fields: Map<_, _> = (fields.into_iter())
        .filter(|(_, value)| !value.is_null())
        .collect();
    let options: String = fields
        .iter()
        .map(|(key, value)| match value {
            Value::String(text) => format!(" --{key} {text}"),
            _ => format!(" --{key}"),
        })
        .collect();
    let body = match fields.is_empty() {
        true => String::new(),
        false => format!(" with {}", Value::Object(fields)),
    };
    call_or_command(
        &format!("PUT /v1/sequences/{name}{body} creates it again"),
        &format!("seqd seq create {name}{options}"),
    )
}

fn lease(problem: Problem, error: &LeaseError) -> Problem {
    match error {
        LeaseError::NotGranted { .. } | LeaseError::Over { .. } => problem.with_hint(LEASE_LOST),
        LeaseError::Share { retry_after_ms, .. } => {
            problem.with_retry_after_ms(millis(*retry_after_ms))
        }
    }
}

/// The longest time until a caller retries: the result mostly exists long before the claim expires.
const MAX_KEY_RETRY_MS: u64 = 1000;

fn key(problem: Problem, error: &KeyError) -> Problem {
    match error {
        KeyError::NotFound(_) => problem.with_hint("the key was never begun, or it has expired"),
        KeyError::InProgress {
            claim_ms, attempt, ..
        } => problem
            .with_retry_after_ms(millis((*claim_ms).min(MAX_KEY_RETRY_MS)))
            .with_extra("state", KeyState::InProgress.as_str())
            .with_extra("attempt", *attempt)
            .with_extra("claim_expires_in_ms", *claim_ms),
        KeyError::Mismatch { .. } => problem
            .with_extra("state", "mismatch")
            .with_hint("use a new key for each operation"),
        KeyError::NotAnAnswer { .. } => problem,
    }
}

fn lock(problem: Problem, error: &LockError) -> Problem {
    match error {
        LockError::NotWithdrawn(_) => {
            problem.with_hint("retry with the same nonce, or wait until its ttl has passed")
        }
        LockError::AccessEnded(why) => refusal(*why),
        LockError::NotTheHolder { holder, .. } => {
            with_holder(problem.with_hint(NOT_HELD), holder.as_deref())
        }
    }
}
