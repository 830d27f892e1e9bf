//! Sequences: which indices were granted, and to whom the last ones can be given back by.
//!
//! What is replicated is an *index* that only grows; a progression turns it into a value. The mark
//! of a sequence is the next index that will be granted.
//!
//! Invariants of each sequence, over all entries ever applied:
//! - no index is granted twice, except one that was given back unused;
//! - the mark falls only by a return with the latest token, to an index inside that token's run;
//! - while there is a run, the mark is its end. Whatever else moves the mark, or may void what was
//!   granted, ends the run, so an older token can take nothing back;
//! - a grant never crosses the end of a pass;
//! - advance and delete raise the epoch; it never falls, and neither does it over a deletion.

use seqd_idgen::Progression;
use serde::{Deserialize, Serialize};

use crate::codec::Versioned;
use crate::command::{MAX_GRANT_SIZE, MAX_STRICT_COUNT, NextRequest};
use crate::newtypes::{Epoch, GrantToken, Revision, SequenceName};
use crate::outcome::{NextGrant, Outcome, SegmentGrant, ValueRange};
use crate::refusal::Refusal;
use crate::cluster::settings::{Counter, draw};
use crate::table::{Record, Table};
use crate::text::{self, TextField};

/// The longest time that a segment can be meant to last: a day. What a crash loses grows with it.
pub const MAX_SEGMENT_TARGET_MS: u64 = 86_400_000;

/// The most ranges in the answer to one strict request.
///
/// Only a cycling sequence has more than one, and only if its pass is short; the bound keeps the
/// answer to a small request small.
pub const MAX_RANGES_PER_NEXT: usize = 64;

/// How a sequence is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SequenceMode {
    /// From ranges that are granted to nodes.
    Segment,
    /// Value by value through the log.
    Strict,
}

impl std::fmt::Display for SequenceMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Segment => "segment",
            Self::Strict => "strict",
        })
    }
}

/// How large the ranges of a segment sequence are. Without meaning for a strict one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentSizes {
    /// How long a segment should last, in milliseconds.
    pub target_ms: u64,
    /// The smallest segment that a node asks for, and its first.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

/// What a sequence counts and how it is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceDefinition {
    /// How it is served.
    pub mode: SequenceMode,
    /// Its values.
    #[serde(with = "crate::foreign::progression")]
    pub progression: Progression,
    /// How large its ranges are.
    pub segment: SegmentSizes,
    /// What people say about it.
    pub description: String,
}

/// Why a definition is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum DefinitionError {
    /// The smallest segment is 0, above the largest, or that is above the limit.
    #[error("segment sizes are 1 to {MAX_GRANT_SIZE}, the smallest not above the largest")]
    SegmentSizes,
    /// The target is 0 or too long.
    #[error("a segment's target is 1 to {MAX_SEGMENT_TARGET_MS} ms")]
    SegmentTarget,
}

/// A sequence, or what is kept of a deleted one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceRecord {
    /// What it counts and how it is served.
    pub definition: SequenceDefinition,
    /// Raised by each change of the definition.
    pub revision: Revision,
    /// Raised by whatever voids granted ranges.
    pub epoch: Epoch,
    /// The mark: the next index that will be granted.
    pub next_index: u64,
    /// The ranges that the latest token can give back from, if any.
    pub run: Option<Run>,
    /// Whether it was deleted.
    pub deleted: bool,
}

/// Granted ranges without a gap between them, all of one asker. Their end is the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The token of the latest of these grants.
    pub token: GrantToken,
    /// The first index of the first of them.
    pub start: u64,
}

impl Versioned for SequenceRecord {
    const KIND: u8 = 15;
    const VERSION: u8 = 1;
}

impl Record for SequenceRecord {
    type Key = SequenceName;
    const PREFIX: u8 = b's';

    fn write_key(key: &SequenceName, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(key.as_str().as_bytes());
    }

    fn read_key(bytes: &[u8]) -> Option<SequenceName> {
        SequenceName::new(std::str::from_utf8(bytes).ok()?).ok()
    }

    fn is_sound(&self) -> bool {
        self.run.is_none_or(|run| run.start <= self.next_index)
    }
}

impl SequenceRecord {
    /// The next value that will be granted; `None` if the last one was.
    #[must_use]
    pub fn next_value(&self) -> Option<i64> {
        self.definition.progression.value_at(self.next_index)
    }

    /// How many values are left; `None` for a cycling sequence, which has no end.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.definition.progression.remaining(self.next_index)
    }

    fn demand(&self, name: &SequenceName, mode: SequenceMode) -> Result<(), Refusal> {
        if self.definition.mode == mode {
            return Ok(());
        }
        Err(Refusal::WrongMode {
            name: name.clone(),
            mode: self.definition.mode,
        })
    }
}

