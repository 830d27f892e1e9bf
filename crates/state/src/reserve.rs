//! Which commands are proposed while only the reserve of a disk is left.
//!
//! The match is exhaustive: each new command has to decide.

use crate::access::AccessCommand;
use crate::domains::Command;
use crate::keys::commands::KeyCommand;
use crate::layouts::commands::LayoutCommand;
use crate::locks::commands::LockCommand;
use crate::sequences::commands::SequenceCommand;
use crate::tokens::commands::OneTimeCommand;
use crate::workers::commands::WorkerCommand;

impl Command {
    /// Returns whether the command may use the reserve of a disk, whoever proposes it: the cluster
    /// needs it, it only removes, ends or releases something, or an operator controls access with
    /// it. An operator could not make room otherwise.
    #[must_use]
    pub fn may_use_reserve(&self) -> bool {
        match self {
            Self::Cluster(_) => true,
            Self::Access(AccessCommand::Create { .. } | AccessCommand::Revoke { .. }) => true,
            Self::Workers(command) => match command {
                WorkerCommand::ReleaseLease { .. } => true,
                WorkerCommand::TakeLease(_) | WorkerCommand::ExtendLease { .. } => false,
            },
            Self::Sequences(command) => match command {
                SequenceCommand::Delete { .. } | SequenceCommand::ReturnTail { .. } => true,
                SequenceCommand::Create { .. }
                | SequenceCommand::GrantSegment { .. }
                | SequenceCommand::Advance { .. }
                | SequenceCommand::Next(_)
                | SequenceCommand::Update { .. } => false,
            },
            Self::Layouts(LayoutCommand::Create { .. }) => false,
            Self::Keys(command) => match command {
                KeyCommand::Abandon { .. } | KeyCommand::Remove { .. } => true,
                KeyCommand::Begin(_) | KeyCommand::Complete { .. } => false,
            },
            Self::OneTime(command) => match command {
                OneTimeCommand::Remove { .. } => true,
                OneTimeCommand::Issue { .. } | OneTimeCommand::Consume { .. } => false,
            },
            Self::Locks(command) => match command {
                LockCommand::Release { .. }
                | LockCommand::Withdraw { .. }
                | LockCommand::Break { .. } => true,
                LockCommand::Acquire(_) | LockCommand::Renew { .. } => false,
            },
            #[cfg(feature = "test-next-level")]
            Self::Notes(command) => matches!(command, crate::notes::NoteCommand::Remove { .. }),
        }
    }
}
