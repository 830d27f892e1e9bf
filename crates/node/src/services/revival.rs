//! Creation of sequences for protocols whose clients name a first value, but no definition.

use seqd_api::SequenceSpec;
use seqd_state::{
    Outcome, Refusal, SequenceCommand, SequenceName, SequenceOutcome, SequenceRefusal, Tenant,
};
use tokio::time::Instant;

use super::error::{ServiceError, on_state, read, unexpected};
use super::missing::Advice;
use super::sequences::{Created, SequenceService};

impl SequenceService {
    /// Creates a sequence. If a deleted sequence of this name had another definition, creates it
    /// again with that definition. It then continues at its high-water mark, not at the first value
    /// in `spec`.
    pub(crate) async fn create_or_revive(
        &self,
        name: &SequenceName,
        spec: SequenceSpec,
        by: (Tenant, Instant),
    ) -> Result<Created, ServiceError> {
        match self.create(name, spec, by).await {
            Err(error) if is_of_deleted(&error) => self.revive(name, by).await,
            created => created,
        }
    }

    async fn revive(
        &self,
        name: &SequenceName,
        (tenant, deadline): (Tenant, Instant),
    ) -> Result<Created, ServiceError> {
        read(&*self.replica, deadline).await?;
        let kept = on_state(&*self.replica, |state| {
            state.sequence_or_deleted(name).cloned()
        })?;
        let kept = kept.ok_or_else(|| self.missing(name, Advice::Create))?;
        let command = SequenceCommand::Create {
            name: name.clone(),
            definition: kept.definition,
            tenant,
        };
        match self.propose(command, deadline).await? {
            Outcome::Sequences(SequenceOutcome::Created {
                created, revision, ..
            }) => Ok(Created {
                is_new: created,
                sequence: self.at_revision(name, revision, deadline).await?,
            }),
            other => Err(unexpected(&other)),
        }
    }
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
