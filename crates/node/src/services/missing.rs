//! The error for a missing sequence, with the nearest existing name and advice.

use seqd_api::{Mode, SequenceSpec, nearest};
use seqd_state::{
    Refusal, SequenceCommand, SequenceDefinition, SequenceName, SequenceRefusal, State,
};

use super::error::{SequenceError, ServiceError};
use super::sequences::{SequenceService, mode_of};
use crate::replica::peek;

/// The most names that a missing name is compared with, in each of two passes. A comparison takes a
/// microsecond, and any client can request missing names.
const NEAR_AMONG: usize = 500;

/// The advice for a request that names a missing sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Advice {
    /// The nearest name, and how to create the sequence.
    Create,
    /// The nearest name.
    Nearest,
    /// None, because a hint must not lead to the deletion or the advance of another sequence.
    Nothing,
}

impl Advice {
    pub(super) fn of(command: &SequenceCommand) -> Self {
        match command {
            SequenceCommand::Delete { .. } | SequenceCommand::Advance { .. } => Self::Nothing,
            SequenceCommand::Update { .. } => Self::Nearest,
            SequenceCommand::Create { .. }
            | SequenceCommand::GrantSegment { .. }
            | SequenceCommand::ReturnTail { .. }
            | SequenceCommand::GrantWindow { .. }
            | SequenceCommand::ReturnWindow { .. }
            | SequenceCommand::Next(_) => Self::Create,
        }
    }
}

impl SequenceService {
    /// The error for a missing name.
    pub(super) fn missing(&self, name: &SequenceName, advice: Advice) -> ServiceError {
        let near = match advice {
            Advice::Nothing => None,
            _ => peek(&*self.replica, |state| near_names(state, name.as_str())),
        };
        let near = near.unwrap_or_default();
        let near: Vec<&str> = near.iter().map(String::as_str).collect();
        let former = match advice {
            Advice::Create => peek(&*self.replica, |state| former(state, name)).flatten(),
            Advice::Nearest | Advice::Nothing => None,
        };
        let error = SequenceError::NotFound {
            name: name.clone(),
            former: former.map(Box::new),
            near: nearest(name.as_str(), &near).map(str::to_owned),
            for_use: advice == Advice::Create,
        };
        error.into()
    }

    /// Replaces the state's refusal of a sequence that does not exist.
    pub(super) fn advised(&self, error: ServiceError, advice: Advice) -> ServiceError {
        match error {
            ServiceError::Refused(Refusal::Sequences(SequenceRefusal::SequenceNotFound {
                name,
            })) => self.missing(&name, advice),
            error => error,
        }
    }
}

/// Candidates for the nearest name: names that begin with the same letter, and the first names of
/// all, for a typing error in the first letter.
fn near_names(state: &State, name: &str) -> Vec<String> {
    let first = name.get(..1).unwrap_or_default();
    let alike = state.sequences(first, None).take(NEAR_AMONG);
    let any = state.sequences("", None).take(NEAR_AMONG);
    let found = alike.chain(any).filter(|(_, record)| !record.deleted);
    found.map(|(name, _)| name.as_str().to_owned()).collect()
}

/// The definition of a deleted sequence of this name, which must be created again with the same
/// one.
fn former(state: &State, name: &SequenceName) -> Option<SequenceSpec> {
    let record = state.sequence_or_deleted(name)?;
    record.deleted.then(|| shortest(&record.definition))
}

/// The shortest request that has this definition, except for the segments: a deleted sequence may
/// be created again with others.
fn shortest(definition: &SequenceDefinition) -> SequenceSpec {
    let SequenceDefinition {
        mode, progression, ..
    } = definition;
    let (start, increment) = (progression.start(), progression.increment());
    let (min, max) = (progression.min(), progression.max());
    let mode = mode_of(*mode);
    let is_descending = increment < 0;
    let (min_by_default, max_by_default) = match is_descending {
        true => (i64::MIN, -1),
        false => (1, i64::MAX),
    };
    let start_by_default = if is_descending { max } else { min };
    SequenceSpec {
        mode: (mode != Mode::default()).then_some(mode),
        start: (start != start_by_default).then_some(start),
        increment: (increment != 1).then_some(increment),
        min: (min != min_by_default).then_some(min),
        max: (max != max_by_default).then_some(max),
        cycle: progression.cycle().then_some(true),
        ..SequenceSpec::default()
    }
}
