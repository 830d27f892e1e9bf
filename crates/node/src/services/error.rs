//! The error of all services, with its stable code, which every protocol maps to its own; and the
//! calls to the cluster that cause most of its variants.
//!
//! A domain with errors of its own has an enum here, so that no service imports another's.

use std::fmt::{Debug, Display};

use seqd_api::{ErrorCode, SequenceSpec};
use seqd_raft::{DrawError, MemberError, ProposeError, SnapshotError};
use seqd_state::{
    Command, FencingToken, LockHolder, LockName, Outcome, Refusal, SequenceName, Share, State,
};
use tokio::time::Instant;

use super::differences::Differs;
use super::room::{NoRoom, rule};
use crate::access::NotLetIn;
use crate::codes;
use crate::minting::MintError;
use crate::replica::{ReadTime, Replica, applied, propose_one, read_time};

/// The reason why a service did not perform a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    /// The request is wrong in every state of the cluster.
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Mint(#[from] MintError),
    #[error(transparent)]
    Full(#[from] NoRoom),
    /// Too many requests of one kind are in progress.
    #[error("{detail}")]
    Overloaded { detail: String, retry_after_ms: u32 },
    /// The state could not be read: no leader confirmed it.
    #[error(transparent)]
    Unread(ProposeError),
    /// The command was not committed, or its outcome is unknown.
    #[error(transparent)]
    Propose(ProposeError),
    #[error("{}", codes::words(.0))]
    Refused(Refusal),
    #[error("{error}")]
    Member {
        removes_voter: bool,
        error: MemberError,
    },
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("there is no token {0}")]
    NoToken(String),
    /// A failure of this program or of its host.
    #[error("{0}")]
    Internal(String),
    /// The last timestamp is too far ahead of the cluster's clock.
    #[error("the clock is {ms} ms behind the timestamps that were issued")]
    TimestampsAhead { ms: u64 },
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    #[error(transparent)]
    Lease(#[from] LeaseError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("{0}")]
    Differs(Differs),
    #[error(transparent)]
    OneTime(#[from] OneTimeError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("{0}")]
    Invalid(String),
    #[error("{field} is 1 to {limit}, not {count}")]
    TooMany {
        field: &'static str,
        count: u64,
        limit: u64,
    },
    #[error("there is no layout {:?}", .name.chars().take(80).collect::<String>())]
    NoLayout { name: String, known: Vec<String> },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SequenceError {
    /// The sequence does not exist, and a request for values does not create it.
    #[error("there is no sequence {name}")]
    NotFound {
        name: SequenceName,
        /// The definition of a deleted sequence of this name, if values were requested.
        former: Option<Box<SequenceSpec>>,
        /// The nearest existing name.
        near: Option<String>,
        /// True if values were requested, so the error explains how to create the sequence.
        for_use: bool,
    },
    #[error(
        "start: this cluster was restored and its backup has no sequence {name}: if the sequence \
         was created after the backup, it would begin again at its first value"
    )]
    StartMissing { name: SequenceName },
    #[error("the sequence {name} already exists with this definition")]
    Exists { name: SequenceName },
    #[error("there is no sequence {name}, and a PUT with If-Match creates none")]
    NothingToMatch { name: SequenceName },
    #[error("the sequence exists, but could not be read: {0}")]
    CreatedUnread(Box<ServiceError>),
    #[error("the sequence was changed, but could not be read: {0}")]
    ChangedUnread(Box<ServiceError>),
    #[error("other requests began new passes meanwhile: the values remain a gap")]
    NotTogether,
    #[error("unused = {unused} is more than the number of values that were ever granted of {name}")]
    MoreThanGranted { unused: u64, name: SequenceName },
    #[error("{grant} is not a grant of {name} that was made over HTTP in this cluster")]
    UnknownGrant { name: SequenceName, grant: u128 },
    #[error(
        "the grant of {name} was made with an Idempotency-Key: later requests with that key get the \
         same values, so they cannot be returned"
    )]
    GrantOfKey { name: SequenceName },
    #[error("this node's range of {name} is used up, and it received no other: {detail}")]
    NoRefill { name: SequenceName, detail: String },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LeaseError {
    #[error("this cluster has not granted lease {lease} of worker {worker} in {layout} to {owner}")]
    NotGranted {
        layout: String,
        worker: u32,
        lease: u128,
        owner: String,
    },
    #[error(
        "{owner} gets no worker of {layout}: this client holds {held} of its {workers} workers and \
         may hold at most {most} now: its share ({}%, limits.tenant_share) {}; its next lease ends \
         in {retry_after_ms} ms",
        .share.percent(),
        rule(*.share)
    )]
    Share {
        layout: String,
        owner: String,
        held: u64,
        most: u64,
        workers: u64,
        share: Share,
        retry_after_ms: u64,
    },
    #[error("the lease of worker {worker} in {layout} has ended")]
    Over { layout: String, worker: u32 },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("there is no key {0}")]
    NotFound(String),
    #[error("another caller works on the key {key}")]
    InProgress {
        key: String,
        /// The remaining time of the claim.
        claim_ms: u64,
        attempt: u64,
    },
    #[error("another request was begun under the key {key}")]
    Mismatch { key: String },
    #[error("the key {key} exists, but its result is not a stored response")]
    NotAnAnswer { key: String },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum OneTimeError {
    #[error("there is no such one-time token, or it has expired")]
    NotFound,
    #[error("another request consumed the token")]
    Used,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    /// The client may hold the lock: its claim was granted but not confirmed, or not withdrawn.
    #[error("the claim may not have ended: {0}")]
    NotWithdrawn(ProposeError),
    /// The caller's token was revoked, or expired, while it waited.
    #[error("the access of the caller ended while the request waited: {0:?}")]
    AccessEnded(NotLetIn),
    /// The token belongs to another owner, or no holder has it.
    #[error("the lock {name} is not held with token {token}")]
    NotTheHolder {
        name: LockName,
        token: FencingToken,
        holder: Option<Box<LockHolder>>,
    },
}

