//! The waits of requests. Each domain whose requests wait at a node registers its waits here, so
//! that the consensus layer can wake the requests and needs no code for any domain.

use crate::locks::names::{LockName, Nonce};

/// The reason why a request waits at its node. An applied entry ends the wait.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// The claim of a lock, until the lock is granted or the claim expires.
    Lock { name: LockName, nonce: Nonce },
    /// The first holder of a lock, until the lock has another one or none.
    Holder { name: LockName },
}
