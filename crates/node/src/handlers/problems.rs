//! From each service's errors to the problem that a client reads: the one table, exhaustive.
//!
//! The codes of what consensus and the state machine refuse are in [`crate::codes`], those of all
//! else here; statuses, titles and retryability belong to the code (`seqd_api`). The words are the
//! error's own. What is added here is advice: when to repeat, and what to do.

use seqd_api::{ErrorCode, KeyState, Problem, nearest};
use seqd_raft::{MemberError, ProposeError, SnapshotError};
use seqd_state::{
    AccessRefusal, ClusterRefusal, KeyRefusal, LayoutRefusal, LockHolder, LockRefusal, Refusal,
    SequenceRefusal, WorkerRefusal,
};

use crate::codes;
use crate::http::refusal;
use crate::minting::MintError;
use crate::services::{
    AccessError, ClusterError, IdError, KeyError, LayoutError, LeaseError, LockError, NoRoom,
    OneTimeError, Readiness, RequestError, SecretError, SequenceError, UuidError,
};
use crate::times::rfc3339;

pub(super) fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(ErrorCode::InvalidArgument, detail)
}

pub(super) fn internal(error: &impl ToString) -> Problem {
    Problem::new(ErrorCode::Internal, error.to_string())
}

/// What to do where a quorum is missing.
const NO_QUORUM: &str = "start the members that are down, or mend the network to them: `seqd status` \
     shows which; IDs go on meanwhile as long as /readyz?for=ids answers 200";

fn no_room(why: &NoRoom) -> Problem {
    Problem::new(ErrorCode::Overloaded, why.to_string()).with_retry_after_ms(why.retry_ms())
}

fn millis(ms: u64) -> u32 {
    u32::try_from(ms.max(1)).unwrap_or(u32::MAX)
}

fn propose(error: &ProposeError) -> Problem {
    let problem = Problem::new(codes::of_propose(error), error.to_string());
    match error {
        ProposeError::NoQuorum { .. } => problem.with_hint(NO_QUORUM),
        ProposeError::OutcomeUnknown { .. } => {
            problem.with_hint("it may or may not have happened: look before you repeat it")
        }
        ProposeError::Overloaded { .. } | ProposeError::OverloadedBytes { .. } => {
            problem.with_retry_after_ms(100)
        }
        ProposeError::NoRoom { .. } => problem.with_retry_after_ms(1000).with_hint(
            "make room on the disk, or free what the cluster keeps: docs/DAY-TWO.md, disk space",
        ),
        ProposeError::TooLarge { .. } => problem.with_hint("send less at once"),
        ProposeError::Stopping | ProposeError::NodeRemoved => problem.with_hint("ask another node"),
        ProposeError::AboveLevel { .. } => {
            problem.with_hint("start every member with the newer program: the level rises then")
        }
    }
}

/// A read has no outcome that could be unknown.
fn unread(error: &ProposeError) -> Problem {
    match error {
        ProposeError::OutcomeUnknown { .. } => {
            Problem::new(ErrorCode::NoQuorum, error.to_string()).with_hint(NO_QUORUM)
        }
        error => propose(error),
    }
}

fn refused(refusal: &Refusal) -> Problem {
    let problem = Problem::new(codes::of_refusal(refusal), codes::words(refusal));
    match refusal {
        Refusal::Cluster(ClusterRefusal::RestorationNotStamped { .. }) => {
            problem.with_hint("check the clock of the leader (chronyc tracking); its log says why")
        }
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
        Refusal::Access(AccessRefusal::NotFound { .. }) => {
            problem.with_hint("seqd access list shows all")
        }
        Refusal::Workers(WorkerRefusal::LeaseLost { .. }) => {
            problem.with_hint("stop minting with it and take another: POST /v1/workers")
        }
        Refusal::Keys(KeyRefusal::ClaimLost { .. }) => {
            problem.with_hint("begin the key again: it says whether somebody has completed it")
        }
        Refusal::Locks(LockRefusal::Held {
            holder,
            retry_after_ms,
            ..
        }) => with_holder(problem, holder.as_deref()).with_retry_after_ms(millis(*retry_after_ms)),
        Refusal::Locks(LockRefusal::Lost { .. }) => problem.with_hint(NOT_HELD),
        Refusal::Locks(LockRefusal::NotHeld { name, .. }) => {
            problem.with_hint(format!("seqd lock get {name} shows who holds it"))
        }
        Refusal::Locks(LockRefusal::TooManyWaiters { .. } | LockRefusal::TooManyLocks) => {
            problem.with_retry_after_ms(1000)
        }
        Refusal::Locks(LockRefusal::TermsDiffer { .. }) => {
            problem.with_hint("draw another nonce for each acquisition, or repeat it as it was")
        }
        Refusal::Layouts(LayoutRefusal::Exists { name }) => problem.with_hint(format!(
            "seqd layout explain {name} shows the one that there is"
        )),
        Refusal::Sequences(SequenceRefusal::SequenceExists { name, .. }) => {
            problem.with_hint(format!("seqd seq get {name} shows the one that there is"))
        }
        _ => problem,
    }
}

