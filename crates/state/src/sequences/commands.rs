//! What can be asked of sequences, and what becomes of it.

use serde::{Deserialize, Serialize};

use super::definition::{DefinitionError, SequenceDefinition, SequenceMode};
use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::newtypes::{Epoch, GrantToken, Revision, SequenceName};

/// The most values in one strict request: as many as the HTTP interface hands out at once.
pub const MAX_STRICT_COUNT: u64 = 1_000_000;

/// A change of the sequences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SequenceCommand {
    /// Makes a sequence. An equal one that exists is left as it is.
    Create {
        /// Its name.
        name: SequenceName,
        /// What it counts, and how it is served.
        definition: SequenceDefinition,
    },
    /// Ends a sequence. Its definition and mark stay, for a sequence of the same name.
    Delete {
        /// Its name.
        name: SequenceName,
        /// Refused unless the definition still has this revision.
        if_revision: Option<Revision>,
    },
    /// Takes a range of a segment sequence.
    GrantSegment {
        /// The sequence.
        name: SequenceName,
        /// How many indices. Fewer are granted where a pass ends.
        size: u64,
        /// The latest token that the asker holds: the range then extends its run.
        after: Option<GrantToken>,
    },
    /// Gives the unused end of a run back.
    ReturnTail {
        /// The sequence.
        name: SequenceName,
        /// The run's latest token.
        token: GrantToken,
        /// The first index that was not and will not be used.
        first_unused: u64,
    },
    /// Moves a sequence forward.
    Advance {
        /// The sequence.
        name: SequenceName,
        /// The next value is the first at or beyond this one.
        to: i64,
    },
    /// Takes values of a strict sequence: all of them or none.
    Next(NextRequest),
}

impl FrameTable for SequenceCommand {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0301), // Create
        row(0x0302), // Delete
        row(0x0303), // GrantSegment
        row(0x0304), // ReturnTail
        row(0x0305), // Advance
        row(0x0306), // Next
    ];
}

/// The values that are asked of a strict sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextRequest {
    /// The sequence.
    pub name: SequenceName,
    /// How many values.
    pub count: u64,
}

/// What became of a [`SequenceCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SequenceOutcome {
    /// The sequence exists.
    Created {
        /// Whether this command made it; `false` if an equal one was there.
        created: bool,
        /// The revision of its definition.
        revision: Revision,
        /// Its epoch.
        epoch: Epoch,
    },
    /// The sequence is gone.
    Deleted {
        /// Its epoch after that: granted ranges of a lower one are void.
        epoch: Epoch,
    },
    /// A range was granted.
    SegmentGranted(SegmentGrant),
    /// The unused end of a run was taken back.
    TailReturned {
        /// The next index that will be granted.
        next_index: u64,
        /// How many indices came back.
        returned: u64,
    },
    /// The sequence moved forward, or stays where it is.
    Advanced {
        /// The next value that will be granted.
        next: i64,
        /// Its index.
        next_index: u64,
        /// The sequence's epoch after that: granted ranges of a lower one are void.
        epoch: Epoch,
    },
    /// The values of a strict request.
    Next(NextGrant),
}

impl FrameTable for SequenceOutcome {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0341), // Created
        row(0x0342), // Deleted
        row(0x0343), // SegmentGranted
        row(0x0344), // TailReturned
        row(0x0345), // Advanced
        row(0x0346), // Next
    ];
}

/// A granted range of a segment sequence. It lies within one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentGrant {
    /// The grant's token: proves the run at the next refill and at a return.
    pub token: GrantToken,
    /// The sequence's epoch: the range is void once the record has another one.
    pub epoch: Epoch,
    /// The first index of the run that this range is the end of.
    pub run_start: u64,
    /// The first index of the range.
    pub first_index: u64,
    /// How many indices: as many as asked, or fewer where the pass ends.
    pub count: u64,
    /// The value at the first index.
    pub first: i64,
    /// The value at the last index.
    pub last: i64,
    /// The distance from one value to the next.
    pub increment: i64,
}

