//! Plans of changes of a sequence: the state's own check of the same command, without its effect.

use seqd_api::{AdvanceRequest, Plan, Sequence, SequenceSpec};
use seqd_state::{
    Command, Outcome, Revision, SequenceCommand, SequenceName, SequenceOutcome, SequenceRecord,
    SequenceRefusal, State, Tenant,
};
use tokio::time::Instant;

use super::error::{SequenceError, ServiceError, on_state, read, try_out, unexpected};
use super::missing::Advice;
use super::sequences::{SequenceService, differing, to_api};
use super::updates::update;

impl SequenceService {
    pub(crate) async fn plan_create(
        &self,
        name: &SequenceName,
        spec: SequenceSpec,
        only_new: bool,
        (tenant, deadline): (Tenant, Instant),
    ) -> Result<Plan, ServiceError> {
        let command = self.creation(name, spec, (tenant, deadline)).await?;
        let (outcome, plan) = match self.plan(&command, deadline).await {
            Ok(planned) => planned,
            Err(error) => {
                let record = self.equal_to(&command, error, deadline).await?;
                if only_new {
                    return Err(SequenceError::Exists { name: name.clone() }.into());
                }
                return Ok(plan_of_equal(to_api(name, &record)));
            }
        };
        let is_there = matches!(outcome, SequenceOutcome::Created { created: false, .. });
        if only_new && is_there {
            return Err(SequenceError::Exists { name: name.clone() }.into());
        }
        Ok(plan)
    }

    /// Returns an existing sequence with this definition and, if it is given, this revision. A PUT
    /// with `If-Match` creates nothing, so it has no effect that a dry run would omit.
    pub(crate) async fn confirm(
        &self,
        name: &SequenceName,
        spec: SequenceSpec,
        if_revision: Option<u64>,
        deadline: Instant,
    ) -> Result<Sequence, ServiceError> {
        let definition = self.definition_of(spec)?;
        let command = Command::from(SequenceCommand::Create {
            name: name.clone(),
            definition: definition.clone(),
            tenant: Tenant::OPERATOR,
        });
        command.check().map_err(ServiceError::Refused)?;
        read(&*self.replica, deadline).await?;
        let found = on_state(&*self.replica, |state| state.sequence(name).cloned())?;
        let missing = || SequenceError::NothingToMatch { name: name.clone() };
        let record = found.ok_or_else(missing)?;
        let other = if_revision
            .map(Revision)
            .filter(|it| *it != record.revision);
        if let Some(expected) = other {
            let refusal = SequenceRefusal::RevisionMismatch {
                name: name.clone(),
                expected,
                actual: record.revision,
            };
            return Err(ServiceError::Refused(refusal.into()));
        }
        match differing(name, (&record, false), &definition) {
            Some(differs) => Err(ServiceError::Differs(differs)),
            None => Ok(to_api(name, &record)),
        }
    }

    pub(crate) async fn plan_delete(
        &self,
        name: &SequenceName,
        if_revision: Option<u64>,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        let command = SequenceCommand::Delete {
            name: name.clone(),
            if_revision: if_revision.map(Revision),
        };
        Ok(self.plan(&command, deadline).await?.1)
    }

    pub(crate) async fn plan_advance(
        &self,
        name: &SequenceName,
        request: &AdvanceRequest,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        let command = SequenceCommand::Advance {
            name: name.clone(),
            to: request.to,
        };
        Ok(self.plan(&command, deadline).await?.1)
    }

    pub(crate) async fn plan_update(
        &self,
        name: &SequenceName,
        spec: SequenceSpec,
        if_revision: Option<u64>,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        let command = update(name, spec, if_revision)?;
        Ok(self.plan(&command, deadline).await?.1)
    }

    /// The outcome that a command would have, by a linearizable read and without its effect.
    async fn plan(
        &self,
        command: &SequenceCommand,
        deadline: Instant,
    ) -> Result<(SequenceOutcome, Plan), ServiceError> {
        let name = command.name();
        let check = |state: &State| match state.try_out(command) {
            (Outcome::Refused(refusal), _) => Err(refusal),
            (outcome, after) => Ok((state.sequence(name).cloned(), outcome, after)),
        };
        let tried = try_out(&*self.replica, deadline, check).await;
        let advised = |error| self.advised(error, Advice::of(command));
        let (before, outcome, after) = tried.map_err(advised)?;
        let Outcome::Sequences(outcome) = outcome else {
            return Err(unexpected(&outcome));
        };
        let next = |record: &Option<SequenceRecord>| {
            let next = record.as_ref().and_then(SequenceRecord::next_value);
            next.map_or_else(|| "none".to_owned(), |next| next.to_string())
        };
        let (name, was, will_be) = (name.as_str(), next(&before), next(&after));
        let effect = match &outcome {
            SequenceOutcome::Created { created: true, .. } => {
                format!("creates the sequence {name}; its next value is {will_be}")
            }
            SequenceOutcome::Created { .. } => {
                format!("nothing: {name} already exists with the same definition")
            }
            SequenceOutcome::Updated { changed: true, .. } => {
                format!("changes the definition of {name}; its next value stays {will_be}")
            }
            SequenceOutcome::Updated { .. } => {
                format!("nothing: {name} already has this definition")
            }
            SequenceOutcome::Deleted { .. } => format!(
                "deletes the sequence {name} (next value {was}); its definition and high-water \
                 mark are kept, so a sequence with the same name continues above the mark"
            ),
            SequenceOutcome::Advanced { .. } => {
                format!("moves {name} forward: the next value becomes {will_be}; it was {was}")
            }
            other => return Err(unexpected(&other)),
        };
        let after = after.filter(|record| !record.deleted);
        let sequence = after.map(|record| to_api(command.name(), &record));
        Ok((outcome, Plan::new(effect, sequence)))
    }
}

/// The plan of a PUT of a sequence that exists with the same definition.
pub(crate) fn plan_of_equal(sequence: Sequence) -> Plan {
    let name = &sequence.name;
    let effect = format!("nothing: {name} already exists with the same definition");
    Plan::new(effect, Some(sequence))
}
