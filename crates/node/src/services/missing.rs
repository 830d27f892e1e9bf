//! A sequence that there is not: the nearest name that there is, and whether it may be meant to be
//! made.

use seqd_api::nearest;
use seqd_state::{SequenceName, State};

use super::error::{SequenceError, ServiceError};
use super::sequences::SequenceService;
use crate::replica::peek;

/// The most names that one that is missing is compared with, twice: a name costs a microsecond, and
/// anybody can ask for names that there are not.
const NEAR_AMONG: usize = 500;

impl SequenceService {
    /// The error about a name; `for_use` where values of it were asked for.
    pub(super) fn missing(&self, name: &SequenceName, for_use: bool) -> ServiceError {
        let near = peek(&*self.replica, |state| near_names(state, name.as_str()));
        let near = near.unwrap_or_default();
        let near: Vec<&str> = near.iter().map(String::as_str).collect();
        let error = SequenceError::NotFound {
            name: name.clone(),
            near: nearest(name.as_str(), &near).map(str::to_owned),
            for_use,
        };
        error.into()
    }
}

/// Names among which the nearest is looked for: those that begin with the same letter, and the first
/// of all for a slip at the first letter.
fn near_names(state: &State, name: &str) -> Vec<String> {
    let first = name.get(..1).unwrap_or_default();
    let alike = state.sequences(first, None, NEAR_AMONG);
    let any = state.sequences("", None, NEAR_AMONG);
    let found = alike.into_iter().chain(any);
    found.map(|(name, _)| name.as_str().to_owned()).collect()
}
