//! Grants of sequences: which indices were granted and which can be returned.
//!
//! The replicated state of a sequence is an *index*, which a progression converts to a value. The
//! mark of a sequence is the next index that will be granted.
//!
//! Invariants of each sequence, over all entries ever applied:
//! - No index is granted twice, except an index that was returned unused.
//! - The mark decreases only by a return with the latest token, to an index inside that token's
//!   run.
//! - While there is a run, the mark is its end. Any other change that moves the mark, or may
//!   invalidate granted ranges, ends the run, so an older token can return nothing.
//! - A grant never crosses the end of a pass.
//! - Advance and delete raise the epoch. The epoch never decreases, not even over a deletion.
//! - A change of the definition changes neither the value of any index, nor the mark, nor the run.

use seqd_guards::is_out;

use crate::cluster::settings::{Counter, draw};
use crate::domains::Refusal;
use crate::newtypes::{Epoch, GrantToken, Revision, SequenceName};
use crate::sequences::commands::{
    NextGrant, NextRequest, SegmentGrant, SequenceCommand, SequenceOutcome, SequenceRefusal,
    ValueRange,
};
use crate::sequences::definition::{
    DefinitionChange, SegmentSizes, SequenceDefinition, SequenceMode,
};
use crate::sequences::record::{Run, SequenceRecord};
use crate::table::Table;
use crate::tenant::Tenant;

/// The maximum number of ranges in the outcome of one strict request.
///
/// Only a cycling sequence with a short pass has more than one. The limit keeps the outcome of a
/// small request small.
pub(crate) const MAX_RANGES_PER_NEXT: usize = 64;

impl Table<SequenceRecord> {
    pub(crate) fn apply(
        &mut self,
        counter: &mut Table<Counter>,
        command: &SequenceCommand,
    ) -> Result<SequenceOutcome, Refusal> {
        command.check()?;
        let outcome = match command {
            SequenceCommand::Create {
                name,
                definition,
                tenant,
            } => self.create(name, definition, *tenant),
            SequenceCommand::Delete { name, if_revision } => self.delete(name, *if_revision),
            SequenceCommand::GrantSegment { name, size, after } => {
                self.grant(counter, (name, SequenceMode::Segment), *size, *after)
            }
            SequenceCommand::GrantWindow { name, size, after } => {
                self.grant(counter, (name, SequenceMode::Ordered), *size, *after)
            }
            SequenceCommand::ReturnTail {
                name,
                token,
                first_unused,
            } => self.return_tail((name, SequenceMode::Segment), *token, *first_unused),
            SequenceCommand::ReturnWindow {
                name,
                token,
                first_unused,
            } => self.return_tail((name, SequenceMode::Ordered), *token, *first_unused),
            SequenceCommand::Advance { name, to } => self.advance(name, *to),
            SequenceCommand::Next(request) => self.next(request),
            SequenceCommand::Update {
                name,
                change,
                if_revision,
            } => self.update(name, change, *if_revision),
        };
        Ok(outcome?)
    }

    fn create(
        &mut self,
        name: &SequenceName,
        definition: &SequenceDefinition,
        tenant: Tenant,
    ) -> Result<SequenceOutcome, SequenceRefusal> {
        let outcome = |created, revision, epoch| SequenceOutcome::Created {
            created,
            revision,
            epoch,
        };
        let Some(record) = self.get(name) else {
            let record = SequenceRecord {
                tenant,
                definition: definition.clone(),
                revision: Revision(1),
                epoch: Epoch(1),
                next_index: 0,
                run: None,
                deleted: false,
            };
            self.put(name.clone(), record);
            return Ok(outcome(true, Revision(1), Epoch(1)));
        };
        let (revision, epoch) = (record.revision, record.epoch);
        if !record.deleted {
            if record.definition == *definition {
                return Ok(outcome(false, revision, epoch));
            }
            let name = name.clone();
            return Err(SequenceRefusal::SequenceExists { name, revision });
        }
        let kept = &record.definition;
        if kept.mode != definition.mode || kept.progression != definition.progression {
            let (name, kept) = (name.clone(), Box::new(kept.clone()));
            return Err(SequenceRefusal::DefinitionDiffers { name, kept });
        }
        let revision = revision.next();
        let mut record = record.clone();
        record.tenant = tenant;
        record.definition = definition.clone();
        record.revision = revision;
        record.deleted = false;
        if is_out!(MarkOutlivesDeletion) {
            record.next_index = 0;
        }
        self.put(name.clone(), record);
        Ok(outcome(true, revision, epoch))
    }

    fn delete(
        &mut self,
        name: &SequenceName,
        if_revision: Option<Revision>,
    ) -> Result<SequenceOutcome, SequenceRefusal> {
        let record = self.existing_mut(name)?;
        record.demand_revision(name, if_revision)?;
        record.deleted = true;
        record.run = None;
        record.epoch = record.epoch.next();
        Ok(SequenceOutcome::Deleted {
            epoch: record.epoch,
        })
    }

