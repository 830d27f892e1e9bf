//! Commands, outcomes and refusals of locks.

use serde::{Deserialize, Serialize};

use super::names::{Attempt, FencingToken, LockName, MAX_LOCK_OWNER_BYTES, Nonce, is_printable};
use super::record::{LockHolder, MAX_HOLDERS, MAX_WAITERS};
use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::newtypes::ClusterMs;
use crate::tenant::Tenant;

/// The shortest lifetime of a hold: a renewal takes two rounds of consensus in the worst case.
pub const MIN_LOCK_TTL_MS: u64 = 100;

/// The longest lifetime of a hold: a day. A longer hold is an operator's decision, not a lock.
pub const MAX_LOCK_TTL_MS: u64 = 24 * 60 * 60 * 1000;

/// The longest wait of one request. Intermediaries close connections that are idle for longer.
pub const MAX_LOCK_WAIT_MS: u64 = 10 * 60 * 1000;

/// The longest delay after an expired hold. A holder that has had no contact with the cluster for a
/// minute must have detected this.
pub const MAX_LOCK_DELAY_MS: u64 = 60 * 1000;

/// The maximum number of locks. With names and owners of usual length each lock takes about 400
/// bytes of memory, so all locks together take less than half a gigabyte.
pub const MAX_LOCKS: usize = 1_000_000;

/// The maximum number of holders and waiters of all locks together, for the same reason.
pub const MAX_CLAIMS: u64 = 1_000_000;

/// A change of the locks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockCommand {
    Acquire(AcquireLock),
    /// Extends a hold; never shortens it. The caller has proven that it owns the hold.
    Renew {
        name: LockName,
        token: FencingToken,
        ttl_ms: u64,
    },
    /// Ends a hold. The caller has proven that it owns the hold.
    Release {
        name: LockName,
        token: FencingToken,
    },
    /// Ends a waiting or holding claim because the client of a request has disconnected. The claim
    /// is kept if another request with the same nonce still belongs to it.
    Withdraw {
        name: LockName,
        nonce: Nonce,
        attempt: Attempt,
    },
    /// Ends the hold with this token on behalf of an operator; without a token, ends every hold and
    /// a delay. The lock is granted to the next waiters at once, as after a release.
    Break {
        name: LockName,
        token: Option<FencingToken>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcquireLock {
    pub name: LockName,
    /// The tenant to which a new claim is charged.
    pub tenant: Tenant,
    pub owner: String,
    /// A request for an existing claim of the same owner and nonce, with the same terms, gets the
    /// same response.
    pub nonce: Nonce,
    pub attempt: Attempt,
    /// The lifetime of a hold, counted from its grant.
    pub ttl_ms: u64,
    /// The maximum time in the queue. 0 if the request does not wait.
    pub wait_ms: u64,
    /// The maximum number of concurrent holders.
    pub permits: u32,
    /// True if the hold is shared with other shared holds and excludes all exclusive ones.
    pub shared: bool,
    /// The time after the expiry of this hold during which the lock is granted to no client.
    pub lock_delay_ms: u64,
}

impl LockCommand {
    #[must_use]
    pub fn name(&self) -> &LockName {
        match self {
            Self::Acquire(asked) => &asked.name,
            Self::Renew { name, .. }
            | Self::Release { name, .. }
            | Self::Withdraw { name, .. }
            | Self::Break { name, .. } => name,
        }
    }
}

impl FrameTable for LockCommand {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0701), // Acquire
        row(0x0702), // Renew
        row(0x0703), // Release
        row(0x0704), // Withdraw
        row(0x0705), // Break
    ];
}

/// The result of a [`LockCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockOutcome {
    /// The client holds the lock, by a new grant, by an equal earlier one, or by re-entering its
    /// hold.
    Held {
        token: FencingToken,
        until: ClusterMs,
    },
    /// The claim is in the queue.
    Waiting {
        /// The number of claims before it.
        ahead: u32,
        until: ClusterMs,
    },
    Renewed {
        owner: String,
        until: ClusterMs,
    },
    Released,
    Withdrawn {
        /// True if a claim ended.
        ended: bool,
    },
    Broken {
        /// The number of holds that ended; 0 if only a delay ended.
        ended: u32,
        /// The first [`MAX_BROKEN_NAMED`] of these holds, by token.
        holders: Vec<BrokenHold>,
    },
}

impl FrameTable for LockOutcome {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0741), // Held
        row(0x0742), // Waiting
        row(0x0743), // Renewed
        row(0x0744), // Released
        row(0x0745), // Withdrawn
        row(0x0746), // Broken
    ];
}

/// A hold that an operator ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenHold {
    pub owner: String,
    pub token: FencingToken,
}

/// The maximum number of holds in the outcome of a break. 100 holds take at most 16 KiB, and an
/// operator reads no more.
pub const MAX_BROKEN_NAMED: usize = 100;

