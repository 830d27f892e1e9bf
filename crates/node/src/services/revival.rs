//! Creation of sequences for protocols whose clients name a first value, but no definition.

use seqd_api::SequenceSpec;
use seqd_state::{
    Command, Outcome, Refusal, SequenceCommand, SequenceName, SequenceOutcome, SequenceRecord,
    SequenceRefusal, Tenant,
};
use tokio::time::Instant;

use super::error::{ServiceError, on_state, read, unexpected};
use super::missing::Advice;
use super::sequences::{Created, SequenceService};

impl SequenceService {
    /// Creates a sequence. If a deleted sequence of this name had another definition, creates it
    /// again with that definition. It then continues at its high-water mark, not at the first value
    /// in `spec`, but at `least` or above.
    pub(crate) async fn create_or_revive(
        &self,
        name: &SequenceName,
        (spec, least): (SequenceSpec, Option<i64>),
        by: (Tenant, Instant),
    ) -> Result<Created, ServiceError> {
        match self.create(name, spec, by).await {
            Err(error) if is_of_deleted(&error) => self.revive(name, least, by).await,
            created => created,
        }
    }

    async fn revive(
        &self,
        name: &SequenceName,
        least: Option<i64>,
        (tenant, deadline): (Tenant, Instant),
    ) -> Result<Created, ServiceError> {
        read(&*self.replica, deadline).await?;
        let kept = on_state(&*self.replica, |state| {
            state.sequence_or_deleted(name).cloned()
        })?;
        let kept = kept.ok_or_else(|| self.missing(name, Advice::Create))?;
        let next = kept.next_value();
        let to = least.filter(|least| next.is_some_and(|next| next < *least));
        if let Some(refusal) = to.and_then(|to| why_not_at(&kept, name, to)) {
            return Err(ServiceError::Refused(refusal.into()));
        }
        let mut commands = vec![SequenceCommand::Create {
            name: name.clone(),
            definition: kept.definition,
            tenant,
        }];
        // In the same entry, because a value below it could be taken otherwise.
        if let Some(to) = to {
            let name = name.clone();
            commands.push(SequenceCommand::Advance { name, to });
        }
        let commands = commands.into_iter().map(Command::Sequences).collect();
        let outcomes = self.replica.propose(commands, deadline).await;
        let outcomes = outcomes.map_err(ServiceError::Propose)?;
        let refused = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Refused(refusal) => Some(refusal.clone()),
            _ => None,
        });
        if let Some(refusal) = refused {
            return Err(ServiceError::Refused(refusal));
        }
        match outcomes.first() {
            Some(Outcome::Sequences(SequenceOutcome::Created {
                created, revision, ..
            })) => Ok(Created {
                is_new: *created,
                sequence: self.at_revision(name, *revision, deadline).await?,
            }),
            other => Err(unexpected(&other)),
        }
    }
}

/// The reason why a deleted sequence, whose next value is below `to`, cannot continue there. It is
/// checked before the sequence is created, because a refused advance would leave the created
/// sequence below `to`.
fn why_not_at(kept: &SequenceRecord, name: &SequenceName, to: i64) -> Option<SequenceRefusal> {
    let (progression, name) = (&kept.definition.progression, name.clone());
    if progression.cycle() {
        return Some(SequenceRefusal::CannotAdvanceCycling { name });
    }
    if progression.increment() < 0 {
        let next = kept.next_value();
        return Some(SequenceRefusal::WouldGoBackwards { name, to, next });
    }
    let index = progression.first_index_at_or_beyond(to, kept.next_index);
    let (min, max) = (progression.min(), progression.max());
    index
        .is_none()
        .then_some(SequenceRefusal::AdvanceOutOfRange { name, to, min, max })
}

/// Returns whether a sequence was not created because a deleted one of its name has another
/// definition.
fn is_of_deleted(error: &ServiceError) -> bool {
    match error {
        ServiceError::Differs(differs) => differs.is_deleted,
        ServiceError::Refused(Refusal::Sequences(SequenceRefusal::DefinitionDiffers {
            ..
        })) => true,
        _ => false,
    }
}