/// All sequences, deleted ones included.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sequences {
    pub(crate) table: Table<SequenceRecord>,
}

impl Sequences {
    /// The sequence, unless it was deleted.
    pub(crate) fn get(&self, name: &SequenceName) -> Option<&SequenceRecord> {
        self.table.get(name).filter(|record| !record.deleted)
    }

    /// The sequence, for a change that is about to happen: a refusal after this writes the row
    /// once more, as it was.
    fn get_mut(&mut self, name: &SequenceName) -> Result<&mut SequenceRecord, Refusal> {
        self.table
            .get_mut(name)
            .filter(|record| !record.deleted)
            .ok_or_else(|| Refusal::SequenceNotFound { name: name.clone() })
    }

    pub(crate) fn create(
        &mut self,
        name: &SequenceName,
        definition: &SequenceDefinition,
    ) -> Result<Outcome, Refusal> {
        check_definition(definition)?;
        let Some(record) = self.table.get(name) else {
            let record = SequenceRecord {
                definition: definition.clone(),
                revision: Revision(1),
                epoch: Epoch(1),
                next_index: 0,
                run: None,
                deleted: false,
            };
            self.table.put(name.clone(), record);
            let (revision, epoch) = (Revision(1), Epoch(1));
            return Ok(Outcome::SequenceCreated {
                created: true,
                revision,
                epoch,
            });
        };
        let (revision, epoch) = (record.revision, record.epoch);
        if !record.deleted {
            if record.definition == *definition {
                return Ok(Outcome::SequenceCreated {
                    created: false,
                    revision,
                    epoch,
                });
            }
            return Err(Refusal::SequenceExists {
                name: name.clone(),
                revision,
            });
        }
        let kept = &record.definition;
        if kept.mode != definition.mode || kept.progression != definition.progression {
            let kept = Box::new(kept.clone());
            return Err(Refusal::DefinitionDiffers {
                name: name.clone(),
                kept,
            });
        }
        let revision = Revision(revision.0 + 1);
        if let Some(record) = self.table.get_mut(name) {
            record.definition = definition.clone();
            record.revision = revision;
            record.deleted = false;
        }
        Ok(Outcome::SequenceCreated {
            created: true,
            revision,
            epoch,
        })
    }

    pub(crate) fn delete(
        &mut self,
        name: &SequenceName,
        if_revision: Option<Revision>,
    ) -> Result<Outcome, Refusal> {
        let record = self.get_mut(name)?;
        let actual = record.revision;
        if let Some(expected) = if_revision.filter(|expected| *expected != actual) {
            return Err(Refusal::RevisionMismatch {
                name: name.clone(),
                expected,
                actual,
            });
        }
        record.deleted = true;
        record.run = None;
        record.epoch.0 += 1;
        Ok(Outcome::SequenceDeleted {
            epoch: record.epoch,
        })
    }

    pub(crate) fn grant(
        &mut self,
        counter: &mut Table<Counter>,
        name: &SequenceName,
        size: u64,
        after: Option<GrantToken>,
    ) -> Result<Outcome, Refusal> {
        check_count(size, MAX_GRANT_SIZE)?;
        let record = self.get_mut(name)?;
        record.demand(name, SequenceMode::Segment)?;
        let progression = record.definition.progression;
        let first_index = record.next_index;
        let end = first_index
            .saturating_add(size)
            .min(progression.pass_end(first_index));
        let bounds = progression.value_at(first_index).zip(
            end.checked_sub(1)
                .and_then(|last_index| progression.value_at(last_index)),
        );
        let Some((first, last)) = bounds.filter(|_| end > first_index) else {
            return Err(Refusal::SequenceExhausted {
                name: name.clone(),
                asked: size,
                remaining: 0,
            });
        };
        // The run's end is the mark, so what is granted here lies right behind it.
        let run = record.run.filter(|run| after == Some(run.token));
        let run_start = run.map_or(first_index, |run| run.start);
        let token = GrantToken(draw(counter));
        record.run = Some(Run {
            token,
            start: run_start,
        });
        record.next_index = end;
        Ok(Outcome::SegmentGranted(SegmentGrant {
            token,
            epoch: record.epoch,
            run_start,
            first_index,
            count: end - first_index,
            first,
            last,
            increment: progression.increment(),
        }))
    }

