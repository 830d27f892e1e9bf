//! The proposals of a process and their answers: the commands and outcomes of the real state
//! machine, as small values that can be compared.

use std::fmt;

use seqd_idgen::{Tick, WallMs, WorkerId};
use seqd_state::{
    ClusterCommand, ClusterOutcome, ClusterRefusal, Command, GrantToken, LeaseId, NodeId, Outcome,
    Refusal, SequenceCommand, SequenceName, SequenceOutcome, TakeLease, WorkerCommand,
    WorkerOutcome, WorkerRefusal,
};

use super::scene::{LAYOUT, SEGMENT, SEQUENCE};

/// The process that made a proposal: a start of a node, or the external generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Origin {
    /// `None` for the external generator.
    pub(super) node: Option<NodeId>,
    pub(super) boot: u64,
    /// Different for each process.
    pub(super) nonce: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            None => write!(f, "the external generator"),
            Some(node) => write!(f, "node {node} (start {})", self.boot),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Ask {
    Register,
    Take {
        fence: Tick,
    },
    Extend {
        worker: WorkerId,
        lease: LeaseId,
        fence: Tick,
    },
    Release {
        worker: WorkerId,
        lease: LeaseId,
        last: Option<Tick>,
    },
    Grant {
        after: Option<GrantToken>,
    },
    Return {
        token: GrantToken,
        first_unused: u64,
    },
    /// Made by the leader of a restored cluster.
    Stamp {
        wall: WallMs,
    },
}

/// A proposal in flight. These fields alone determine its outcome, and its position does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Proposal {
    pub(super) by: Origin,
    pub(super) ask: Ask,
}

impl Proposal {
    pub(super) fn command(&self, datacenter: Option<u32>) -> Command {
        let layout = LAYOUT.to_owned();
        let name = || SequenceName::new(SEQUENCE).expect("a name");
        let Origin { node, boot, nonce } = self.by;
        match self.ask {
            Ask::Register => ClusterCommand::RegisterStart {
                node: node.expect("only nodes are registered"),
                boot,
                nonce,
            }
            .into(),
            Ask::Take { fence } => WorkerCommand::TakeLease(TakeLease {
                tenant: seqd_state::Tenant::OPERATOR,
                layout,
                owner: node.map_or("external".to_owned(), |node| format!("n{node}")),
                node,
                boot,
                fence,
                datacenter,
            })
            .into(),
            Ask::Extend {
                worker,
                lease,
                fence,
            } => WorkerCommand::ExtendLease {
                layout,
                worker,
                lease,
                fence,
            }
            .into(),
            Ask::Release {
                worker,
                lease,
                last,
            } => WorkerCommand::ReleaseLease {
                layout,
                worker,
                lease,
                last_tick: last,
            }
            .into(),
            Ask::Grant { after } => SequenceCommand::GrantSegment {
                name: name(),
                size: SEGMENT,
                after,
            }
            .into(),
            Ask::Return {
                token,
                first_unused,
            } => SequenceCommand::ReturnTail {
                name: name(),
                token,
                first_unused,
            }
            .into(),
            Ask::Stamp { wall } => ClusterCommand::StampRestoration { wall_ms: wall }.into(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Registered,
    Leased {
        worker: WorkerId,
        lease: LeaseId,
        from: Tick,
        fence: Tick,
    },
    Extended {
        fence: Tick,
    },
    Released {
        fence: Tick,
    },
    Granted {
        token: GrantToken,
        first: u64,
        end: u64,
    },
    Returned,
    Stamped,
    LeaseLost,
    StaleStart,
    /// Refused for any other reason.
    Refused,
}

impl Answer {
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Cluster(ClusterOutcome::StartRegistered { .. }) => Self::Registered,
            Outcome::Cluster(ClusterOutcome::RestorationStamped { .. }) => Self::Stamped,
            Outcome::Workers(WorkerOutcome::LeaseTaken(grant)) => Self::Leased {
                worker: grant.worker,
                lease: grant.lease,
                from: grant.from_tick,
                fence: grant.fence,
            },
            Outcome::Workers(WorkerOutcome::LeaseExtended { fence }) => {
                Self::Extended { fence: *fence }
            }
            Outcome::Workers(WorkerOutcome::LeaseReleased { fence }) => {
                Self::Released { fence: *fence }
            }
            Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)) => Self::Granted {
                token: grant.token,
                first: grant.first_index,
                end: grant.first_index + grant.count,
            },
            Outcome::Sequences(SequenceOutcome::TailReturned { .. }) => Self::Returned,
            Outcome::Refused(Refusal::Workers(WorkerRefusal::LeaseLost { .. })) => Self::LeaseLost,
            Outcome::Refused(Refusal::Cluster(ClusterRefusal::StaleStart { .. })) => {
                Self::StaleStart
            }
            Outcome::Refused(_) => Self::Refused,
            other => panic!("an outcome of no command of the model: {other:?}"),
        }
    }
}

/// The proposal in words.
impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register => write!(f, "to register its start"),
            Self::Take { fence } => write!(f, "to take a lease up to fence {fence}"),
            Self::Extend { lease, fence, .. } => {
                write!(f, "to extend lease {lease} to fence {fence}")
            }
            Self::Release { lease, last, .. } => match last {
                Some(last) => write!(f, "to release lease {lease} after tick {last}"),
                None => write!(f, "to release lease {lease} without a last tick"),
            },
            Self::Grant { after: None } => write!(f, "to be granted a segment"),
            Self::Grant { after: Some(token) } => {
                write!(f, "to be granted a segment after token {token}")
            }
            Self::Return {
                token,
                first_unused,
            } => write!(
                f,
                "to return the tail from index {first_unused} with token {token}"
            ),
            Self::Stamp { wall } => write!(f, "to stamp the start of the cluster with {wall}"),
        }
    }
}

/// The answer in words.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered => write!(f, "the start is registered"),
            Self::Leased {
                worker,
                lease,
                from,
                fence,
            } => {
                let worker = worker.0;
                write!(
                    f,
                    "lease {lease} of worker {worker}, from tick {from} up to fence {fence}"
                )
            }
            Self::Extended { fence } => write!(f, "the fence is {fence}"),
            Self::Released { fence } => write!(f, "released, and the fence is {fence}"),
            Self::Granted { token, first, end } => {
                write!(f, "token {token}, from index {first} up to {end}")
            }
            Self::Returned => write!(f, "the tail is taken back"),
            Self::Stamped => write!(f, "the start of the cluster is stamped"),
            Self::LeaseLost => write!(f, "refused, as the lease is not the worker's"),
            Self::StaleStart => write!(f, "refused, as another start is registered"),
            Self::Refused => write!(f, "refused"),
        }
    }
}
