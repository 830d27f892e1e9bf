//! Sequences: definitions, positions, and moving forward.

use std::sync::Arc;
use std::time::Duration;

use seqd_api::{
    AdvanceRequest, Advanced, Deleted, Mode, Page, Segment, Sequence, SequenceSpec, SequencesQuery,
};
use seqd_idgen::Progression;
use seqd_state::{
    Outcome, Refusal, Revision, SegmentSizes, SequenceCommand, SequenceDefinition, SequenceMode,
    SequenceName, SequenceOutcome, SequenceRecord, SequenceRefusal, State, Tenant,
};
use tokio::time::Instant;

use super::confirm::unconfirmed;
use super::differences::{self, Differs};
use super::error::{
    RequestError, SequenceError, ServiceError, on_state, propose, read, sequence_name, unexpected,
};
use super::missing::Advice;
use super::page::PageRequest;
use super::room::Resource;
use crate::config::keys::{LimitsSection, SegmentSection};
use crate::metrics::Metrics;
use crate::replica::{Replica, peek};
use crate::sequences::SegmentBuffers;
use crate::times::millis;

/// The sizes of a sequence of another mode than `segment`, which does not use them.
const NO_SEGMENTS: SegmentSizes = SegmentSizes {
    target_ms: 60_000,
    min: 1000,
    max: 1_000_000,
};

/// A sequence after its creation, and whether this request created it.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) is_new: bool,
    pub(crate) sequence: Sequence,
}

pub(crate) struct SequenceService {
    pub(crate) replica: Arc<dyn Replica>,
    pub(crate) segments: Arc<SegmentBuffers>,
    pub(crate) metrics: Arc<Metrics>,
    /// The sizes that a definition gets if it has none.
    pub(crate) defaults: SegmentSection,
    pub(crate) limits: LimitsSection,
    /// The most values of a request whose response lists each value.
    pub(crate) max_count: u32,
}

impl SequenceService {
    /// The sequences, ordered by name, whose names begin with one of `permitted`. These are sorted,
    /// and none is a prefix of another. The read is linearizable or, with `stale`, returns what
    /// this node has applied.
    pub(crate) async fn list(
        &self,
        query: &SequencesQuery,
        permitted: &[String],
        deadline: Instant,
    ) -> Result<Page<Sequence>, ServiceError> {
        let wanted = PageRequest::read(query.limit, query.cursor.as_deref())?;
        let after = wanted.after.as_deref().map(sequence_name).transpose()?;
        let asked = query.prefix.as_deref().unwrap_or_default();
        if !query.stale.unwrap_or(false) {
            read(&*self.replica, deadline).await?;
        }
        on_state(&*self.replica, |state| {
            let (items, next_cursor) = wanted.permitted(
                (permitted, asked),
                |prefix| {
                    let found = state.sequences(prefix, after.as_ref());
                    found.map(|(name, record)| (name.as_str(), (name, record)))
                },
                |(name, record)| (!record.deleted).then(|| to_api(name, record)),
            );
            Page { items, next_cursor }
        })
    }

    /// Returns a sequence, by a linearizable read or, with `stale`, as this node has applied it.
    pub(crate) async fn get(
        &self,
        name: &SequenceName,
        stale: bool,
        deadline: Instant,
    ) -> Result<Sequence, ServiceError> {
        if !stale {
            read(&*self.replica, deadline).await?;
        }
        let record = on_state(&*self.replica, |state| state.sequence(name).cloned())?;
        let record = record.ok_or_else(|| self.missing(name, Advice::Nearest))?;
        Ok(to_api(name, &record))
    }

    /// The number of sequences, as this node has applied them.
    pub(crate) fn count(&self) -> u64 {
        peek(&*self.replica, |state| state.sequences_held().all().count).unwrap_or(0)
    }

    /// Returns whether this node has applied a sequence with this name.
    pub(crate) fn is_known(&self, name: &SequenceName) -> bool {
        peek(&*self.replica, |state| state.sequence(name).is_some()).unwrap_or(false)
    }