const NOT_HELD: &str = "stop what the lock protects; another may be at it";

/// Names who holds the lock.
fn with_holder(problem: Problem, holder: Option<&LockHolder>) -> Problem {
    let Some(holder) = holder else {
        return problem;
    };
    problem
        .with_extra("owner", holder.owner.clone())
        .with_extra("token", holder.token.to_string())
}

pub(super) fn mint(error: &MintError) -> Problem {
    let problem = Problem::new(error.code(), error.to_string());
    match error {
        MintError::ClockBehind { by_ms, until } => problem
            .with_retry_after_ms(millis(*by_ms))
            .with_extra("behind_ms", *by_ms)
            .with_extra("until", rfc3339(*until))
            .with_hint("ask another node; this one serves again when its clock is right"),
        MintError::ClockSkewed { .. } => {
            problem.with_hint("ask another node; check this one's clock (chronyc tracking)")
        }
        MintError::Propose(ProposeError::OutcomeUnknown { .. })
        | MintError::Refused(
            Refusal::Workers(WorkerRefusal::LeaseLost { .. })
            | Refusal::Cluster(ClusterRefusal::StaleStart { .. } | ClusterRefusal::NotFounded),
        )
        | MintError::WindowEnded { .. }
        | MintError::BeforeEpoch => problem,
        MintError::Propose(error) => propose(error),
        MintError::Refused(refusal) => refused(refusal),
        MintError::NoLeaseYet { .. } => problem.with_retry_after_ms(500),
        MintError::WindowBegins { ms }
        | MintError::TickFull { ms }
        | MintError::Crowded { ms, .. } => problem.with_retry_after_ms(millis(*ms)),
        MintError::LayoutFull { .. } => {
            problem.with_hint("it decodes only; mint with another layout")
        }
        MintError::Stopping => problem.with_hint("ask another node"),
    }
}

/// A node that is not ready; `None` if it is.
pub(super) fn not_ready(readiness: &Readiness) -> Option<Problem> {
    use crate::services::Unready;
    let (check, why) = readiness.failed()?;
    let mut problem = match why {
        // It has more than the detail: by how much, until when.
        Unready::Minting(error) => mint(error),
        _ => Problem::new(why.code(), check.detail.clone()),
    };
    if let Some(until) = &readiness.ids_until {
        problem.detail = format!("{}; IDs until {until} at least", problem.detail).into();
        problem = problem.with_extra("ids_until", until.clone());
    }
    Some(problem)
}

pub(super) fn snapshot(error: &SnapshotError) -> Problem {
    let problem = match error {
        SnapshotError::Propose(error) => propose(error),
        _ => Problem::new(codes::of_snapshot(error), error.to_string()),
    };
    match error {
        SnapshotError::Propose(ProposeError::NoQuorum { .. }) => {
            problem.with_hint("?stale=1 gives what this node has")
        }
        SnapshotError::Busy { .. } | SnapshotError::Propose(_) | SnapshotError::Disk { .. } => {
            problem
        }
    }
}

/// `?` in a handler: each service's error becomes its problem.
macro_rules! problems {
    ($($error:ty: $read:expr;)+) => {
        $(impl From<$error> for Problem {
            fn from(error: $error) -> Problem {
                let read: fn(&$error) -> Problem = $read;
                read(&error)
            }
        })+
    };
}

problems! {
    RequestError: request;
    IdError: id;
    UuidError: uuid;
    SequenceError: sequence;
    ClusterError: cluster;
    AccessError: access;
    LayoutError: layout;
    LeaseError: lease;
    KeyError: key;
    OneTimeError: one_time;
    LockError: lock;
}

fn request(error: &RequestError) -> Problem {
    let detail = error.to_string();
    match error {
        RequestError::Invalid(_) => invalid(detail),
        RequestError::TooMany { limit, .. } => {
            Problem::new(ErrorCode::CountTooLarge, detail).with_extra("limit", *limit)
        }
        RequestError::NoLayout { name, known } => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let hint = match nearest(name, &known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("known: {}", known.join(", ")),
            };
            Problem::new(ErrorCode::NotFound, detail).with_hint(hint)
        }
    }
}

