//! Commands, outcomes and refusals of all domains.
//!
//! A command is what can be asked of the replicated state. It carries everything that `apply`
//! needs; the time comes with its entry. Each command has one outcome, the same on every replica,
//! and a refusal is one of them: it carries what an answer to a person needs (limits, holders, the
//! next value), so that nobody has to read the state again, later, to explain it.
//!
//! What each domain has stands with it; here is only which domains there are.

use crate::cluster::commands::{ClusterCommand, ClusterOutcome, ClusterRefusal};
use crate::codec::frame::framed_enum;
use crate::sequences::commands::{SequenceCommand, SequenceOutcome, SequenceRefusal};
use crate::text::TextRefusal;
use crate::workers::commands::{WorkerCommand, WorkerOutcome, WorkerRefusal};

/// Makes the three enums of the domains.
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
            /// What became of a command.
            #[derive(Debug, Clone, PartialEq, Eq)]
            pub enum Outcome {
                /// Nothing changed.
                Refused(Refusal),
                $($(#[doc = $about])* $(#[cfg($($when)*)])? $domain($outcome),)*
            }
        }

        framed_enum! {
            /// Why a command changed nothing. Codes and HTTP statuses are not known here.
            #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
            #[error(transparent)]
            pub enum Refusal {
                /// A text breaks its rule.
                Text(TextRefusal),
                $($(#[doc = $about])* $(#[cfg($($when)*)])? $domain($refusal),)*
            }
        }
    };
}

domains! {
    /// The cluster itself: its beginning, its members, its level.
    Cluster: ClusterCommand, ClusterOutcome, ClusterRefusal;
    /// Worker leases.
    Workers: WorkerCommand, WorkerOutcome, WorkerRefusal;
    /// Sequences.
    Sequences: SequenceCommand, SequenceOutcome, SequenceRefusal;
    /// The table of `docs/EXTENDING.md`.
    #[cfg(any(test, feature = "test-next-level"))]
    Notes: crate::notes::NoteCommand, crate::notes::NoteOutcome, crate::notes::NoteRefusal;
}