impl ServiceError {
    /// The stable code, the same in every protocol.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Request(RequestError::Invalid(_))
            | Self::Sequence(SequenceError::StartMissing { .. }) => ErrorCode::InvalidArgument,
            Self::Request(RequestError::TooMany { .. }) => ErrorCode::CountTooLarge,
            Self::Request(RequestError::NoLayout { .. })
            | Self::NoToken(_)
            | Self::Sequence(SequenceError::NotFound { .. })
            | Self::Key(KeyError::NotFound(_))
            | Self::OneTime(OneTimeError::NotFound) => ErrorCode::NotFound,
            Self::Differs(_) => ErrorCode::AlreadyExists,
            Self::Mint(error) => error.code(),
            Self::TimestampsAhead { .. } => ErrorCode::ClockBehind,
            Self::Full(_) | Self::Overloaded { .. } => ErrorCode::Overloaded,
            // A read has no outcome that could be unknown.
            Self::Unread(ProposeError::OutcomeUnknown { .. })
            | Self::Sequence(SequenceError::NoRefill { .. }) => ErrorCode::NoQuorum,
            Self::Unread(error) | Self::Propose(error) => codes::of_propose(error),
            Self::Refused(refusal) => codes::of_refusal(refusal),
            Self::Member {
                removes_voter,
                error,
            } => codes::of_member(*removes_voter, error),
            Self::Snapshot(error) => codes::of_snapshot(error),
            Self::Internal(_) | Self::Key(KeyError::NotAnAnswer { .. }) => ErrorCode::Internal,
            Self::Sequence(SequenceError::Exists { .. } | SequenceError::NothingToMatch { .. }) => {
                ErrorCode::PreconditionFailed
            }
            Self::Sequence(SequenceError::CreatedUnread(_) | SequenceError::ChangedUnread(_))
            | Self::Lock(LockError::NotWithdrawn(_)) => ErrorCode::OutcomeUnknown,
            Self::Sequence(SequenceError::NotTogether) => ErrorCode::SequenceExhausted,
            Self::Sequence(
                SequenceError::MoreThanGranted { .. }
                | SequenceError::UnknownGrant { .. }
                | SequenceError::GrantOfKey { .. },
            ) => ErrorCode::GrantSuperseded,
            Self::Lease(LeaseError::NotGranted { .. } | LeaseError::Over { .. })
            | Self::Lock(LockError::NotTheHolder { .. }) => ErrorCode::LeaseLost,
            Self::Lease(LeaseError::Share { .. }) => ErrorCode::WorkersExhausted,
            Self::Key(KeyError::InProgress { .. }) => ErrorCode::InProgress,
            Self::Key(KeyError::Mismatch { .. }) => ErrorCode::FingerprintMismatch,
            Self::OneTime(OneTimeError::Used) => ErrorCode::TokenUsed,
            Self::Lock(LockError::AccessEnded(why)) => why.code(),
        }
    }

    pub(super) fn overloaded(detail: impl Into<String>, retry_after_ms: u32) -> Self {
        let detail = detail.into();
        Self::Overloaded {
            detail,
            retry_after_ms,
        }
    }

    pub(super) fn no_random(error: impl Display) -> Self {
        Self::Internal(format!("no random bytes: {error}"))
    }
}