fn id(error: &IdError) -> Problem {
    match error {
        IdError::Request(error) => request(error),
        IdError::Mint(error) => mint(error),
    }
}

fn uuid(error: &UuidError) -> Problem {
    match error {
        UuidError::Request(error) => request(error),
        UuidError::NoRandom(error) => internal(error),
    }
}

fn sequence(error: &SequenceError) -> Problem {
    let detail = error.to_string();
    match error {
        SequenceError::Request(error) => request(error),
        SequenceError::NotFound {
            name,
            near,
            for_use,
        } => {
            let hint = match (near, for_use) {
                (Some(near), true) => {
                    format!("did you mean {near}? if not: seqd seq create {name}")
                }
                (Some(near), false) => format!("did you mean {near}?"),
                (None, true) => format!("seqd seq create {name}"),
                (None, false) => "seqd seq list shows all".to_owned(),
            };
            Problem::new(ErrorCode::NotFound, detail).with_hint(hint)
        }
        SequenceError::StartMissing { .. } => invalid(detail).with_hint(
            "give the first value that was never handed out, or min (descending: max) if the name \
             was never used: seqd seq create NAME --start VALUE",
        ),
        SequenceError::Full(why) => no_room(why),
        SequenceError::Unread(error) => unread(error),
        SequenceError::Propose(error) => propose(error),
        SequenceError::Refused(refusal) => refused(refusal),
        SequenceError::CreatedUnread(_) | SequenceError::ChangedUnread(_) => {
            Problem::new(ErrorCode::OutcomeUnknown, detail)
        }
        SequenceError::NotTogether => Problem::new(ErrorCode::SequenceExhausted, detail)
            .with_hint("repeat the request: it is served from the new pass"),
        SequenceError::Exists { .. } => Problem::new(ErrorCode::PreconditionFailed, detail),
        SequenceError::NoRefill { .. } => {
            Problem::new(ErrorCode::NoQuorum, detail).with_hint(NO_QUORUM)
        }
        SequenceError::Crowded { .. } => {
            Problem::new(ErrorCode::Overloaded, detail).with_retry_after_ms(100)
        }
        SequenceError::MoreThanGranted { .. } | SequenceError::UnknownGrant { .. } => {
            Problem::new(ErrorCode::GrantSuperseded, detail)
        }
        SequenceError::UnexpectedOutcome(_) | SequenceError::NoRandom(_) => {
            Problem::new(ErrorCode::Internal, detail)
        }
    }
}

fn cluster(error: &ClusterError) -> Problem {
    match error {
        ClusterError::Request(error) => request(error),
        ClusterError::Member { change, error } => member(*change, error),
    }
}

fn access(error: &AccessError) -> Problem {
    let detail = error.to_string();
    match error {
        AccessError::Request(error) => request(error),
        AccessError::NotFound(_) => {
            Problem::new(ErrorCode::NotFound, detail).with_hint("seqd access list shows all")
        }
        AccessError::Unread(error) => unread(error),
        AccessError::Propose(error) => propose(error),
        AccessError::Refused(refusal) => refused(refusal),
        AccessError::NoRandom(_) | AccessError::UnexpectedOutcome(_) => internal(error),
    }
}

fn layout(error: &LayoutError) -> Problem {
    match error {
        LayoutError::Request(error) => request(error),
        LayoutError::Invalid(_) => invalid(error.to_string()),
        LayoutError::Unread(error) => unread(error),
        LayoutError::Propose(error) => propose(error),
        LayoutError::Refused(refusal) => refused(refusal),
        LayoutError::UnexpectedOutcome(_) => internal(error),
    }
}

fn secret(error: &SecretError) -> Problem {
    match error {
        SecretError::Unread(error) => unread(error),
        SecretError::Propose(error) => propose(error),
        SecretError::NoRandom(_) => internal(error),
    }
}

fn lease(error: &LeaseError) -> Problem {
    let detail = error.to_string();
    match error {
        LeaseError::Request(error) => request(error),
        LeaseError::Clock(error) => mint(error),
        LeaseError::NoMember { .. } => Problem::new(ErrorCode::NotFound, detail),
        LeaseError::NotGranted { .. } | LeaseError::Over { .. } => {
            Problem::new(ErrorCode::LeaseLost, detail)
                .with_hint("stop minting with it and take another: POST /v1/workers")
        }
        LeaseError::Share { retry_after_ms, .. } => {
            Problem::new(ErrorCode::WorkersExhausted, detail)
                .with_retry_after_ms(millis(*retry_after_ms))
        }
        LeaseError::Secret(error) => secret(error),
        LeaseError::Unread(error) => unread(error),
        LeaseError::Propose(error) => propose(error),
        LeaseError::Refused(refusal) => refused(refusal),
        LeaseError::UnexpectedOutcome(_) => internal(error),
    }
}

