//! Commands, outcomes and refusals of sequences.

use serde::{Deserialize, Serialize};

use super::definition::{
    Bound, BoundError, DefinitionChange, DefinitionError, SequenceDefinition, SequenceMode,
};
use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::newtypes::{Epoch, GrantToken, Revision, SequenceName};
use crate::tenant::Tenant;

/// The maximum number of values in one strict request; equal to the limit of the HTTP interface.
pub(crate) const MAX_STRICT_COUNT: u64 = 1_000_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SequenceCommand {
    /// Creates a sequence. An equal sequence that exists stays unchanged.
    Create {
        name: SequenceName,
        definition: SequenceDefinition,
        /// The tenant to which the sequence is charged.
        tenant: Tenant,
    },
    /// Deletes a sequence. The definition and the mark are kept for a later sequence of the same
    /// name.
    Delete {
        name: SequenceName,
        /// Refused unless the definition still has this revision.
        if_revision: Option<Revision>,
    },
    GrantSegment {
        name: SequenceName,
        /// The number of indices. Fewer are granted where a pass ends.
        size: u64,
        /// The latest token that the caller holds. If it matches, the range extends the token's
        /// run.
        after: Option<GrantToken>,
    },
    /// Returns the unused end of a run.
    ReturnTail {
        name: SequenceName,
        token: GrantToken,
        /// The first index that was not used and will not be used.
        first_unused: u64,
    },
    Advance {
        name: SequenceName,
        /// The next value is the first one at or beyond this value.
        to: i64,
    },
    /// Grants values of a strict sequence: all of them or none.
    Next(NextRequest),
    /// Changes the parts of a definition that can change while the sequence is in use.
    Update {
        name: SequenceName,
        change: DefinitionChange,
        /// Refused unless the definition still has this revision.
        if_revision: Option<Revision>,
    },
    /// Like `GrantSegment`, of an ordered sequence. Only a leader proposes it, under its own term.
    GrantWindow {
        name: SequenceName,
        size: u64,
        after: Option<GrantToken>,
    },
    /// Like `ReturnTail`, of an ordered sequence. Only a leader that no longer draws proposes it.
    ReturnWindow {
        name: SequenceName,
        token: GrantToken,
        first_unused: u64,
    },
}

impl SequenceCommand {
    /// Returns the name of the sequence to which the command applies.
    #[must_use]
    pub fn name(&self) -> &SequenceName {
        match self {
            Self::Create { name, .. }
            | Self::Delete { name, .. }
            | Self::GrantSegment { name, .. }
            | Self::ReturnTail { name, .. }
            | Self::Advance { name, .. }
            | Self::Update { name, .. }
            | Self::GrantWindow { name, .. }
            | Self::ReturnWindow { name, .. }
            | Self::Next(NextRequest { name, .. }) => name,
        }
    }
}

impl FrameTable for SequenceCommand {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0301), // Create
        row(0x0302), // Delete
        row(0x0303), // GrantSegment
        row(0x0304), // ReturnTail
        row(0x0305), // Advance
        row(0x0306), // Next
        row(0x0307), // Update
        row(0x0308), // GrantWindow
        row(0x0309), // ReturnWindow
    ];
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextRequest {
    pub name: SequenceName,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SequenceOutcome {
    Created {
        /// `false` if an equal sequence existed.
        created: bool,
        revision: Revision,
        epoch: Epoch,
    },
    Deleted {
        /// Granted ranges of a lower epoch are invalid.
        epoch: Epoch,
    },
    SegmentGranted(SegmentGrant),
    TailReturned {
        next_index: u64,
        returned: u64,
    },
    Advanced {
        next: i64,
        next_index: u64,
        /// Granted ranges of a lower epoch are invalid.
        epoch: Epoch,
    },
    Next(NextGrant),
    Updated {
        /// `false` if the definition already had all these values.
        changed: bool,
        revision: Revision,
    },
}

impl FrameTable for SequenceOutcome {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0341), // Created
        row(0x0342), // Deleted
        row(0x0343), // SegmentGranted
        row(0x0344), // TailReturned
        row(0x0345), // Advanced
        row(0x0346), // Next
        row(0x0347), // Updated
    ];
}