/// The values given to one strict request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextGrant {
    /// The first index.
    pub first_index: u64,
    /// How many values, over all ranges.
    pub count: u64,
    /// The distance from one value to the next within a range.
    pub increment: i64,
    /// The values: one range, or several if a cycling sequence began again.
    pub ranges: Vec<ValueRange>,
}

/// Values at one distance from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueRange {
    /// The first value.
    pub first: i64,
    /// The last value; below the first where the sequence descends.
    pub last: i64,
    /// How many values.
    pub count: u64,
}

/// Why a [`SequenceCommand`] changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SequenceRefusal {
    /// There is no such sequence.
    #[error("there is no sequence {name}")]
    SequenceNotFound {
        /// The name.
        name: SequenceName,
    },
    /// A sequence of this name has another definition.
    #[error("the sequence {name} exists with another definition")]
    SequenceExists {
        /// The name.
        name: SequenceName,
        /// The revision of the definition that it has.
        revision: Revision,
    },
    /// A deleted sequence of this name had another definition, and its mark is kept for it.
    #[error("the sequence {name} was deleted; it can come back only with the definition it had")]
    DefinitionDiffers {
        /// The name.
        name: SequenceName,
        /// The definition that it had.
        kept: Box<SequenceDefinition>,
    },
    /// The definition is not a sound one.
    #[error("{0}")]
    InvalidDefinition(DefinitionError),
    /// The definition has another revision than the caller knows.
    #[error("the sequence {name} has revision {actual}, not {expected}")]
    RevisionMismatch {
        /// The name.
        name: SequenceName,
        /// The revision that the caller knows.
        expected: Revision,
        /// The one that it has.
        actual: Revision,
    },
    /// The sequence is served in the other way.
    #[error("the sequence {name} is a {mode} sequence")]
    WrongMode {
        /// The name.
        name: SequenceName,
        /// The mode that it has.
        mode: SequenceMode,
    },
    /// Not enough values are left. Nothing was given.
    #[error("the sequence {name} has {remaining} values left, {asked} were asked for")]
    SequenceExhausted {
        /// The name.
        name: SequenceName,
        /// How many were asked for.
        asked: u64,
        /// How many are left.
        remaining: u64,
    },
    /// A count of 0, or above the limit.
    #[error("{count} values were asked for; 1 to {limit} are allowed")]
    CountOutOfRange {
        /// How many were asked for.
        count: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// The sequence is past the asked value.
    #[error("the sequence {name} is past {to}{}", next_value(.next))]
    WouldGoBackwards {
        /// The name.
        name: SequenceName,
        /// The value as asked.
        to: i64,
        /// The next value that would be granted; `None` if the last one was.
        next: Option<i64>,
    },
    /// The sequence begins again at its end, so forward has no meaning.
    #[error("the sequence {name} cycles, so it cannot be advanced")]
    CannotAdvanceCycling {
        /// The name.
        name: SequenceName,
    },
    /// The sequence has no value at or beyond the asked one.
    #[error("the sequence {name} has no value at or beyond {to} within {min} to {max}")]
    AdvanceOutOfRange {
        /// The name.
        name: SequenceName,
        /// The value as asked.
        to: i64,
        /// The sequence's least value.
        min: i64,
        /// The sequence's greatest value.
        max: i64,
    },
    /// The token is not the sequence's latest, or the mark moved since.
    #[error("grant {token} of the sequence {name} is not its latest, or the sequence moved since")]
    GrantSuperseded {
        /// The name.
        name: SequenceName,
        /// The token as said.
        token: GrantToken,
    },
    /// The returned tail does not begin inside the run.
    #[error("index {first_unused} is outside the run from {run_start} to {next}")]
    TailOutsideRun {
        /// The first unused index as said.
        first_unused: u64,
        /// The run's first index.
        run_start: u64,
        /// The first index after the run.
        next: u64,
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
    ];
}

fn next_value(next: &Option<i64>) -> String {
    match next {
        Some(next) => format!(": the next value is {next}"),
        None => ": its last value was granted".to_owned(),
    }
}
