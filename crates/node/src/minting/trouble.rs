//! Why no ID can be given, with what a caller needs to know about when that ends.

use seqd_api::{ErrorCode, Problem};
use seqd_idgen::WallMs;
use seqd_raft::ProposeError;
use seqd_state::{ClusterRefusal, Refusal, WorkerRefusal};

use crate::http::refusals;
use crate::times::rfc3339;

/// Why no ID can be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The clock is behind the last tick used.
    ClockBehind {
        /// By how many milliseconds.
        by_ms: u64,
        /// The reading from which on it serves again.
        until: WallMs,
    },
    /// The clock ran ahead: of the node's monotonic clock, or of the leader's.
    ClockAhead {
        /// By how much, or what the leader said.
        detail: String,
    },
    /// The cluster did not answer.
    Propose(ProposeError),
    /// The cluster refused the lease.
    Refused(Refusal),
    /// No lease yet; the reason is that nobody has answered so far.
    NoLeaseYet {
        /// What is waited for.
        detail: String,
    },
    /// The window has ended and is not extended yet.
    WindowEnded {
        /// When it ended.
        at: WallMs,
    },
    /// The window begins later.
    WindowBegins {
        /// In how many milliseconds.
        ms: u64,
    },
    /// The layout's time field is full.
    LayoutFull {
        /// Since when.
        since: WallMs,
    },
    /// The clock stands before the layout's epoch.
    BeforeEpoch,
    /// This node is stopping.
    Stopping,
}

impl Trouble {
    /// The problem that a caller gets.
    pub(crate) fn problem(&self) -> Problem {
        match self {
            Trouble::ClockBehind { by_ms, until } => {
                let detail = format!(
                    "the clock is {by_ms} ms behind the last ID of this node; IDs again from {}",
                    rfc3339(*until)
                );
                Problem::new(ErrorCode::ClockBehind, detail)
                    .with_retry_after_ms(u32::try_from((*by_ms).max(1)).unwrap_or(u32::MAX))
                    .with_extra("behind_ms", *by_ms)
                    .with_extra("until", rfc3339(*until))
                    .with_hint("ask another node; this one serves again when its clock is right")
            }
            Trouble::ClockAhead { detail } => Problem::new(ErrorCode::ClockSkewed, detail.clone())
                .with_retry_after_ms(1000)
                .with_hint("ask another node; check this one's clock (chronyc tracking)"),
            // A lease that was perhaps taken costs a worker for one window; no ID was given.
            Trouble::Propose(ProposeError::OutcomeUnknown { detail }) => {
                let detail =
                    format!("no answer from the cluster about this node's lease: {detail}");
                Problem::new(ErrorCode::NoQuorum, detail).with_retry_after_ms(1000)
            }
            Trouble::Propose(error) => refusals::propose(error),
            Trouble::Refused(
                Refusal::Workers(WorkerRefusal::LeaseLost { .. })
                | Refusal::Cluster(ClusterRefusal::StaleStart { .. }),
            ) => {
                let detail = format!("this node has no worker: {}", self.reason());
                Problem::new(ErrorCode::NoWorkerYet, detail).with_retry_after_ms(1000)
            }
            Trouble::Refused(Refusal::Cluster(ClusterRefusal::NotFounded)) => {
                Problem::new(ErrorCode::NoQuorum, self.reason()).with_retry_after_ms(1000)
            }
            Trouble::Refused(refusal) => refusals::state(refusal),
            Trouble::NoLeaseYet { detail } => {
                Problem::new(ErrorCode::NoWorkerYet, detail.clone()).with_retry_after_ms(500)
            }
            Trouble::WindowEnded { .. } => {
                Problem::new(ErrorCode::NoQuorum, self.reason()).with_retry_after_ms(1000)
            }
            Trouble::WindowBegins { ms } => {
                let after = u32::try_from((*ms).max(1)).unwrap_or(u32::MAX);
                Problem::new(ErrorCode::NoWorkerYet, self.reason()).with_retry_after_ms(after)
            }
            Trouble::LayoutFull { since } => {
                let detail = format!("the layout's time field is full since {}", rfc3339(*since));
                Problem::new(ErrorCode::LayoutExhausted, detail)
                    .with_hint("it decodes only; mint with another layout")
            }
            Trouble::BeforeEpoch => Problem::new(ErrorCode::ClockBehind, self.reason()),
            Trouble::Stopping => Problem::new(ErrorCode::Draining, "this node is stopping")
                .with_retry_after_ms(1000)
                .with_hint("ask another node"),
        }
    }

    fn reason(&self) -> String {
        match self {
            Trouble::Refused(refusal) => refusal.to_string(),
            Trouble::WindowEnded { at } => format!(
                "the minting window ended at {} and the cluster has not extended it",
                rfc3339(*at)
            ),
            Trouble::WindowBegins { ms } => {
                format!(
                    "this node's window begins in {ms} ms, behind that of the worker's last holder"
                )
            }
            Trouble::BeforeEpoch => "the clock stands before the layout's epoch".to_owned(),
            other => format!("{other:?}"),
        }
    }
}