    /// Changes the definition. The run stays: granted indices stay granted, and each index keeps
    /// its value.
    fn update(
        &mut self,
        name: &SequenceName,
        change: &DefinitionChange,
        if_revision: Option<Revision>,
    ) -> Result<SequenceOutcome, SequenceRefusal> {
        let record = self.existing_mut(name)?;
        record.demand_revision(name, if_revision)?;
        if change.is_of_segments() {
            record.demand(name, SequenceMode::Segment)?;
        }
        let now = &record.definition;
        let progression = now.extended(change.min, change.max);
        let progression = progression.map_err(|(bound, why)| {
            let name = name.clone();
            SequenceRefusal::BoundStays { name, bound, why }
        })?;
        let segment = SegmentSizes {
            target_ms: change.target_ms.unwrap_or(now.segment.target_ms),
            min: change.segment_min.unwrap_or(now.segment.min),
            max: change.segment_max.unwrap_or(now.segment.max),
        };
        let description = change.description.as_ref().unwrap_or(&now.description);
        let next = SequenceDefinition {
            mode: now.mode,
            progression,
            segment,
            description: description.clone(),
        };
        let checked = next.check();
        checked.map_err(SequenceRefusal::InvalidDefinition)?;
        let changed = next != record.definition;
        if changed {
            record.definition = next;
            record.revision = record.revision.next();
        }
        let revision = record.revision;
        Ok(SequenceOutcome::Updated { changed, revision })
    }

    fn grant(
        &mut self,
        counter: &mut Table<Counter>,
        (name, mode): (&SequenceName, SequenceMode),
        size: u64,
        after: Option<GrantToken>,
    ) -> Result<SequenceOutcome, SequenceRefusal> {
        let record = self.existing_mut(name)?;
        record.demand(name, mode)?;
        let progression = record.definition.progression;
        let first_index = record.next_index;
        let end = first_index.saturating_add(size);
        let end = if is_out!(PassNotCrossed) {
            end
        } else {
            end.min(progression.pass_end(first_index))
        };
        let bounds = progression.value_at(first_index).zip(
            end.checked_sub(1)
                .and_then(|last_index| progression.value_at(last_index)),
        );
        let Some((first, last)) = bounds.filter(|_| end > first_index) else {
            return Err(SequenceRefusal::SequenceExhausted {
                name: name.clone(),
                asked: size,
                remaining: 0,
            });
        };
        // The run ends at the mark, where this grant begins.
        let run = record.run.filter(|run| after == Some(run.token));
        let run_start = run.map_or(first_index, |run| run.start);
        let token = GrantToken(draw(counter));
        record.run = Some(Run {
            token,
            start: run_start,
        });
        record.next_index = end;
        Ok(SequenceOutcome::SegmentGranted(SegmentGrant {
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

    fn return_tail(
        &mut self,
        (name, mode): (&SequenceName, SequenceMode),
        token: GrantToken,
        first_unused: u64,
    ) -> Result<SequenceOutcome, SequenceRefusal> {
        let record = self.existing_mut(name)?;
        record.demand(name, mode)?;
        let is_latest = |run: &Run| run.token == token || is_out!(TokenCompared);
        let Some(run) = record.run.filter(is_latest) else {
            return Err(SequenceRefusal::GrantSuperseded {
                name: name.clone(),
                token,
            });
        };
        let next = record.next_index;
        if first_unused < run.start || first_unused > next {
            return Err(SequenceRefusal::TailOutsideRun {
                first_unused,
                run_start: run.start,
                next,
            });
        }
        record.next_index = first_unused;
        record.run = None;
        Ok(SequenceOutcome::TailReturned {
            next_index: first_unused,
            returned: next - first_unused,
        })
    }

    fn advance(
        &mut self,
        name: &SequenceName,
        to: i64,
    ) -> Result<SequenceOutcome, SequenceRefusal> {
        let record = self.existing_mut(name)?;
        let progression = record.definition.progression;
        if progression.cycle() {
            return Err(SequenceRefusal::CannotAdvanceCycling { name: name.clone() });
        }
        let (min, max) = (progression.min(), progression.max());
        let upwards = progression.increment() > 0;
        let out_of_range = SequenceRefusal::AdvanceOutOfRange {
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
            return Err(SequenceRefusal::WouldGoBackwards {
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
        if !is_out!(AdvanceEndsRun) {
            record.run = None;
        }
        record.epoch = record.epoch.next();
        Ok(SequenceOutcome::Advanced {
            next,
            next_index,
            epoch: record.epoch,
        })
    }

    fn next(&mut self, request: &NextRequest) -> Result<SequenceOutcome, SequenceRefusal> {
        let NextRequest { name, count } = request;
        let count = *count;
        let record = self.existing_mut(name)?;
        record.demand(name, SequenceMode::Strict)?;
        let progression = &record.definition.progression;
        let first_index = record.next_index;
        let exhausted = |remaining: u64| SequenceRefusal::SequenceExhausted {
            name: name.clone(),
            asked: count,
            remaining,
        };
        let Some(end) = first_index.checked_add(count) else {
            return Err(exhausted(
                record.remaining().unwrap_or(u64::MAX - first_index),
            ));
        };
        let mut ranges = Vec::with_capacity(1);
        let mut from = first_index;
        while from < end {
            if ranges.len() == MAX_RANGES_PER_NEXT {
                return Err(SequenceRefusal::CountOutOfRange {
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
        Ok(SequenceOutcome::Next(NextGrant {
            first_index,
            count,
            increment: progression.increment(),
            ranges,
        }))
    }
}

/// Returns the range of `count` values from `first` on, all within one pass.
fn range_of(first: i64, increment: i64, count: u64) -> ValueRange {
    // The last value lies between the bounds, so the sum is correct even if intermediate results
    // wrap.
    let distance = increment.wrapping_mul((count - 1).cast_signed());
    ValueRange {
        first,
        last: first.wrapping_add(distance),
        count,
    }
}
