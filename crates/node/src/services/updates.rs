//! Changes of a sequence in use, limited to fields that leave the value of each index as it is.

use seqd_api::{SegmentSpec, Sequence, SequenceSpec};
use seqd_state::{
    DefinitionChange, Outcome, Revision, SequenceCommand, SequenceName, SequenceOutcome,
};
use tokio::time::Instant;

use super::error::{RequestError, SequenceError, ServiceError, unexpected};
use super::sequences::{SequenceService, target_ms};

/// The fields that may change, for messages.
const MAY_CHANGE: &str =
    "description, segment, and the limit: max, or min of a descending sequence";

impl SequenceService {
    /// Changes the given fields of a definition; with `if_revision`, only at that revision.
    pub(crate) async fn update(
        &self,
        name: &SequenceName,
        spec: SequenceSpec,
        if_revision: Option<u64>,
        deadline: Instant,
    ) -> Result<Sequence, ServiceError> {
        let command = update(name, spec, if_revision)?;
        let revision = match self.propose(command, deadline).await? {
            Outcome::Sequences(SequenceOutcome::Updated { revision, .. }) => revision,
            other => return Err(unexpected(&other)),
        };
        let read = self.at_revision(name, revision, deadline).await;
        Ok(read.map_err(|error| SequenceError::ChangedUnread(Box::new(error)))?)
    }
}

/// The command of a request. A field that cannot change is refused by its name.
pub(super) fn update(
    name: &SequenceName,
    spec: SequenceSpec,
    if_revision: Option<u64>,
) -> Result<SequenceCommand, RequestError> {
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
    let fixed = [
        ("mode", mode.is_some()),
        ("start", start.is_some()),
        ("increment", increment.is_some()),
        ("cycle", cycle.is_some()),
    ];
    if let Some((field, _)) = fixed.iter().find(|(_, is_given)| *is_given) {
        let detail = format!("{field}: it cannot be changed; only these can: {MAY_CHANGE}");
        return Err(RequestError::Invalid(detail));
    }
    let SegmentSpec {
        target,
        min: segment_min,
        max: segment_max,
    } = segment.unwrap_or_default();
    let change = DefinitionChange {
        max,
        min,
        target_ms: target.as_deref().map(target_ms).transpose()?,
        segment_min,
        segment_max,
        description,
    };
    if change == DefinitionChange::default() {
        let detail = format!("no change is given; these can be changed: {MAY_CHANGE}");
        return Err(RequestError::Invalid(detail));
    }
    Ok(SequenceCommand::Update {
        name: name.clone(),
        change,
        if_revision: if_revision.map(Revision),
    })
}
