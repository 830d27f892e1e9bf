//! The one table from the errors of consensus and of the state machine to the stable codes of the
//! contract. It does not belong to HTTP: health checks and metrics use the same codes.

use seqd_api::ErrorCode;
use seqd_raft::{MemberError, ProposeError, SnapshotError};
use seqd_state::{
    AccessRefusal, ClusterRefusal, KeyRefusal, LayoutRefusal, LockRefusal, OneTimeRefusal, Refusal,
    SequenceRefusal, TextRefusal, WorkerRefusal,
};

use seqd_idgen::WallMs;

use crate::times::rfc3339;

/// The code of a proposal or a linearizable read that failed.
pub(crate) fn of_propose(error: &ProposeError) -> ErrorCode {
    match error {
        ProposeError::NoQuorum { .. } => ErrorCode::NoQuorum,
        ProposeError::OutcomeUnknown { .. } => ErrorCode::OutcomeUnknown,
        ProposeError::Overloaded { .. }
        | ProposeError::OverloadedBytes { .. }
        | ProposeError::NoRoom { .. } => ErrorCode::Overloaded,
        ProposeError::TooLarge { .. } => ErrorCode::BodyTooLarge,
        ProposeError::Stopping => ErrorCode::Draining,
        ProposeError::NodeRemoved => ErrorCode::NodeRemoved,
        ProposeError::AboveLevel { .. } => ErrorCode::PreconditionFailed,
    }
}

pub(crate) fn of_snapshot(error: &SnapshotError) -> ErrorCode {
    match error {
        SnapshotError::Propose(error) => of_propose(error),
        SnapshotError::Busy { .. } => ErrorCode::Overloaded,
        SnapshotError::Disk { .. } => ErrorCode::Internal,
    }
}

/// The code of a failed change of members; `removes_voter` is whether a voter would leave by it.
pub(crate) fn of_member(removes_voter: bool, error: &MemberError) -> ErrorCode {
    match error {
        MemberError::NotFound { .. } => ErrorCode::NotFound,
        MemberError::AlreadyExists { .. } => ErrorCode::AlreadyExists,
        MemberError::Unsafe { .. } if removes_voter => ErrorCode::UnsafeMemberRemoval,
        MemberError::Unsafe { .. } | MemberError::Unfit { .. } => ErrorCode::PreconditionFailed,
        MemberError::InProgress => ErrorCode::MembershipChangeInProgress,
        MemberError::LearnerLagging { .. } => ErrorCode::LearnerLagging,
        MemberError::Propose(error) => of_propose(error),
    }
}

pub(crate) fn of_refusal(refusal: &Refusal) -> ErrorCode {
    match refusal {
        Refusal::Text(TextRefusal::InvalidText { .. }) => ErrorCode::InvalidArgument,
        Refusal::Cluster(refusal) => of_cluster(refusal),
        Refusal::Workers(refusal) => of_workers(refusal),
        Refusal::Sequences(refusal) => of_sequences(refusal),
        Refusal::Access(refusal) => of_access(refusal),
        Refusal::Layouts(refusal) => match refusal {
            LayoutRefusal::Exists { .. } => ErrorCode::AlreadyExists,
            LayoutRefusal::EpochAhead { .. } | LayoutRefusal::Full { .. } => {
                ErrorCode::InvalidArgument
            }
            LayoutRefusal::TooMany => ErrorCode::PreconditionFailed,
        },
        Refusal::Keys(refusal) => of_keys(refusal),
        Refusal::OneTime(refusal) => of_one_time(refusal),
        Refusal::Locks(refusal) => match refusal {
            LockRefusal::Held { .. } => ErrorCode::LockHeld,
            LockRefusal::Lost { .. } => ErrorCode::LeaseLost,
            LockRefusal::NotHeld { .. } => ErrorCode::NotFound,
            LockRefusal::PermitsDiffer { .. } => ErrorCode::PreconditionFailed,
            // Locks expire, so there may be room a little later.
            LockRefusal::TooManyWaiters { .. } | LockRefusal::TooManyLocks => ErrorCode::Overloaded,
            LockRefusal::Invalid(_) => ErrorCode::InvalidArgument,
            // As for an idempotency key: the nonce belongs to another request.
            LockRefusal::TermsDiffer { .. } => ErrorCode::FingerprintMismatch,
        },
        #[cfg(feature = "test-next-level")]
        Refusal::Notes(_) => ErrorCode::Internal,
    }
}