    pub(crate) fn return_tail(
        &mut self,
        name: &SequenceName,
        token: GrantToken,
        first_unused: u64,
    ) -> Result<Outcome, Refusal> {
        let record = self.get_mut(name)?;
        record.demand(name, SequenceMode::Segment)?;
        let Some(run) = record.run.filter(|run| run.token == token) else {
            return Err(Refusal::GrantSuperseded {
                name: name.clone(),
                token,
            });
        };
        let next = record.next_index;
        if first_unused < run.start || first_unused > next {
            return Err(Refusal::TailOutsideRun {
                first_unused,
                run_start: run.start,
                next,
            });
        }
        record.next_index = first_unused;
        record.run = None;
        Ok(Outcome::TailReturned {
            next_index: first_unused,
            returned: next - first_unused,
        })
    }

    pub(crate) fn advance(&mut self, name: &SequenceName, to: i64) -> Result<Outcome, Refusal> {
        let record = self.get_mut(name)?;
        let progression = record.definition.progression;
        if progression.cycle() {
            return Err(Refusal::CannotAdvanceCycling { name: name.clone() });
        }
        let (min, max) = (progression.min(), progression.max());
        let upwards = progression.increment() > 0;
        let out_of_range = Refusal::AdvanceOutOfRange {
            name: name.clone(),
            to,
            min,
            max,
        };
        if (upwards && to > max) || (!upwards && to < min) {
            return Err(out_of_range);
        }
        let next = record.next_value();
        let is_forward = |next: i64| if upwards { to >= next } else { to <= next };
        if !next.is_some_and(is_forward) {
            return Err(Refusal::WouldGoBackwards {
                name: name.clone(),
                to,
                next,
            });
        }
        let target = progression
            .first_index_at_or_beyond(to, record.next_index)
            .and_then(|index| Some((index, progression.value_at(index)?)));
        let (next_index, next) = target.ok_or(out_of_range)?;
        record.next_index = next_index;
        record.run = None;
        record.epoch.0 += 1;
        Ok(Outcome::Advanced {
            next,
            next_index,
            epoch: record.epoch,
        })
    }

    /// Gives one strict request all of its values, or none.
    pub(crate) fn next(&mut self, request: &NextRequest) -> Result<NextGrant, Refusal> {
        let NextRequest { name, count } = request;
        let count = *count;
        check_count(count, MAX_STRICT_COUNT)?;
        let record = self.get_mut(name)?;
        record.demand(name, SequenceMode::Strict)?;
        let progression = &record.definition.progression;
        let first_index = record.next_index;
        let exhausted = |remaining: u64| Refusal::SequenceExhausted {
            name: name.clone(),
            asked: count,
            remaining,
        };
        let Some(end) = first_index.checked_add(count) else {
            return Err(exhausted(u64::MAX - first_index));
        };
        let mut ranges = Vec::with_capacity(1);
        let mut from = first_index;
        while from < end {
            if ranges.len() == MAX_RANGES_PER_NEXT {
                return Err(Refusal::CountOutOfRange {
                    count,
                    limit: from - first_index,
                });
            }
            let until = end.min(progression.pass_end(from));
            let Some(first) = progression.value_at(from).filter(|_| until > from) else {
                return Err(exhausted(from - first_index));
            };
            ranges.push(range_of(first, progression.increment(), until - from));
            from = until;
        }
        record.next_index = end;
        Ok(NextGrant {
            first_index,
            count,
            increment: progression.increment(),
            ranges,
        })
    }
}

/// The values of `count` indices from the one of `first`, all within one pass.
fn range_of(first: i64, increment: i64, count: u64) -> ValueRange {
    // The last value lies between the bounds, so the sum is right though its parts may wrap.
    let distance = increment.wrapping_mul((count - 1).cast_signed());
    ValueRange {
        first,
        last: first.wrapping_add(distance),
        count,
    }
}

fn check_count(count: u64, limit: u64) -> Result<(), Refusal> {
    if (1..=limit).contains(&count) {
        return Ok(());
    }
    Err(Refusal::CountOutOfRange { count, limit })
}

fn check_definition(definition: &SequenceDefinition) -> Result<(), Refusal> {
    text::check(TextField::Description, &definition.description)?;
    let SegmentSizes {
        target_ms,
        min,
        max,
    } = definition.segment;
    if min == 0 || min > max || max > MAX_GRANT_SIZE {
        return Err(Refusal::InvalidDefinition(DefinitionError::SegmentSizes));
    }
    if target_ms == 0 || target_ms > MAX_SEGMENT_TARGET_MS {
        return Err(Refusal::InvalidDefinition(DefinitionError::SegmentTarget));
    }
    Ok(())
}
