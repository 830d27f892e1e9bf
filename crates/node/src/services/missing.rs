//! The error of a missing sequence: the nearest existing name, and whether the caller may still
//! have to create the sequence.

use seqd_api::nearest;
use seqd_state::{SequenceName, State};

use super::error::{SequenceError, ServiceError};
use super::sequences::SequenceService;
use crate::replica::peek;

/// The most names that a missing name is compared with, in each of two passes. A comparison takes a
/// microsecond, and any client can request missing names.
const NEAR_AMONG: usize = 500;

impl SequenceService {
    /// The error for a missing name; `for_use` if values of it were requested.
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

/// Candidates for the nearest name: names that begin with the same letter, and the first names of
/// all, for a typing error in the first letter.
fn near_names(state: &State, name: &str) -> Vec<String> {
    let first = name.get(..1).unwrap_or_default();
    let alike = state.sequences(first, None, NEAR_AMONG);
    let any = state.sequences("", None, NEAR_AMONG);
    let found = alike.into_iter().chain(any);
    found.map(|(name, _)| name.as_str().to_owned()).collect()
}