fn of_cluster(refusal: &ClusterRefusal) -> ErrorCode {
    match refusal {
        ClusterRefusal::NotFounded => ErrorCode::NoQuorum,
        ClusterRefusal::NodeRemoved { .. } => ErrorCode::NodeRemoved,
        ClusterRefusal::NodeNameTaken { .. } => ErrorCode::AlreadyExists,
        ClusterRefusal::StaleStart { .. } => ErrorCode::LeaseLost,
        ClusterRefusal::RestorationNotStamped { .. } => ErrorCode::ClockBehind,
        ClusterRefusal::InvalidFounding(_) => ErrorCode::InvalidArgument,
        ClusterRefusal::AlreadyFounded { .. }
        | ClusterRefusal::UnknownNode { .. }
        | ClusterRefusal::StampOutOfRange { .. }
        | ClusterRefusal::NotRestored
        | ClusterRefusal::MembershipChanged { .. }
        | ClusterRefusal::LevelOutOfOrder { .. } => ErrorCode::Internal,
    }
}

fn of_workers(refusal: &WorkerRefusal) -> ErrorCode {
    match refusal {
        WorkerRefusal::LeaseLost { .. } => ErrorCode::LeaseLost,
        WorkerRefusal::UnknownLayout { .. } => ErrorCode::NotFound,
        WorkerRefusal::LayoutExhausted { .. } => ErrorCode::LayoutExhausted,
        WorkerRefusal::BeforeLayoutEpoch { .. } | WorkerRefusal::FenceTooLow { .. } => {
            ErrorCode::ClockBehind
        }
        WorkerRefusal::FenceTooFar { .. } => ErrorCode::ClockSkewed,
        WorkerRefusal::WorkersExhausted { .. } => ErrorCode::WorkersExhausted,
        WorkerRefusal::WindowsBeginLater { .. } => ErrorCode::NoWorkerYet,
        WorkerRefusal::UnknownDatacenter { .. } | WorkerRefusal::ReleaseOutsideWindow { .. } => {
            ErrorCode::InvalidArgument
        }
    }
}

fn of_sequences(refusal: &SequenceRefusal) -> ErrorCode {
    match refusal {
        SequenceRefusal::SequenceNotFound { .. } => ErrorCode::NotFound,
        SequenceRefusal::SequenceExists { .. } | SequenceRefusal::DefinitionDiffers { .. } => {
            ErrorCode::AlreadyExists
        }
        SequenceRefusal::RevisionMismatch { .. } => ErrorCode::PreconditionFailed,
        SequenceRefusal::SequenceExhausted { .. } => ErrorCode::SequenceExhausted,
        SequenceRefusal::CountOutOfRange { count: 0, .. } => ErrorCode::InvalidArgument,
        SequenceRefusal::CountOutOfRange { .. } => ErrorCode::CountTooLarge,
        SequenceRefusal::WouldGoBackwards { .. } => ErrorCode::WouldGoBackwards,
        SequenceRefusal::GrantSuperseded { .. } | SequenceRefusal::TailOutsideRun { .. } => {
            ErrorCode::GrantSuperseded
        }
        SequenceRefusal::InvalidDefinition(_)
        | SequenceRefusal::WrongMode { .. }
        | SequenceRefusal::CannotAdvanceCycling { .. }
        | SequenceRefusal::BoundStays { .. }
        | SequenceRefusal::AdvanceOutOfRange { .. } => ErrorCode::InvalidArgument,
    }
}

