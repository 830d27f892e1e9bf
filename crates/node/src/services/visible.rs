//! Counts the objects that a caller may see.

use seqd_state::State;

use super::Services;
use crate::access::Caller;
use crate::replica::peek;

/// The most objects of each kind that are counted by name, deleted and expired ones included. A
/// scan takes a few milliseconds, during which `apply` waits.
const MOST_COUNTED: usize = 10_000;

/// The numbers of sequences and of locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sequences: u64,
    pub(crate) locks: u64,
}

impl Services {
    /// The objects that a caller may see, as this node has applied them. A caller that may not see
    /// everything gets at most [`MOST_COUNTED`] of each kind.
    pub(crate) fn counts(&self, caller: Caller) -> Counts {
        let prefixes = self.callers.prefixes(caller);
        if prefixes == [""] {
            return Counts {
                sequences: self.sequences.count(),
                locks: self.locks.count(),
            };
        }
        let counted = peek(&*self.sequences.replica, |state| under(state, &prefixes));
        counted.unwrap_or_default()
    }
}

/// The objects whose names begin with one of these prefixes.
fn under(state: &State, prefixes: &[String]) -> Counts {
    let sequences = prefixes.iter().flat_map(|own| state.sequences(own, None));
    let sequences = sequences.take(MOST_COUNTED);
    let locks = prefixes.iter().flat_map(|own| state.locks(own, None));
    let locks = locks.take(MOST_COUNTED);
    Counts {
        sequences: sequences.filter(|(_, record)| !record.deleted).count() as u64,
        locks: locks.filter(|lock| lock.is_in_use()).count() as u64,
    }
}
