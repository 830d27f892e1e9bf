//! The waits of requests: each domain whose requests wait at a node registers its waits here, so that
//! consensus wakes the requests without knowing any domain.

use crate::locks::names::{LockName, Nonce};

/// What a request waits for at its node. An entry ends it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// The claim of a lock: it is granted, or its time runs out.
    Lock { name: LockName, nonce: Nonce },
}