fn of_access(refusal: &AccessRefusal) -> ErrorCode {
    match refusal {
        AccessRefusal::NotFound { .. } => ErrorCode::NotFound,
        AccessRefusal::Exists { .. } => ErrorCode::AlreadyExists,
        AccessRefusal::TooMany => ErrorCode::PreconditionFailed,
        AccessRefusal::InvalidPermissions | AccessRefusal::InvalidRate => {
            ErrorCode::InvalidArgument
        }
    }
}

fn of_keys(refusal: &KeyRefusal) -> ErrorCode {
    match refusal {
        KeyRefusal::ClaimLost { .. } => ErrorCode::LeaseLost,
        KeyRefusal::TooManyKeys | KeyRefusal::TooManyBytes => ErrorCode::Overloaded,
        KeyRefusal::InvalidKey
        | KeyRefusal::InvalidTtl { .. }
        | KeyRefusal::InvalidClaimTtl { .. }
        | KeyRefusal::InvalidText
        | KeyRefusal::InvalidResult { .. } => ErrorCode::InvalidArgument,
        KeyRefusal::InvalidCount { .. } => ErrorCode::Internal,
    }
}

fn of_one_time(refusal: &OneTimeRefusal) -> ErrorCode {
    match refusal {
        OneTimeRefusal::TooMany => ErrorCode::Overloaded,
        // The issuing node draws the IDs and counts them.
        OneTimeRefusal::Exists { .. } | OneTimeRefusal::InvalidCount { .. } => ErrorCode::Internal,
        OneTimeRefusal::InvalidTtl { .. } | OneTimeRefusal::InvalidNonce => {
            ErrorCode::InvalidArgument
        }
    }
}

/// The log message for an outcome that belongs to another command.
pub(crate) const OTHER_OUTCOME: &str = "an outcome of another command";

/// The message of a refusal, with readable times.
pub(crate) fn words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Sequences(SequenceRefusal::SequenceNotFound { name }) => {
            format!("there is no sequence {name}")
        }
        Refusal::Layouts(LayoutRefusal::EpochAhead { epoch_ms, .. }) => format!(
            "the epoch, {}, is ahead of the cluster's clock: give an epoch in the past",
            rfc3339(WallMs(*epoch_ms))
        ),
        Refusal::Layouts(LayoutRefusal::Full { full, wall_ms }) => format!(
            "the time field is full at {}, and a new layout must last a day past the cluster's clock, {}: \
             give more time_bits, longer ticks or a later epoch",
            rfc3339(*full),
            rfc3339(*wall_ms)
        ),
        Refusal::Workers(WorkerRefusal::WindowsBeginLater { until, .. }) => {
            format!("{refusal}, at {}", rfc3339(*until))
        }
        _ => refusal.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seqd_raft::StopReason;

    #[test]
    fn a_server_ends_with_the_exit_codes_of_the_contract() {
        use seqd_api::exit::{BROKEN, FAILURE, OK, REFUSED};
        for reason in StopReason::ALL {
            let expected = match reason {
                StopReason::Stopped => OK,
                StopReason::StartFailed => FAILURE,
                StopReason::FsyncFailed
                | StopReason::DiskFull
                | StopReason::Corrupt
                | StopReason::Invariant => BROKEN,
                _ => REFUSED,
            };
            assert_eq!(reason.exit(), expected, "{reason:?}");
        }
    }

    #[test]
    fn only_a_voter_that_leaves_is_an_unsafe_removal() {
        let detail = || "the quorum would be lost".to_owned();
        let of_unsafe = |removes| of_member(removes, &MemberError::Unsafe { detail: detail() });
        assert_eq!(of_unsafe(true), ErrorCode::UnsafeMemberRemoval);
        assert_eq!(of_unsafe(false), ErrorCode::PreconditionFailed);
        // The state of the named node can change, so a script may repeat the request later.
        let unfit = MemberError::Unfit { detail: detail() };
        assert_eq!(of_member(false, &unfit), ErrorCode::PreconditionFailed);
    }
}
