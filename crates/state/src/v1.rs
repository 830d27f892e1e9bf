//! Entries in version 1: what clusters at level 1 write, and what their logs hold.
//!
//! The variants and their order are fixed for ever, and so are the types in them that version 2
//! shares: one that changes its shape leaves a copy of the old one here.

use seqd_idgen::{Tick, WallMs, WorkerId};
use serde::{Deserialize, Serialize};

use crate::cluster::commands::{AllocateNodeId, ClusterCommand, Found};
use crate::domains;
use crate::newtypes::{GrantToken, LeaseId, NodeId, Revision, SequenceName};
use crate::sequences::commands::{NextRequest, SequenceCommand};
use crate::sequences::definition::SequenceDefinition;
use crate::stamp::Stamp;
use crate::workers::commands::{TakeLease, WorkerCommand};

/// The most commands that were carried out of an entry, and requests of a `StrictNext`. No program
/// wrote more; what has more is refused as a whole.
const MOST: usize = 4096;

/// An entry in version 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryV1 {
    pub(crate) stamp: Stamp,
    pub(crate) commands: Vec<Command>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Command {
    Found(Found),
    AllocateNodeId(AllocateNodeId),
    RegisterStart {
        node: NodeId,
        boot: u64,
        nonce: u64,
    },
    MarkRemoved {
        node: NodeId,
    },
    TakeLease(TakeLease),
    ExtendLease {
        layout: String,
        #[serde(with = "crate::foreign::worker_id")]
        worker: WorkerId,
        lease: LeaseId,
        #[serde(with = "crate::foreign::tick")]
        fence: Tick,
    },
    ReleaseLease {
        layout: String,
        #[serde(with = "crate::foreign::worker_id")]
        worker: WorkerId,
        lease: LeaseId,
        #[serde(with = "crate::foreign::option_tick")]
        last_tick: Option<Tick>,
    },
    CreateSequence {
        name: SequenceName,
        definition: SequenceDefinition,
    },
    DeleteSequence {
        name: SequenceName,
        if_revision: Option<Revision>,
    },
    GrantSegment {
        name: SequenceName,
        size: u64,
        after: Option<GrantToken>,
    },
    ReturnTail {
        name: SequenceName,
        token: GrantToken,
        first_unused: u64,
    },
    Advance {
        name: SequenceName,
        to: i64,
    },
    StrictNext {
        requests: Vec<NextRequest>,
    },
    StampRestoration {
        #[serde(with = "crate::foreign::wall_ms")]
        wall_ms: WallMs,
    },
}

impl EntryV1 {
    /// The commands, each request for itself, and none of those that were refused unread.
    pub(crate) fn into_commands(self) -> Vec<domains::Command> {
        if self.commands.len() > MOST {
            return Vec::new();
        }
        self.commands.into_iter().flat_map(Command::split).collect()
    }
}

impl Command {
    fn split(self) -> Vec<domains::Command> {
        vec![match self {
            Self::StrictNext { requests } if requests.len() > MOST => return Vec::new(),
            Self::StrictNext { requests } => {
                let each = requests.into_iter().map(SequenceCommand::Next);
                return each.map(Into::into).collect();
            }
            Self::Found(found) => ClusterCommand::Found(found).into(),
            Self::AllocateNodeId(asked) => ClusterCommand::AllocateNodeId(asked).into(),
            Self::RegisterStart { node, boot, nonce } => {
                ClusterCommand::RegisterStart { node, boot, nonce }.into()
            }
            Self::MarkRemoved { node } => ClusterCommand::MarkRemoved { node }.into(),
            Self::StampRestoration { wall_ms } => {
                ClusterCommand::StampRestoration { wall_ms }.into()
            }
            Self::TakeLease(asked) => WorkerCommand::TakeLease(asked).into(),
            Self::ExtendLease {
                layout,
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
            Self::ReleaseLease {
                layout,
                worker,
                lease,
                last_tick,
            } => WorkerCommand::ReleaseLease {
                layout,
                worker,
                lease,
                last_tick,
            }
            .into(),
            Self::CreateSequence { name, definition } => {
                SequenceCommand::Create { name, definition }.into()
            }
            Self::DeleteSequence { name, if_revision } => {
                SequenceCommand::Delete { name, if_revision }.into()
            }
            Self::GrantSegment { name, size, after } => {
                SequenceCommand::GrantSegment { name, size, after }.into()
            }
            Self::ReturnTail {
                name,
                token,
                first_unused,
            } => SequenceCommand::ReturnTail {
                name,
                token,
                first_unused,
            }
            .into(),
            Self::Advance { name, to } => SequenceCommand::Advance { name, to }.into(),
        }]
    }

    /// The command as version 1 has it; `None` if it has no such command.
    pub(crate) fn of(command: &domains::Command) -> Option<Self> {
        match command.clone() {
            domains::Command::Cluster(command) => Self::of_cluster(command),
            domains::Command::Workers(command) => Some(Self::of_workers(command)),
            domains::Command::Sequences(command) => Some(Self::of_sequences(command)),
            #[allow(
                unreachable_patterns,
                reason = "reached by the domains that a level brings"
            )]
            _ => None,
        }
    }

    fn of_cluster(command: ClusterCommand) -> Option<Self> {
        Some(match command {
            ClusterCommand::Found(found) => Self::Found(found),
            ClusterCommand::AllocateNodeId(asked) => Self::AllocateNodeId(asked),
            ClusterCommand::RegisterStart { node, boot, nonce } => {
                Self::RegisterStart { node, boot, nonce }
            }
            ClusterCommand::MarkRemoved { node } => Self::MarkRemoved { node },
            ClusterCommand::StampRestoration { wall_ms } => Self::StampRestoration { wall_ms },
            _ => return None,
        })
    }

    fn of_workers(command: WorkerCommand) -> Self {
        match command {
            WorkerCommand::TakeLease(asked) => Self::TakeLease(asked),
            WorkerCommand::ExtendLease {
                layout,
                worker,
                lease,
                fence,
            } => Self::ExtendLease {
                layout,
                worker,
                lease,
                fence,
            },
            WorkerCommand::ReleaseLease {
                layout,
                worker,
                lease,
                last_tick,
            } => Self::ReleaseLease {
                layout,
                worker,
                lease,
                last_tick,
            },
        }
    }

    fn of_sequences(command: SequenceCommand) -> Self {
        match command {
            SequenceCommand::Create { name, definition } => {
                Self::CreateSequence { name, definition }
            }
            SequenceCommand::Delete { name, if_revision } => {
                Self::DeleteSequence { name, if_revision }
            }
            SequenceCommand::GrantSegment { name, size, after } => {
                Self::GrantSegment { name, size, after }
            }
            SequenceCommand::ReturnTail {
                name,
                token,
                first_unused,
            } => Self::ReturnTail {
                name,
                token,
                first_unused,
            },
            SequenceCommand::Advance { name, to } => Self::Advance { name, to },
            SequenceCommand::Next(request) => Self::StrictNext {
                requests: vec![request],
            },
        }
    }
}
