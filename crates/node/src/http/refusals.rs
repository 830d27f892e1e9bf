//! From what consensus, members and the state machine refuse to the problem that a client reads.
//!
//! The one table from codes to statuses is in `seqd_api`; here each refusal gets its code, its
//! words and its hint.

use seqd_api::{ErrorCode, Problem};
use seqd_raft::{MemberError, ProposeError, SnapshotError};
use seqd_state::{ClusterRefusal, Refusal, SequenceRefusal, TextRefusal, WorkerRefusal};

use crate::times::rfc3339;

fn millis(ms: u64) -> u32 {
    u32::try_from(ms.max(1)).unwrap_or(u32::MAX)
}

/// A proposal or a linearizable read that was not answered.
pub(crate) fn propose(error: &ProposeError) -> Problem {
    let detail = error.to_string();
    match error {
        ProposeError::NoQuorum { .. } => {
            Problem::new(ErrorCode::NoQuorum, detail).with_retry_after_ms(1000)
        }
        ProposeError::OutcomeUnknown { .. } => Problem::new(ErrorCode::OutcomeUnknown, detail)
            .with_hint("it may or may not have happened: look before you repeat it"),
        ProposeError::Overloaded { .. } => {
            Problem::new(ErrorCode::Overloaded, detail).with_retry_after_ms(100)
        }
        ProposeError::Stopping => Problem::new(ErrorCode::Draining, detail)
            .with_retry_after_ms(1000)
            .with_hint("ask another node"),
        ProposeError::NodeRemoved => {
            Problem::new(ErrorCode::NodeRemoved, detail).with_hint("ask another node")
        }
    }
}

/// A snapshot that was not taken.
pub(crate) fn snapshot(error: &SnapshotError) -> Problem {
    match error {
        SnapshotError::Propose(error) => {
            let problem = propose(error);
            match error {
                ProposeError::NoQuorum { .. } => {
                    problem.with_hint("?stale=1 gives what this node has")
                }
                _ => problem,
            }
        }
        SnapshotError::Busy { .. } => {
            Problem::new(ErrorCode::Overloaded, error.to_string()).with_retry_after_ms(1000)
        }
        SnapshotError::Disk { .. } => Problem::new(ErrorCode::Internal, error.to_string()),
    }
}

/// What was asked of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A learner joins.
    Add,
    /// A learner gets a vote.
    Promote,
    /// A member goes for good.
    Remove,
    /// Another voter leads.
    MoveLeader,
}

/// A change of membership that was not carried out.
pub(crate) fn member(change: Change, error: &MemberError) -> Problem {
    let detail = error.to_string();
    match error {
        MemberError::NotFound { .. } => Problem::new(ErrorCode::NotFound, detail),
        MemberError::AlreadyExists { .. } => Problem::new(ErrorCode::AlreadyExists, detail),
        MemberError::Unsafe { .. } if change == Change::Remove => {
            Problem::new(ErrorCode::UnsafeMemberRemoval, detail)
        }
        MemberError::Unsafe { .. } => Problem::new(ErrorCode::PreconditionFailed, detail),
        MemberError::InProgress => {
            Problem::new(ErrorCode::MembershipChangeInProgress, detail).with_retry_after_ms(500)
        }
        MemberError::LearnerLagging { .. } => {
            Problem::new(ErrorCode::LearnerLagging, detail).with_retry_after_ms(1000)
        }
        // A new node's name or address is the caller's; all else is how the cluster stands.
        MemberError::Unfit { .. } if change == Change::Add => {
            Problem::new(ErrorCode::InvalidArgument, detail)
        }
        MemberError::Unfit { .. } => Problem::new(ErrorCode::PreconditionFailed, detail),
        MemberError::Propose(error) => propose(error),
    }
}

/// The problem of a sequence that is not there; sequences are never created by use.
pub(crate) fn no_sequence(name: &str) -> Problem {
    Problem::new(ErrorCode::NotFound, format!("there is no sequence {name}"))
        .with_hint(format!("seqd seq create {name}"))
}

/// A command that the state machine refused.
pub(crate) fn state(refusal: &Refusal) -> Problem {
    match refusal {
        Refusal::Text(TextRefusal::InvalidText { .. }) => {
            Problem::new(ErrorCode::InvalidArgument, refusal.to_string())
        }
        Refusal::Cluster(refusal) => cluster(refusal),
        Refusal::Workers(refusal) => workers(refusal),
        Refusal::Sequences(refusal) => sequences(refusal),
    }
}