/// The reason why a [`LockCommand`] changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum LockRefusal {
    #[error("the lock {name} is {}; try again in {retry_after_ms} ms", held_by(.holder))]
    Held {
        name: LockName,
        /// The holder that ends first; none after an expired hold, while its delay lasts.
        holder: Option<Box<LockHolder>>,
        /// Milliseconds until that holder or the delay ends.
        retry_after_ms: u64,
    },
    /// The message is the same for an ended hold and for a hold that never existed, so that
    /// guessing a lease discloses nothing.
    #[error("no hold of the lock {name} has this lease: the hold ended, or the lease is wrong")]
    Lost { name: LockName },
    #[error("the lock {name} is in use with {permits} permits, not {asked}")]
    PermitsDiffer {
        name: LockName,
        asked: u32,
        permits: u32,
    },
    #[error("{MAX_WAITERS} requests wait for the lock {name}, which is the maximum")]
    TooManyWaiters { name: LockName },
    #[error(
        "the cluster has the maximum of {MAX_LOCKS} locks or of {MAX_CLAIMS} holders and waiters"
    )]
    TooManyLocks,
    #[error("{0}")]
    Invalid(LockProblem),
    #[error(
        "the nonce belongs to an acquisition of the lock {name} with other terms: ttl_ms, \
         lock_delay_ms, permits and shared must be the same"
    )]
    TermsDiffer { name: LockName },
    #[error("the lock {name} is not held{}", with_token(*.token))]
    NotHeld {
        name: LockName,
        token: Option<FencingToken>,
    },
}

impl FrameTable for LockRefusal {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0781), // Held
        row(0x0782), // Lost
        row(0x0783), // PermitsDiffer
        row(0x0784), // TooManyWaiters
        row(0x0785), // TooManyLocks
        row(0x0786), // Invalid
        row(0x0787), // TermsDiffer
        row(0x0788), // NotHeld
    ];
}

fn held_by(holder: &Option<Box<LockHolder>>) -> String {
    match holder {
        Some(holder) => format!(
            "held by {} with token {}",
            holder.shown_owner(),
            holder.token
        ),
        None => "in its lock delay after an expired hold".to_owned(),
    }
}

fn with_token(token: Option<FencingToken>) -> String {
    token.map_or(String::new(), |token| format!(" with token {token}"))
}

/// The reason why a command is invalid in every state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum LockProblem {
    #[error("an owner has 1 to {MAX_LOCK_OWNER_BYTES} printable ASCII characters")]
    Owner,
    #[error("ttl_ms is {MIN_LOCK_TTL_MS} to {MAX_LOCK_TTL_MS}")]
    Ttl,
    #[error("wait_ms is 0 to {MAX_LOCK_WAIT_MS}")]
    Wait,
    #[error("lock_delay_ms is 0 to {MAX_LOCK_DELAY_MS}")]
    LockDelay,
    #[error("permits are 1 to {MAX_HOLDERS}")]
    Permits,
    #[error("a shared lock has one permit: its holders need no more")]
    SharedPermits,
    #[error("requests are numbered from 1")]
    Attempt,
}

impl LockCommand {
    /// Refuses a command that is invalid in every state.
    pub(crate) fn check(&self) -> Result<(), LockRefusal> {
        let checked = match self {
            Self::Acquire(asked) => asked.check(),
            Self::Renew { ttl_ms, .. } => check_ttl(*ttl_ms),
            Self::Release { .. } | Self::Break { .. } => Ok(()),
            Self::Withdraw { attempt, .. } => check_attempt(*attempt),
        };
        checked.map_err(LockRefusal::Invalid)
    }
}

impl AcquireLock {
    fn check(&self) -> Result<(), LockProblem> {
        check_owner(&self.owner)?;
        check_attempt(self.attempt)?;
        check_ttl(self.ttl_ms)?;
        let problem = if self.wait_ms > MAX_LOCK_WAIT_MS {
            LockProblem::Wait
        } else if self.lock_delay_ms > MAX_LOCK_DELAY_MS {
            LockProblem::LockDelay
        } else if !(1..=MAX_HOLDERS).contains(&(self.permits as usize)) {
            LockProblem::Permits
        } else if self.shared && self.permits != 1 {
            LockProblem::SharedPermits
        } else {
            return Ok(());
        };
        Err(problem)
    }
}

fn check_owner(owner: &str) -> Result<(), LockProblem> {
    let fits = is_printable(owner, MAX_LOCK_OWNER_BYTES);
    fits.then_some(()).ok_or(LockProblem::Owner)
}

fn check_attempt(attempt: Attempt) -> Result<(), LockProblem> {
    (attempt != Attempt::NOBODY)
        .then_some(())
        .ok_or(LockProblem::Attempt)
}

fn check_ttl(ttl_ms: u64) -> Result<(), LockProblem> {
    let fits = (MIN_LOCK_TTL_MS..=MAX_LOCK_TTL_MS).contains(&ttl_ms);
    fits.then_some(()).ok_or(LockProblem::Ttl)
}
