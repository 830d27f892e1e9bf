//! Entries in version 1, which clusters at level 1 write.
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
use crate::tenant::Tenant;
use crate::workers::commands::{TakeLease, WorkerCommand};

/// The most commands of an entry, and requests of a `StrictNext`, that were applied. More were
/// refused as a whole, and no program wrote more.
const MOST: usize = 4096;

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
        tenant: Tenant,
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
        match self {
            Self::StrictNext { requests } if requests.len() > MOST => Vec::new(),
            Self::StrictNext { requests } => {
                let each = requests.into_iter().map(SequenceCommand::Next);
                each.map(Into::into).collect()
            }
            other => other.into_domain().into_iter().collect(),
        }
    }

    /// The command in version 1; `None` if it has none there.
    pub(crate) fn of(command: &domains::Command) -> Option<Self> {
        match command.clone() {
            domains::Command::Sequences(SequenceCommand::Next(request)) => Some(Self::StrictNext {
                requests: vec![request],
            }),
            other => Self::from_domain(other),
        }
    }
}

/// Converts, in both directions, the commands that have one form in each version.
macro_rules! converted {
    ($($name:ident $fields:tt = $domain:ident $command:ident::$variant:ident;)*) => {
        impl Command {
            fn into_domain(self) -> Option<domains::Command> {
                match self {
                    $(Self::$name $fields => Some($command::$variant $fields.into()),)*
                    Self::StrictNext { .. } => None,
                }
            }

            fn from_domain(command: domains::Command) -> Option<Self> {
                match command {
                    $(domains::Command::$domain($command::$variant $fields) => {
                        Some(Self::$name $fields)
                    })*
                    _ => None,
                }
            }
        }
    };
}

converted! {
    Found(found) = Cluster ClusterCommand::Found;
    AllocateNodeId(request) = Cluster ClusterCommand::AllocateNodeId;
    RegisterStart { node, boot, nonce } = Cluster ClusterCommand::RegisterStart;
    MarkRemoved { node } = Cluster ClusterCommand::MarkRemoved;
    TakeLease(request) = Workers WorkerCommand::TakeLease;
    ExtendLease { layout, worker, lease, fence } = Workers WorkerCommand::ExtendLease;
    ReleaseLease { layout, worker, lease, last_tick } = Workers WorkerCommand::ReleaseLease;
    CreateSequence { name, definition, tenant } = Sequences SequenceCommand::Create;
    DeleteSequence { name, if_revision } = Sequences SequenceCommand::Delete;
    GrantSegment { name, size, after } = Sequences SequenceCommand::GrantSegment;
    ReturnTail { name, token, first_unused } = Sequences SequenceCommand::ReturnTail;
    Advance { name, to } = Sequences SequenceCommand::Advance;
    StampRestoration { wall_ms } = Cluster ClusterCommand::StampRestoration;
}
