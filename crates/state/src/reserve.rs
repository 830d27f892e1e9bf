//! Classifies commands for a leader whose disk space is down to the reserve or whose clock may be
//! wrong.
//!
//! The match in [`Command::may_use_reserve`] is exhaustive, so each new command must be classified.

use crate::access::AccessCommand;
use crate::domains::Command;
use crate::keys::commands::KeyCommand;
use crate::layouts::commands::LayoutCommand;
use crate::locks::commands::LockCommand;
use crate::sequences::commands::SequenceCommand;
use crate::state::State;
use crate::tokens::commands::OneTimeCommand;
use crate::workers::commands::WorkerCommand;

impl Command {
    /// Returns whether the command may use the reserve of a disk, whichever client proposes it.
    /// This holds for commands that the cluster itself needs, that only remove, end or release
    /// something, or with which an operator controls access: otherwise an operator could not free
    /// space.
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
                SequenceCommand::Delete { .. }
                | SequenceCommand::ReturnTail { .. }
                | SequenceCommand::ReturnWindow { .. } => true,
                SequenceCommand::Create { .. }
                | SequenceCommand::GrantSegment { .. }
                | SequenceCommand::GrantWindow { .. }
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

    /// Returns whether the command is a client's. The nodes themselves need the cluster's own
    /// commands and the leases of the workers that nodes hold.
    #[must_use]
    pub fn is_of_client(&self, state: &State) -> bool {
        let is_node_s = |layout: &str, worker| {
            let lease = state.worker(layout, worker);
            lease.is_some_and(|lease| lease.node.is_some())
        };
        match self {
            Self::Cluster(_) => false,
            Self::Workers(WorkerCommand::TakeLease(take)) => take.node.is_none(),
            Self::Workers(
                WorkerCommand::ExtendLease { layout, worker, .. }
                | WorkerCommand::ReleaseLease { layout, worker, .. },
            ) => !is_node_s(layout, *worker),
            _ => true,
        }
    }

    /// Returns whether the command is refused while only the reserve remains.
    #[must_use]
    pub fn needs_room(&self, state: &State) -> bool {
        self.is_of_client(state) && !self.may_use_reserve()
    }

    /// Returns whether `apply` compares a value in the command, such as a fence, with the
    /// wall-clock time of its stamp. Only a leader whose clock is known to be right may propose
    /// such a command.
    #[must_use]
    pub fn needs_known_clock(&self) -> bool {
        matches!(
            self,
            Self::Workers(WorkerCommand::TakeLease(_) | WorkerCommand::ExtendLease { .. })
        )
    }
}