    /// Creates a sequence. An existing sequence with an equal definition is not an error.
    pub(crate) async fn create(
        &self,
        name: &SequenceName,
        spec: SequenceSpec,
        (tenant, deadline): (Tenant, Instant),
    ) -> Result<Created, ServiceError> {
        let command = self.creation(name, spec, (tenant, deadline)).await?;
        let (is_new, revision) = match self.propose(command.clone(), deadline).await {
            Ok(Outcome::Sequences(SequenceOutcome::Created {
                created, revision, ..
            })) => (created, revision),
            Ok(other) => return Err(unexpected(&other)),
            Err(error) => {
                let record = self.equal_to(&command, error, deadline).await?;
                return Ok(Created {
                    is_new: false,
                    sequence: to_api(name, &record),
                });
            }
        };
        let read = self.at_revision(name, revision, deadline).await;
        Ok(Created {
            is_new,
            sequence: read.map_err(|error| SequenceError::CreatedUnread(Box::new(error)))?,
        })
    }

    /// Returns the existing sequence if it differs from the requested one in its description alone,
    /// which people change. Otherwise the error names each field that differs.
    pub(super) async fn equal_to(
        &self,
        command: &SequenceCommand,
        error: ServiceError,
        deadline: Instant,
    ) -> Result<SequenceRecord, ServiceError> {
        let SequenceCommand::Create {
            name, definition, ..
        } = command
        else {
            return Err(error);
        };
        let (record, is_deleted) = match &error {
            ServiceError::Refused(Refusal::Sequences(refusal)) => match refusal {
                SequenceRefusal::SequenceExists { .. } => {
                    (self.current(name, deadline).await?, false)
                }
                SequenceRefusal::DefinitionDiffers { .. } => {
                    let kept = |state: &State| state.sequence_or_deleted(name).cloned();
                    match peek(&*self.replica, kept).flatten() {
                        Some(record) => (record, true),
                        None => return Err(error),
                    }
                }
                _ => return Err(error),
            },
            _ => return Err(error),
        };
        match differing(name, (&record, is_deleted), definition) {
            Some(differs) => Err(ServiceError::Differs(differs)),
            None if is_deleted => Err(error),
            None => Ok(record),
        }
    }

    /// Returns a sequence after a committed change of its definition.
    pub(super) async fn at_revision(
        &self,
        name: &SequenceName,
        revision: Revision,
        deadline: Instant,
    ) -> Result<Sequence, ServiceError> {
        // The change is committed, and a failed read must not turn it into an error, so the local
        // state is read first.
        let known = self.local(name);
        let record = match known.filter(|record| record.revision >= revision) {
            Some(record) => record,
            None => self.current(name, deadline).await?,
        };
        Ok(to_api(name, &record))
    }

    pub(super) async fn creation(
        &self,
        name: &SequenceName,
        spec: SequenceSpec,
        (tenant, deadline): (Tenant, Instant),
    ) -> Result<SequenceCommand, ServiceError> {
        self.check_room(name, tenant)?;
        if spec.start.is_none() {
            self.demand_start(name, deadline).await?;
        }
        Ok(SequenceCommand::Create {
            name: name.clone(),
            definition: self.definition_of(spec)?,
            tenant,
        })
    }

    /// Refuses a sequence that would exceed this node's limits or its tenant's share, if it is new
    /// or is taken over from another tenant, which deleted it.
    fn check_room(&self, name: &SequenceName, tenant: Tenant) -> Result<(), ServiceError> {
        let held = peek(&*self.replica, |state| {
            let known = state.sequence_or_deleted(name);
            let is_charged = |known: &SequenceRecord| !known.deleted || known.tenant == tenant;
            let is_new = !known.is_some_and(is_charged);
            let held = state.sequences_held();
            // The other tenant releases the record.
            let used = held.all().count.saturating_sub(u64::from(known.is_some()));
            let undrained = state.undrained(tenant);
            is_new.then(|| (held.of(tenant).count, used, undrained))
        });
        let Some((held, used, undrained)) = held.flatten() else {
            return Ok(());
        };
        let sequences = Resource {
            note: "; a deleted sequence counts, as its definition and its mark stay",
            ..Resource::new("sequences", "sequences", self.limits.sequences).behind(undrained)
        };
        Ok(sequences.check(self.limits.tenant_share, tenant, (held, used, 1))?)
    }