impl From<DrawError> for ServiceError {
    fn from(error: DrawError) -> Self {
        match error {
            DrawError::Refused(refusal) => Self::Refused(refusal),
            DrawError::Ahead { ms } => Self::TimestampsAhead { ms },
            DrawError::ClockUnknown => Self::Propose(ProposeError::NoQuorum {
                detail: error.to_string(),
            }),
            DrawError::Propose(error) => Self::Propose(error),
        }
    }
}

impl RequestError {
    pub(super) fn invalid(detail: impl ToString) -> RequestError {
        RequestError::Invalid(detail.to_string())
    }
}

/// Refuses `.` and `..` as the name of a lock or a key.
pub(super) fn not_dots(name: &str) -> Result<(), RequestError> {
    if matches!(name, "." | "..") {
        let detail = "the name must not be . or .., because clients remove these from a URL";
        return Err(RequestError::invalid(detail));
    }
    Ok(())
}

/// A count within `1..=limit`; 1 if it is absent.
pub(super) fn count_within(count: Option<u64>, limit: u64) -> Result<u64, RequestError> {
    within("count", count.unwrap_or(1), limit)
}

/// A number of values within `1..=limit`.
pub(super) fn within(field: &'static str, count: u64, limit: u64) -> Result<u64, RequestError> {
    match count {
        0 => Err(RequestError::Invalid(format!(
            "{field} is 1 to {limit}, not 0"
        ))),
        count if count > limit => Err(RequestError::TooMany {
            field,
            count,
            limit,
        }),
        count => Ok(count),
    }
}

/// The nonce of a request, or an empty text if it has none. The state limits its length.
pub(super) fn nonce_of(nonce: Option<String>) -> Result<String, RequestError> {
    if nonce.as_deref() == Some("") {
        let detail = "nonce is empty: a retry is recognised by a nonce of at least 1 character";
        return Err(RequestError::invalid(detail));
    }
    Ok(nonce.unwrap_or_default())
}

pub(crate) fn sequence_name(text: &str) -> Result<SequenceName, ServiceError> {
    Ok(SequenceName::new(text).map_err(RequestError::invalid)?)
}

/// A linearizable read: waits until this node has applied everything acknowledged before the call.
pub(super) async fn read(
    replica: &dyn Replica,
    deadline: Instant,
) -> Result<ReadTime, ServiceError> {
    let read = read_time(replica, deadline).await;
    read.map_err(ServiceError::Unread)
}

/// The result of `look` on the state that this node has applied.
pub(super) fn on_state<R>(
    replica: &dyn Replica,
    look: impl FnOnce(&State) -> R,
) -> Result<R, ServiceError> {
    applied(replica, look).map_err(ServiceError::Unread)
}

/// Proposes a command and returns its outcome.
pub(super) async fn propose(
    replica: &dyn Replica,
    command: impl Into<Command>,
    deadline: Instant,
) -> Result<Outcome, ServiceError> {
    let proposed = propose_one(replica, command.into(), deadline).await;
    match proposed.map_err(ServiceError::Propose)? {
        Outcome::Refused(refusal) => Err(ServiceError::Refused(refusal)),
        outcome => Ok(outcome),
    }
}

/// The result of the state's own check of a command, after a linearizable read.
pub(super) async fn try_out<T>(
    replica: &dyn Replica,
    deadline: Instant,
    check: impl FnOnce(&State) -> Result<T, Refusal>,
) -> Result<T, ServiceError> {
    read(replica, deadline).await?;
    on_state(replica, check)?.map_err(ServiceError::Refused)
}

/// The error of an outcome that belongs to another command.
pub(super) fn unexpected(outcome: &impl Debug) -> ServiceError {
    ServiceError::Internal(format!("{}: {outcome:?}", codes::OTHER_OUTCOME))
}
