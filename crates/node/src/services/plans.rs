//! What a change of a sequence would do: the state's own check of the same command, without its
//! effect.

use seqd_api::{AdvanceRequest, Plan, SequenceSpec};
use seqd_state::{Outcome, Revision, SequenceCommand, SequenceName, SequenceOutcome, Tenant};
use tokio::time::Instant;

use super::sequences::{SequenceError, SequenceService, to_api, unexpected};
use super::updates::update;
use crate::replica::peek;

impl SequenceService {
    pub(crate) async fn plan_create(
        &self,
        name: &SequenceName,
        spec: SequenceSpec,
        only_new: bool,
        (tenant, deadline): (Tenant, Instant),
    ) -> Result<Plan, SequenceError> {
        let command = self.creation(name, spec, (tenant, deadline)).await?;
        let (outcome, plan) = self.plan(&command, deadline).await?;
        let is_there = matches!(outcome, SequenceOutcome::Created { created: false, .. });
        if only_new && is_there {
            return Err(SequenceError::Exists { name: name.clone() });
        }
        Ok(plan)
    }

    pub(crate) async fn plan_delete(
        &self,
        name: &SequenceName,
        if_revision: Option<u64>,
        deadline: Instant,
    ) -> Result<Plan, SequenceError> {
        let command = SequenceCommand::Delete {
            name: name.clone(),
            if_revision: if_revision.map(Revision),
        };
        let planned = self.plan(&command, deadline).await;
        let (_, plan) = planned.map_err(|error| self.undeleted(error))?;
        Ok(plan)
    }

    pub(crate) async fn plan_advance(
        &self,
        name: &SequenceName,
        request: &AdvanceRequest,
        deadline: Instant,
    ) -> Result<Plan, SequenceError> {
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
    ) -> Result<Plan, SequenceError> {
        let command = update(name, spec, if_revision)?;
        let planned = self.plan(&command, deadline).await;
        let (_, plan) = planned.map_err(|error| self.undeleted(error))?;
        Ok(plan)
    }

    /// The outcome of a command after all that was acknowledged before, without its effect.
    async fn plan(
        &self,
        command: &SequenceCommand,
        deadline: Instant,
    ) -> Result<(SequenceOutcome, Plan), SequenceError> {
        let read = self.replica.read(deadline).await;
        read.map_err(SequenceError::Unread)?;
        let name = command.name();
        let before = self.local(name);
        let tried = peek(&*self.replica, |state| state.try_out(command));
        let (outcome, after) = match tried {
            Some((Outcome::Sequences(outcome), after)) => (outcome, after),
            Some((Outcome::Refused(refusal), _)) => return Err(self.refused(refusal)),
            Some((other, _)) => return Err(unexpected(&other)),
            None => return Err(SequenceError::UnexpectedOutcome("none".to_owned())),
        };
        let shown =
            |next: Option<i64>| next.map_or_else(|| "none".to_owned(), |next| next.to_string());
        let next = |record: &Option<seqd_state::SequenceRecord>| {
            shown(
                record
                    .as_ref()
                    .and_then(seqd_state::SequenceRecord::next_value),
            )
        };
        let (name, was, will_be) = (name.as_str(), next(&before), next(&after));
        let effect = match &outcome {
            SequenceOutcome::Created { created: true, .. } => {
                format!("creates the sequence {name}; its next value is {will_be}")
            }
            SequenceOutcome::Created { .. } => {
                format!("nothing: {name} is there already, with the same definition")
            }
            SequenceOutcome::Updated { changed: true, .. } => {
                format!("changes the definition of {name}; its next value stays {will_be}")
            }
            SequenceOutcome::Updated { .. } => {
                format!("nothing: {name} is defined so already")
            }
            SequenceOutcome::Deleted { .. } => format!(
                "deletes the sequence {name} (next value {was}); its definition and mark are kept, so the same \
                 name goes on above the mark"
            ),
            SequenceOutcome::Advanced { .. } => {
                format!("moves {name} forward: the next value is {will_be}, it was {was}")
            }
            other => return Err(SequenceError::UnexpectedOutcome(format!("{other:?}"))),
        };
        let after = after.filter(|record| !record.deleted);
        let sequence = after.map(|record| to_api(command.name(), &record));
        Ok((outcome, Plan::new(effect, sequence)))
    }
}
