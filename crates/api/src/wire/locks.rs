//! Locks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::{Decimal, Flag, Lenient, OptionalDecimal};

requests! {
    /// What is asked of a lock.
    AcquireRequest {
        /// Who asks: a host, pod or service name, 1 to 128 printable ASCII characters.
        owner: String,
        /// How long it is held without a renewal, 100 ms to 24 h; 30 s by default.
        ttl_ms: u64 as "Lenient",
        /// How long to wait for it, up to 10 min; not at all by default.
        wait_ms: u64 as "Lenient",
        /// The lease of a hold that is entered again: the longer time applies. Without it a request
        /// waits like any other, whatever its owner.
        lease: String,
        /// 1 to 64 printable ASCII characters, drawn at random for this one acquisition: a request
        /// that is repeated with it has the same answer. Keep it secret: with the owner it returns
        /// the lease.
        nonce: String,
        /// How many hold the lock at once, 1 to 1024; 1 by default.
        permits: u32 as "Lenient",
        /// Together with others that share it, and with nobody else.
        shared: bool as "Flag",
        /// For how long nobody is granted the lock if this hold runs out, up to 60 s; 0 by default.
        lock_delay_ms: u64 as "Lenient",
    }

    /// A hold that is to last longer.
    RenewLockRequest {
        /// The lease, from the response to acquire.
        lease: String,
        /// How long it is held from now on, 100 ms to 24 h; 30 s by default. It never gets shorter.
        ttl_ms: u64 as "Lenient",
    }

    /// A hold that ends.
    ReleaseLockRequest {
        /// The lease, from the response to acquire.
        lease: String,
    }

    /// Holds that an operator ends.
    BreakLockRequest {
        /// The token of the one hold that ends; all holds without it.
        token: u64 as "OptionalDecimal",
    }

    /// Whether a token holds a lock.
    VerifyLockRequest {
        /// The owner; any by default.
        owner: String,
        /// The token.
        token: u64 as "OptionalDecimal",
    }

    /// Which locks are wanted.
    LocksQuery {
        /// Only names that begin with this.
        prefix: String,
        /// From this node's own state, without asking the leader.
        stale: bool as "Flag",
        /// Items on a page.
        limit: u32 as "Lenient",
        /// `next_cursor` of the page before.
        cursor: String,
    }

    /// How a lock is read.
    LockQuery {
        /// From this node's own state, without asking the leader.
        stale: bool as "Flag",
        /// With `wait_ms`: answered once the first holder's token is another one, or there is no
        /// holder; 0 stands for none.
        other_than: u64 as "OptionalDecimal",
        /// How long to wait for that, up to 60 s.
        wait_ms: u64 as "Lenient",
    }
}

/// A lock that the caller holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldLock {
    /// The lock.
    pub name: String,
    /// Who holds it.
    pub owner: String,
    /// Greater than that of every grant before it, of any lock: what the lock protects can refuse
    /// a smaller one than it has seen.
    #[serde(with = "Decimal")]
    pub token: u64,
    /// The secret that renews, releases and re-enters the hold; in the response to acquire alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// How long it is held at least, by the cluster's clock. Count it from when the request was
    /// sent; after a wait from when the response was received, less the time that it took to arrive.
    pub expires_in_ms: u64,
}

/// A hold that an operator ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenHold {
    /// The owner.
    pub owner: String,
    /// The token.
    #[serde(with = "Decimal")]
    pub token: u64,
}

/// What an operator ended of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenLock {
    /// The lock.
    pub name: String,
    /// How many holds ended; 0 where a delay ended alone.
    pub ended: u32,
    /// The first hundred of them, by token.
    pub holders: Vec<BrokenHold>,
}

/// A lock that is not held any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleasedLock {
    /// The lock.
    pub name: String,
    /// The token of the hold that ended.
    #[serde(with = "Decimal")]
    pub token: u64,
}

/// One of those that hold a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockHolder {
    /// Who it is.
    pub owner: String,
    /// Its token.
    #[serde(with = "Decimal")]
    pub token: u64,
    /// How long it holds the lock yet.
    pub expires_in_ms: u64,
    /// Whether it shares the lock.
    #[serde(default)]
    pub shared: bool,
}

/// One of those that wait for a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