    /// Requires `start` if the cluster was restored from a backup without this name. The name may
    /// have been used after the backup, and only the caller can determine which values are unused.
    async fn demand_start(
        &self,
        name: &SequenceName,
        deadline: Instant,
    ) -> Result<(), ServiceError> {
        // A founded state records whether it was restored. A joining node may have no founded state
        // yet.
        if peek(&*self.replica, State::is_founded) != Some(true) {
            let read = self.replica.read(deadline).await;
            read.map_err(ServiceError::Propose)?;
        }
        let is_needed = peek(&*self.replica, |state| {
            state.restoration().is_some() && state.sequence_or_deleted(name).is_none()
        });
        if is_needed == Some(true) {
            return Err(SequenceError::StartMissing { name: name.clone() }.into());
        }
        Ok(())
    }

    /// The definition in a request, with this node's defaults for the missing sizes.
    pub(super) fn definition_of(
        &self,
        spec: SequenceSpec,
    ) -> Result<SequenceDefinition, ServiceError> {
        let SequenceSpec {
            mode,
            start,
            increment,
            min,
            max,
            cycle,
            segment,
            description,
        } = spec;
        let cycle = cycle.unwrap_or(false);
        let progression = Progression::with_defaults(start, increment, min, max, cycle)
            .map_err(RequestError::invalid)?;
        let mode = match mode.unwrap_or_default() {
            Mode::Segment => SequenceMode::Segment,
            Mode::Strict => SequenceMode::Strict,
            Mode::Ordered => SequenceMode::Ordered,
        };
        if mode == SequenceMode::Ordered && progression.cycle() {
            let detail = "cycle: the values of an ordered sequence always increase, so it cannot \
                cycle";
            return Err(RequestError::invalid(detail).into());
        }
        let segment = match (mode, segment) {
            (SequenceMode::Segment, given) => self.sizes_of(given.unwrap_or_default())?,
            (_, None) => NO_SEGMENTS,
            (mode, Some(_)) => {
                let detail = format!("segment: {} sequence has no segments", mode.with_article());
                return Err(RequestError::invalid(detail).into());
            }
        };
        Ok(SequenceDefinition {
            mode,
            progression,
            segment,
            description: description.unwrap_or_default(),
        })
    }

    fn sizes_of(&self, spec: seqd_api::SegmentSpec) -> Result<SegmentSizes, ServiceError> {
        let defaults = &self.defaults;
        let target_ms = match spec.target.as_deref() {
            None => millis(defaults.target),
            Some(text) => target_ms(text)?,
        };
        // If only one bound is given, the other bound's default is adjusted to it.
        let (min, max) = match (spec.min, spec.max) {
            (Some(min), Some(max)) => (min, max),
            (Some(min), None) => (min, defaults.max.max(min)),
            (None, Some(max)) => (defaults.min.min(max), max),
            (None, None) => (defaults.min, defaults.max),
        };
        Ok(SegmentSizes {
            target_ms,
            min,
            max,
        })
    }

    /// Deletes a sequence; with `if_revision`, only at that revision.
    pub(crate) async fn delete(
        &self,
        name: &SequenceName,
        if_revision: Option<u64>,
        deadline: Instant,
    ) -> Result<Deleted, ServiceError> {
        let command = SequenceCommand::Delete {
            name: name.clone(),
            if_revision: if_revision.map(Revision),
        };
        let epoch = match self.propose(command, deadline).await? {
            Outcome::Sequences(SequenceOutcome::Deleted { epoch }) => epoch,
            other => return Err(unexpected(&other)),
        };
        self.segments.discard(name, epoch);
        Ok(Deleted {
            name: name.as_str().to_owned(),
            unconfirmed: unconfirmed(&*self.replica, deadline, || true).await,
        })
    }

    pub(crate) async fn advance(
        &self,
        name: &SequenceName,
        request: &AdvanceRequest,
        deadline: Instant,
    ) -> Result<Advanced, ServiceError> {
        let command = SequenceCommand::Advance {
            name: name.clone(),
            to: request.to,
        };
        let done = self.propose(command, deadline).await;
        let (next, next_index, epoch) = match done? {
            Outcome::Sequences(SequenceOutcome::Advanced {
                next,
                next_index,
                epoch,
            }) => (next, next_index, epoch),
            other => return Err(unexpected(&other)),
        };
        self.segments.discard(name, epoch);
        // No other member has a range of a sequence in another mode.
        let may_have_ranges = || {
            let record = self.local(name);
            record.is_none_or(|record| record.definition.mode == SequenceMode::Segment)
        };
        let unconfirmed = unconfirmed(&*self.replica, deadline, may_have_ranges).await;
        let record = self.local(name);
        Ok(Advanced {
            name: name.as_str().to_owned(),
            next: Some(next),
            allocated: Some(next_index),
            remaining: record
                .and_then(|record| record.definition.progression.remaining(next_index)),
            unconfirmed,
        })
    }

