//! Commands, outcomes and refusals of all domains.
//!
//! A command carries everything that `apply` needs; its entry carries the time. Each command has
//! one outcome, the same on every replica. A refusal is also an outcome. It carries the values for
//! the error message (limits, holders, the next value), because the state may have changed since.

use crate::access::{AccessCommand, AccessOutcome, AccessRefusal};
use crate::cluster::commands::{ClusterCommand, ClusterOutcome, ClusterRefusal};
use crate::codec::frame::framed_enum;
use crate::keys::commands::{KeyCommand, KeyOutcome, KeyRefusal};
use crate::layouts::commands::{LayoutCommand, LayoutOutcome, LayoutRefusal};
use crate::locks::commands::{LockCommand, LockOutcome, LockRefusal};
use crate::sequences::commands::{SequenceCommand, SequenceOutcome, SequenceRefusal};
use crate::text::TextRefusal;
use crate::tokens::commands::{OneTimeCommand, OneTimeOutcome, OneTimeRefusal};
use crate::workers::commands::{WorkerCommand, WorkerOutcome, WorkerRefusal};

/// Defines the three enums over all domains.
macro_rules! domains {
    ($(
        $(#[doc = $about:literal])*
        $(#[cfg($($when:tt)*)])?
        $domain:ident: $command:ty, $outcome:ty, $refusal:ty;
    )*) => {
        framed_enum! {
            /// One change of the replicated state.
            #[derive(Debug, Clone, PartialEq)]
            pub enum Command {
                $($(#[doc = $about])* $(#[cfg($($when)*)])? $domain($command),)*
            }
        }

        framed_enum! {
            /// The result of a command.
            #[derive(Debug, Clone, PartialEq, Eq)]
            pub enum Outcome {
                /// Nothing changed.
                Refused(Refusal),
                $($(#[doc = $about])* $(#[cfg($($when)*)])? $domain($outcome),)*
            }
        }

        framed_enum! {
            /// The reason why a command changed nothing.
            #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
            #[error(transparent)]
            pub enum Refusal {
                Text(TextRefusal),
                $($(#[doc = $about])* $(#[cfg($($when)*)])? $domain($refusal),)*
            }
        }
    };
}

domains! {
    Cluster: ClusterCommand, ClusterOutcome, ClusterRefusal;
    Workers: WorkerCommand, WorkerOutcome, WorkerRefusal;
    Sequences: SequenceCommand, SequenceOutcome, SequenceRefusal;
    Access: AccessCommand, AccessOutcome, AccessRefusal;
    Layouts: LayoutCommand, LayoutOutcome, LayoutRefusal;
    Keys: KeyCommand, KeyOutcome, KeyRefusal;
    OneTime: OneTimeCommand, OneTimeOutcome, OneTimeRefusal;
    Locks: LockCommand, LockOutcome, LockRefusal;
    /// The example of `docs/internals/EXTENDING.md`.
    #[cfg(feature = "test-next-level")]
    Notes: crate::notes::NoteCommand, crate::notes::NoteOutcome, crate::notes::NoteRefusal;
}