fn cluster(refusal: &ClusterRefusal) -> Problem {
    let detail = refusal.to_string();
    let code = match refusal {
        ClusterRefusal::NotFounded => ErrorCode::NoQuorum,
        ClusterRefusal::NodeRemoved { .. } => ErrorCode::NodeRemoved,
        ClusterRefusal::NodeNameTaken { .. } => ErrorCode::AlreadyExists,
        ClusterRefusal::StaleStart { .. } => ErrorCode::LeaseLost,
        ClusterRefusal::RestorationNotStamped { .. } => {
            return Problem::new(ErrorCode::ClockBehind, detail)
                .with_retry_after_ms(1000)
                .with_hint("check the clock of the leader (chronyc tracking); its log says why");
        }
        ClusterRefusal::InvalidFounding(_) => ErrorCode::InvalidArgument,
        ClusterRefusal::AlreadyFounded { .. }
        | ClusterRefusal::UnknownNode { .. }
        | ClusterRefusal::StampOutOfRange { .. }
        | ClusterRefusal::NotRestored
        | ClusterRefusal::MembershipChanged { .. }
        | ClusterRefusal::LevelOutOfOrder { .. } => ErrorCode::Internal,
    };
    Problem::new(code, detail)
}

fn workers(refusal: &WorkerRefusal) -> Problem {
    let detail = refusal.to_string();
    let code = match refusal {
        WorkerRefusal::LeaseLost { .. } => ErrorCode::LeaseLost,
        WorkerRefusal::UnknownLayout { .. } => ErrorCode::NotFound,
        WorkerRefusal::LayoutExhausted { .. } => ErrorCode::LayoutExhausted,
        WorkerRefusal::BeforeLayoutEpoch { .. } | WorkerRefusal::FenceTooLow { .. } => {
            ErrorCode::ClockBehind
        }
        WorkerRefusal::FenceTooFar { .. } => ErrorCode::ClockSkewed,
        WorkerRefusal::WorkersExhausted { retry_after_ms, .. } => {
            return Problem::new(ErrorCode::WorkersExhausted, detail)
                .with_retry_after_ms(millis(*retry_after_ms));
        }
        WorkerRefusal::WindowsBeginLater {
            until,
            retry_after_ms,
            ..
        } => {
            let detail = format!("{detail}, at {}", rfc3339(*until));
            return Problem::new(ErrorCode::NoWorkerYet, detail)
                .with_retry_after_ms(millis(*retry_after_ms))
                .with_extra("until", rfc3339(*until));
        }
        WorkerRefusal::UnknownDatacenter { .. } | WorkerRefusal::ReleaseOutsideWindow { .. } => {
            ErrorCode::InvalidArgument
        }
    };
    Problem::new(code, detail)
}

fn sequences(refusal: &SequenceRefusal) -> Problem {
    let detail = refusal.to_string();
    let code = match refusal {
        SequenceRefusal::SequenceNotFound { name } => return no_sequence(name.as_str()),
        SequenceRefusal::SequenceExists { name, .. } => {
            return Problem::new(ErrorCode::AlreadyExists, detail)
                .with_hint(format!("seqd seq get {name} shows the one that there is"));
        }
        SequenceRefusal::DefinitionDiffers { .. } => ErrorCode::AlreadyExists,
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
        | SequenceRefusal::AdvanceOutOfRange { .. } => ErrorCode::InvalidArgument,
    };
    Problem::new(code, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_removal_is_called_an_unsafe_one() {
        let detail = || "the quorum would be lost".to_owned();
        let code = |change, error| member(change, &error).error_code();
        let of_unsafe = |change| code(change, MemberError::Unsafe { detail: detail() });
        let of_unfit = |change| code(change, MemberError::Unfit { detail: detail() });
        assert_eq!(
            of_unsafe(Change::Remove),
            Some(ErrorCode::UnsafeMemberRemoval)
        );
        assert_eq!(of_unfit(Change::Add), Some(ErrorCode::InvalidArgument));
        for change in [Change::Promote, Change::MoveLeader] {
            assert_eq!(of_unsafe(change), Some(ErrorCode::PreconditionFailed));
            assert_eq!(of_unfit(change), Some(ErrorCode::PreconditionFailed));
        }
    }
}