/// The longest time after which a caller asks again: the result mostly comes long before the claim
/// is over.
const MAX_KEY_RETRY_MS: u64 = 1000;

fn key(error: &KeyError) -> Problem {
    let detail = error.to_string();
    match error {
        KeyError::Request(error) => request(error),
        KeyError::NotFound(_) => {
            Problem::new(ErrorCode::NotFound, detail).with_hint("it was never begun, or is over")
        }
        KeyError::InProgress {
            claim_ms, attempt, ..
        } => Problem::new(ErrorCode::InProgress, detail)
            .with_retry_after_ms(millis((*claim_ms).min(MAX_KEY_RETRY_MS)))
            .with_extra("state", KeyState::InProgress.as_str())
            .with_extra("attempt", *attempt)
            .with_extra("claim_expires_in_ms", *claim_ms),
        KeyError::Mismatch { .. } => Problem::new(ErrorCode::FingerprintMismatch, detail)
            .with_extra("state", "mismatch")
            .with_hint("take a new key for each thing that is to be done once"),
        KeyError::Full(why) => no_room(why),
        KeyError::Crowded => Problem::new(ErrorCode::Overloaded, detail).with_retry_after_ms(100),
        KeyError::NotAnAnswer { .. } | KeyError::UnexpectedOutcome(_) => internal(error),
        KeyError::Secret(error) => secret(error),
        KeyError::Unread(error) => unread(error),
        KeyError::Propose(error) => propose(error),
        KeyError::Refused(refusal) => refused(refusal),
    }
}

fn one_time(error: &OneTimeError) -> Problem {
    let detail = error.to_string();
    match error {
        OneTimeError::Request(error) => request(error),
        OneTimeError::Mint(error) => mint(error),
        OneTimeError::NotFound => Problem::new(ErrorCode::NotFound, detail),
        OneTimeError::Used => Problem::new(ErrorCode::TokenUsed, detail),
        OneTimeError::Full(why) => no_room(why),
        OneTimeError::Crowded => {
            Problem::new(ErrorCode::Overloaded, detail).with_retry_after_ms(100)
        }
        OneTimeError::NoRandom(_) | OneTimeError::UnexpectedOutcome(_) => internal(error),
        OneTimeError::Unread(error) => unread(error),
        OneTimeError::Propose(error) => propose(error),
        OneTimeError::Refused(refusal) => refused(refusal),
    }
}

fn lock(error: &LockError) -> Problem {
    let detail = error.to_string();
    match error {
        LockError::Request(error) => request(error),
        LockError::Full(_) => Problem::new(ErrorCode::Overloaded, detail).with_retry_after_ms(1000),
        LockError::Share(why) => no_room(why),
        LockError::Stopping => {
            Problem::new(ErrorCode::Draining, detail).with_hint("ask another node")
        }
        LockError::NotWithdrawn(_) => Problem::new(ErrorCode::OutcomeUnknown, detail)
            .with_hint("ask again with the same nonce, or let its ttl pass"),
        LockError::AccessEnded(why) => refusal(*why),
        LockError::NotTheHolder { holder, .. } => {
            let problem = Problem::new(ErrorCode::LeaseLost, detail).with_hint(NOT_HELD);
            with_holder(problem, holder.as_deref())
        }
        LockError::Secret(error) => secret(error),
        LockError::Unread(error) => unread(error),
        LockError::Propose(error) => propose(error),
        LockError::Refused(refusal) => refused(refusal),
        LockError::NoRandom(_) | LockError::UnexpectedOutcome(_) => internal(error),
    }
}

fn member(change: codes::Change, error: &MemberError) -> Problem {
    let problem = Problem::new(codes::of_member(change, error), error.to_string());
    match error {
        MemberError::InProgress => problem.with_retry_after_ms(500),
        MemberError::LearnerLagging { .. } => problem.with_retry_after_ms(1000),
        MemberError::Propose(error) => propose(error),
        MemberError::NotFound { .. }
        | MemberError::AlreadyExists { .. }
        | MemberError::Unsafe { .. }
        | MemberError::Unfit { .. } => problem,
    }
}
