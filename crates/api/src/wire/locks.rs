//! Locks.

use serde::{Deserialize, Serialize};

use crate::number_text::{self, flag, lenient};
use crate::request::Request;

requests! {
    /// What is asked of a lock.
    AcquireRequest {
        /// Who asks: a host, pod or service name, 1 to 128 printable ASCII characters.
        owner: String,
        /// How long it is held without a renewal, 100 ms to 24 h; 30 s by default.
        ttl_ms: u64 as "lenient",
        /// How long to wait for it, up to 10 min; not at all by default.
        wait_ms: u64 as "lenient",
        /// The token of a hold that is entered again. Without it the owner is a stranger.
        token: u64 as "number_text::option",
        /// 1 to 64 printable ASCII characters, drawn for this one acquisition: a request that is
        /// repeated with it is the same one, and has the same answer.
        nonce: String,
        /// How many hold the lock at once, 1 to 1024; 1 by default.
        permits: u32 as "lenient",
        /// Together with others that share it, and with nobody else.
        shared: bool as "flag",
        /// For how long nobody is granted the lock if this hold runs out, up to 60 s; 0 by default.
        lock_delay_ms: u64 as "lenient",
    }

    /// A hold that is to last longer.
    RenewLockRequest {
        /// The owner, as in the request for the lock.
        owner: String,
        /// The token that was answered.
        token: u64 as "number_text::option",
        /// How long it is held from now on, 100 ms to 24 h; 30 s by default. It never gets shorter.
        ttl_ms: u64 as "lenient",
    }

    /// A hold that ends.
    ReleaseLockRequest {
        /// The owner, as in the request for the lock.
        owner: String,
        /// The token that was answered.
        token: u64 as "number_text::option",
    }

    /// Whether a token holds a lock.
    VerifyLockRequest {
        /// The owner; any by default.
        owner: String,
        /// The token.
        token: u64 as "number_text::option",
    }

    /// Which locks are wanted.
    LocksQuery {
        /// Only names that begin with this.
        prefix: String,
        /// From this node's own state, without asking the leader.
        stale: bool as "flag",
        /// Items on a page.
        limit: u32 as "lenient",
        /// `next_cursor` of the page before.
        cursor: String,
    }

    /// How a lock is read.
    LockQuery {
        /// From this node's own state, without asking the leader.
        stale: bool as "flag",
        /// With `wait_ms`: answered once the first holder's token is another one, or there is no
        /// holder; 0 stands for none.
        other_than: u64 as "number_text::option",
        /// How long to wait for that, up to 60 s.
        wait_ms: u64 as "lenient",
    }
}

/// A lock that the caller holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLock {
    /// The lock.
    pub name: String,
    /// Who holds it.
    pub owner: String,
    /// Greater than that of every grant before it, of any lock: what the lock protects can refuse
    /// a smaller one than it has seen.
    #[serde(with = "number_text")]
    pub token: u64,
    /// How long it is held yet, by the cluster's clock. Of an acquisition that did not wait, and of a
    /// renewal, count it from when the request was sent.
    pub expires_in_ms: u64,
}

/// A lock that is not held any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedLock {
    /// The lock.
    pub name: String,
    /// The token of the hold that ended.
    #[serde(with = "number_text")]
    pub token: u64,
}

/// One of those that hold a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// Who it is.
    pub owner: String,
    /// Its token.
    #[serde(with = "number_text")]
    pub token: u64,
    /// How long it holds the lock yet.
    pub expires_in_ms: u64,
    /// Whether it shares the lock.
    #[serde(default)]
    pub shared: bool,
}

/// One of those that wait for a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockWaiter {
    /// Who it is.
    pub owner: String,
    /// How long it waits yet.
    pub waits_ms: u64,
    /// Whether it is to share the lock.
    #[serde(default)]
    pub shared: bool,
}

/// One lock. One that nobody uses has neither holders nor waiters: locks are not created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// The name.
    pub name: String,
    /// How many hold it at once; null where nobody uses it.
    pub permits: Option<u32>,
    /// Who holds it, by token; of a list the one whose hold ends first alone.
    pub holders: Vec<LockHolder>,
    /// Who waits, in the order in which they are served: the first hundred; of a list none.
    #[serde(default)]
    pub waiters: Vec<LockWaiter>,
    /// How many hold it.
    pub held: u32,
    /// How many wait.
    pub waiting: u32,
    /// For how long nobody is granted it, behind a hold that ran out; 0 where it is not delayed.
    #[serde(default)]
    pub delayed_ms: u64,
}