/// A granted range of a segment sequence. It lies within one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentGrant {
    /// Identifies the run at the next refill and at a return.
    pub token: GrantToken,
    /// The range is invalid once the sequence has another epoch.
    pub epoch: Epoch,
    /// The first index of the run that ends with this range.
    pub run_start: u64,
    pub first_index: u64,
    /// The requested number, or fewer where the pass ends.
    pub count: u64,
    pub first: i64,
    pub last: i64,
    pub increment: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextGrant {
    pub first_index: u64,
    /// The total of all ranges.
    pub count: u64,
    pub increment: i64,
    /// One range, or several if a cycling sequence started another pass.
    pub ranges: Vec<ValueRange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueRange {
    pub first: i64,
    /// Less than `first` if the sequence descends.
    pub last: i64,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SequenceRefusal {
    #[error("there is no sequence {name}")]
    SequenceNotFound { name: SequenceName },
    #[error("the sequence {name} exists with another definition")]
    SequenceExists {
        name: SequenceName,
        revision: Revision,
    },
    #[error(
        "the sequence {name} was deleted; it can be created again only with its former definition"
    )]
    DefinitionDiffers {
        name: SequenceName,
        kept: Box<SequenceDefinition>,
    },
    #[error("{0}")]
    InvalidDefinition(DefinitionError),
    #[error("the sequence {name} has revision {actual}, not {expected}")]
    RevisionMismatch {
        name: SequenceName,
        expected: Revision,
        actual: Revision,
    },
    #[error("the sequence {name} is {} sequence", .mode.with_article())]
    WrongMode {
        name: SequenceName,
        mode: SequenceMode,
    },
    #[error("the sequence {name} has {remaining} values left, but {asked} were requested")]
    SequenceExhausted {
        name: SequenceName,
        asked: u64,
        remaining: u64,
    },
    #[error("{count} values were requested; 1 to {limit} are allowed")]
    CountOutOfRange { count: u64, limit: u64 },
    #[error("the sequence {name} is past {to}{}", next_value(.next))]
    WouldGoBackwards {
        name: SequenceName,
        to: i64,
        /// `None` if the last value was granted.
        next: Option<i64>,
    },
    #[error("the sequence {name} cycles, so it cannot be advanced")]
    CannotAdvanceCycling { name: SequenceName },
    #[error("the sequence {name} has no value at or beyond {to} within {min} to {max}")]
    AdvanceOutOfRange {
        name: SequenceName,
        to: i64,
        min: i64,
        max: i64,
    },
    #[error(
        "grant {token} of the sequence {name} is not its latest, or the sequence has moved since \
         then"
    )]
    GrantSuperseded {
        name: SequenceName,
        token: GrantToken,
    },
    #[error("index {first_unused} is outside the run from {run_start} to {next}")]
    TailOutsideRun {
        first_unused: u64,
        run_start: u64,
        next: u64,
    },
    #[error("{bound} of the sequence {name} cannot be changed: {why}")]
    BoundStays {
        name: SequenceName,
        bound: Bound,
        why: BoundError,
    },
}

impl FrameTable for SequenceRefusal {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0381), // SequenceNotFound
        row(0x0382), // SequenceExists
        row(0x0383), // DefinitionDiffers
        row(0x0384), // InvalidDefinition
        row(0x0385), // RevisionMismatch
        row(0x0386), // WrongMode
        row(0x0387), // SequenceExhausted
        row(0x0388), // CountOutOfRange
        row(0x0389), // WouldGoBackwards
        row(0x038a), // CannotAdvanceCycling
        row(0x038b), // AdvanceOutOfRange
        row(0x038c), // GrantSuperseded
        row(0x038d), // TailOutsideRun
        row(0x038e), // BoundStays
    ];
}

fn next_value(next: &Option<i64>) -> String {
    match next {
        Some(next) => format!(": the next value is {next}"),
        None => ": its last value was granted".to_owned(),
    }
}