    pub(super) async fn propose(
        &self,
        command: SequenceCommand,
        deadline: Instant,
    ) -> Result<Outcome, ServiceError> {
        let advice = Advice::of(&command);
        let proposed = propose(&*self.replica, command, deadline).await;
        proposed.map_err(|error| self.advised(error, advice))
    }

    /// The record as this node has applied it.
    pub(super) fn local(&self, name: &SequenceName) -> Option<SequenceRecord> {
        peek(&*self.replica, |state| state.sequence(name).cloned()).flatten()
    }

    /// Returns the record, by a linearizable read.
    pub(super) async fn current(
        &self,
        name: &SequenceName,
        deadline: Instant,
    ) -> Result<SequenceRecord, ServiceError> {
        read(&*self.replica, deadline).await?;
        self.local(name)
            .ok_or_else(|| self.missing(name, Advice::Create))
    }
}

/// The differences between a record and a requested definition; `None` if they differ at most in
/// their descriptions.
pub(super) fn differing(
    name: &SequenceName,
    (record, is_deleted): (&SequenceRecord, bool),
    definition: &SequenceDefinition,
) -> Option<Differs> {
    let mut asked = record.clone();
    asked.definition = definition.clone();
    let (have, asked) = (to_api(name, record), to_api(name, &asked));
    let mut fields = differences::between(&have, &asked, differences::OF_SEQUENCES);
    if is_deleted || have.mode != asked.mode {
        // A deleted sequence may be created again with other segments. Another mode has other
        // segments, or none.
        fields.retain(|it| !it.field.starts_with("segment"));
    }
    (!fields.is_empty()).then(|| Differs {
        what: "sequence",
        name: name.as_str().to_owned(),
        is_deleted,
        fields,
    })
}

pub(super) fn target_ms(text: &str) -> Result<u64, RequestError> {
    let parsed = humantime::parse_duration(text).map(millis);
    parsed.map_err(|_| {
        let text: String = text.chars().take(80).collect();
        let detail = format!("segment.target: {text:?} is not a duration such as \"1m\"");
        RequestError::Invalid(detail)
    })
}

pub(super) fn mode_of(mode: SequenceMode) -> Mode {
    match mode {
        SequenceMode::Segment => Mode::Segment,
        SequenceMode::Strict => Mode::Strict,
        SequenceMode::Ordered => Mode::Ordered,
    }
}

/// The last granted value of a sequence; before its first one, the value that would precede it.
/// `None` if that is no 64-bit number.
pub(crate) fn last_value(sequence: &Sequence) -> Option<i64> {
    let Some(index) = sequence.allocated.unwrap_or_default().checked_sub(1) else {
        return sequence.start.checked_sub(sequence.increment);
    };
    let Sequence {
        start,
        increment,
        min,
        max,
        cycle,
        ..
    } = *sequence;
    let progression = Progression::new(start, increment, min, max, cycle).ok()?;
    // After a restore the mark may be past the end.
    match cycle {
        true => progression.value_at(index),
        false => progression.value_if_extended(index),
    }
}

pub(super) fn to_api(name: &SequenceName, record: &SequenceRecord) -> Sequence {
    let SequenceDefinition {
        mode,
        progression,
        segment,
        description,
    } = &record.definition;
    let is_segment = *mode == SequenceMode::Segment;
    let target = Duration::from_millis(segment.target_ms);
    Sequence {
        name: name.as_str().to_owned(),
        mode: mode_of(*mode),
        start: progression.start(),
        increment: progression.increment(),
        min: progression.min(),
        max: progression.max(),
        cycle: progression.cycle(),
        segment: is_segment.then(|| Segment {
            target: humantime::format_duration(target).to_string(),
            min: segment.min,
            max: segment.max,
        }),
        description: description.clone(),
        next: record.next_value(),
        allocated: Some(record.next_index),
        remaining: record.remaining(),
        revision: record.revision.0,
    }
}
