//! Locks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::{Decimal, Flag, Lenient, OptionalDecimal};

requests! {
    /// The terms of an acquisition.
    AcquireRequest {
        /// The caller: a host, pod or service name of 1 to 128 printable ASCII characters.
        owner: String,
        /// The duration of the hold without a renewal, in milliseconds: 100 to 86400000, 30000 by
        /// default.
        ttl_ms: u64 as "Lenient",
        /// The longest wait in milliseconds: up to 600000, 0 by default.
        wait_ms: u64 as "Lenient",
        /// The lease of the hold to re-enter. The hold then ends at the later of the two deadlines.
        /// A request without a lease waits, even if its owner holds the lock.
        lease: String,
        /// 1 to 64 random printable ASCII characters for this acquisition. A retry with the same
        /// nonce receives the same response. Keep it secret: with the owner, it returns the lease.
        nonce: String,
        /// The number of simultaneous holders: 1 to 1024, 1 by default.
        permits: u32 as "Lenient",
        /// If true, the hold is shared with other shared holds.
        shared: bool as "Flag",
        /// The delay in milliseconds after this hold expires, during which the lock is not granted:
        /// up to 60000, 0 by default.
        lock_delay_ms: u64 as "Lenient",
    }

    /// An extension of a hold.
    RenewLockRequest {
        /// The lease, from the response to acquire.
        lease: String,
        /// The duration of the hold from now on, in milliseconds: 100 to 86400000, 30000 by
        /// default. A renewal never shortens a hold.
        ttl_ms: u64 as "Lenient",
    }

    /// The release of a hold.
    ReleaseLockRequest {
        /// The lease, from the response to acquire.
        lease: String,
    }

    /// The holds that an operator ends.
    BreakLockRequest {
        /// The token of one hold. Without it, all holds of the lock end.
        token: u64 as "OptionalDecimal",
    }

    /// The token that is verified.
    VerifyLockRequest {
        /// The owner. Any owner by default.
        owner: String,
        /// The token.
        token: u64 as "OptionalDecimal",
    }

    /// A selection of locks.
    LocksQuery {
        /// Only names with this prefix.
        prefix: String,
        /// If true, the node responds from its own state, which may be outdated, without contacting
        /// the leader.
        stale: bool as "Flag",
        /// Items on a page: 1 to 1000, 100 by default.
        limit: u32 as "Lenient",
        /// The `next_cursor` of the previous page.
        cursor: String,
    }

    /// Options of a read.
    LockQuery {
        /// If true, the node responds from its own state, which may be outdated, without contacting
        /// the leader.
        stale: bool as "Flag",
        /// A fencing token, or 0 for no holder. With `wait_ms`, the response is sent when the first
        /// holder's token differs from it.
        other_than: u64 as "OptionalDecimal",
        /// The longest wait for this change in milliseconds, up to 60000.
        wait_ms: u64 as "Lenient",
    }
}

/// A lock that the caller holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldLock {
    /// The lock.
    pub name: String,
    /// The owner of the hold.
    pub owner: String,
    /// The fencing token, greater than that of every earlier grant of any lock. The protected
    /// resource must reject a token that is smaller than one it has already received.
    #[serde(with = "Decimal")]
    pub token: u64,
    /// The secret that renews, releases and re-enters the hold. Only the response to acquire
    /// contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// The minimum remaining time of the hold in milliseconds, by the cluster's clock. Count it
    /// from the time at which the request was sent. After a wait, count it from the arrival of the
    /// response, less its transit time.
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

/// The holds that an operator ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenLock {
    /// The lock.
    pub name: String,
    /// The number of holds that ended. 0 if only a lock delay ended.
    pub ended: u32,
    /// The first hundred of the ended holds, by token.
    pub holders: Vec<BrokenHold>,
}

/// A released lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleasedLock {
    /// The lock.
    pub name: String,
    /// The token of the hold that ended.
    #[serde(with = "Decimal")]
    pub token: u64,
}

/// A holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockHolder {
    /// The owner.
    pub owner: String,
    /// Its token.
    #[serde(with = "Decimal")]
    pub token: u64,
    /// The remaining time of the hold, in milliseconds.
    pub expires_in_ms: u64,
    /// True if the hold is shared.
    #[serde(default)]
    pub shared: bool,
}

/// A waiter of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockWaiter {
    /// The owner.
    pub owner: String,
    /// The remaining time of the wait, in milliseconds.
    pub waits_ms: u64,
    /// True if the hold will be shared.
    #[serde(default)]
    pub shared: bool,
}

/// One lock. Locks are not created: an unused lock has neither holders nor waiters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lock {
    /// The name.
    pub name: String,
    /// The number of simultaneous holders. Null if the lock is unused.
    pub permits: Option<u32>,
    /// The holders, by token. In a list, only the holder whose hold ends first.
    pub holders: Vec<LockHolder>,
    /// The first hundred waiters, in the order of service. Empty in a list.
    #[serde(default)]
    pub waiters: Vec<LockWaiter>,
    /// The number of holders.
    pub held: u32,
    /// The number of waiters.
    pub waiting: u32,
    /// The remaining lock delay after an expired hold, in milliseconds. 0 if there is none.
    #[serde(default)]
    pub delayed_ms: u64,
}
