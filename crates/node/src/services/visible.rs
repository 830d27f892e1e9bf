//! Counts the objects that a caller may see.

use seqd_state::State;

use super::Services;
use crate::access::Caller;
use crate::replica::peek;

/// The most objects of each kind that are counted by name. A scan takes a few milliseconds, during
/// which `apply` waits.
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
    let (mut sequences, mut locks) = (0, 0);
    for prefix in prefixes {
        sequences += state
            .sequences(prefix, None, MOST_COUNTED - sequences)
            .len();
        locks += state.locks(prefix, None).take(MOST_COUNTED - locks).count();
    }
    Counts {
        sequences: sequences as u64,
        locks: locks as u64,
    }
}
