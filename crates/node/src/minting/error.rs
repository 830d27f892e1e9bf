//! The reasons why no ID can be issued, with the time at which they end.

use seqd_api::ErrorCode;
use seqd_idgen::{ClockVerdict, WallMs};
use seqd_raft::ProposeError;
use seqd_state::{ClusterRefusal, Refusal, WorkerRefusal};

use crate::codes;
use crate::times::rfc3339;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MintError {
    #[error(
        "the clock is {by_ms} ms behind the last ID of this node; it issues IDs again from {}",
        rfc3339(*until)
    )]
    ClockBehind {
        by_ms: u64,
        /// The clock reading from which the node issues IDs again.
        until: WallMs,
    },
    /// The clock disagrees with a majority of the cluster's clocks, with the node's own monotonic
    /// clock, or with the leader's clock.
    #[error("{detail}")]
    ClockSkewed {
        /// The difference and the remedy, or the leader's refusal.
        detail: String,
    },
    #[error("{}", unanswered(.0))]
    Propose(ProposeError),
    #[error("{}", refused(.0))]
    Refused(Refusal),
    /// No lease yet, because no attempt has been answered so far.
    #[error("{detail}")]
    NoLeaseYet {
        /// The missing condition.
        detail: String,
    },
    #[error(
        "the minting window ended at {} and the cluster has not extended it",
        rfc3339(*at)
    )]
    WindowEnded { at: WallMs },
    #[error(
        "this node's window begins in {ms} ms, after the window of the worker's previous holder"
    )]
    WindowBegins { ms: u64 },
    #[error("the IDs of this tick are used up; the next tick begins in {ms} ms")]
    TickFull { ms: u64 },
    #[error("other requests already wait for {ids} IDs of this layout, which takes about {ms} ms")]
    Crowded { ids: u64, ms: u64 },
    /// The request alone asks for more IDs than are minted before its deadline.
    #[error("{ids} IDs of this layout take about {ms} ms, longer than the deadline of the request")]
    TooMany {
        ids: u64,
        ms: u64,
        /// The number of IDs that are minted until then.
        limit: u64,
    },
    #[error("the layout's time field has been full since {}", rfc3339(*since))]
    LayoutFull { since: WallMs },
    #[error("the clock is before the layout's epoch")]
    BeforeEpoch,
    #[error("this node is stopping")]
    Stopping,
}

impl MintError {
    /// The reason why no window is requested while the clock may be wrong.
    pub(crate) fn clock_unknown() -> MintError {
        MintError::NoLeaseYet {
            detail: "this node has not compared its clock with its peers' clocks yet".to_owned(),
        }
    }

    /// The reason why the node neither mints nor requests a window with a clock reading.
    pub(crate) fn of_clock(verdict: ClockVerdict) -> MintError {
        let detail = match verdict {
            ClockVerdict::Behind { by_ms, until } => {
                return MintError::ClockBehind { by_ms, until };
            }
            ClockVerdict::Skewed { ahead_ms } => {
                let (by_ms, way) = (
                    ahead_ms.unsigned_abs(),
                    if ahead_ms < 0 { "behind" } else { "ahead of" },
                );
                format!(
                    "this node's clock is {by_ms} ms {way} a majority of the cluster's clocks: \
                     correct the clock, and check its time service (chrony, ntpd, \
                     systemd-timesyncd)"
                )
            }
            ClockVerdict::Split => {
                "no majority of the cluster's clocks agrees, so this node's may be wrong: `seqd \
                 status` shows their differences; correct the clocks"
                    .to_owned()
            }
            ClockVerdict::ForwardJump { by_ms } => format!(
                "the clock jumped {by_ms} ms ahead; it is trusted again after it has been steady \
                 for a while"
            ),
            ClockVerdict::Good | ClockVerdict::Wait { .. } => {
                "the clock was checked again and is correct".to_owned()
            }
        };
        MintError::ClockSkewed { detail }
    }

    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            MintError::ClockBehind { .. } | MintError::BeforeEpoch => ErrorCode::ClockBehind,
            MintError::ClockSkewed { .. } => ErrorCode::ClockSkewed,
            // If the lease was taken, the loss is one worker for one window; no ID was issued.
            MintError::Propose(ProposeError::OutcomeUnknown { .. }) => ErrorCode::NoQuorum,
            MintError::Propose(error) => codes::of_propose(error),
            MintError::Refused(refusal) if is_without_lease(refusal) => ErrorCode::NoWorkerYet,
            MintError::Refused(refusal) => codes::of_refusal(refusal),
            MintError::NoLeaseYet { .. } | MintError::WindowBegins { .. } => ErrorCode::NoWorkerYet,
            MintError::WindowEnded { .. } => ErrorCode::NoQuorum,
            MintError::TickFull { .. } | MintError::Crowded { .. } => ErrorCode::Overloaded,
            MintError::TooMany { .. } => ErrorCode::CountTooLarge,
            MintError::LayoutFull { .. } => ErrorCode::LayoutExhausted,
            MintError::Stopping => ErrorCode::Draining,
        }
    }

    /// Returns whether the cluster will refuse the same request for as long as this process runs.
    pub(super) fn is_for_good(&self) -> bool {
        matches!(
            self,
            MintError::Refused(
                Refusal::Workers(
                    WorkerRefusal::UnknownLayout { .. }
                        | WorkerRefusal::UnknownDatacenter { .. }
                        | WorkerRefusal::LayoutExhausted { .. }
                ) | Refusal::Cluster(
                    ClusterRefusal::StaleStart { .. } | ClusterRefusal::NodeRemoved { .. }
                )
            )
        )
    }
}

fn unanswered(error: &ProposeError) -> String {
    match error {
        ProposeError::OutcomeUnknown { detail } => {
            format!("no response from the cluster about this node's lease: {detail}")
        }
        error => error.to_string(),
    }
}

fn refused(refusal: &Refusal) -> String {
    let words = codes::words(refusal);
    if is_without_lease(refusal) {
        return format!("this node has no worker: {words}");
    }
    words
}

/// Returns whether the cluster considers this node's lease lost.
fn is_without_lease(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Workers(WorkerRefusal::LeaseLost { .. })
            | Refusal::Cluster(ClusterRefusal::StaleStart { .. })
    )
}
