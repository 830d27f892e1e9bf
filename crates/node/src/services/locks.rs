//! Locks: acquire, renew, release, read.
//!
//! The replicated state alone decides who holds a lock. This node adds the wait: see [`acquire`].

mod acquire;
mod claim;
mod holder_watch;
mod lasting;
mod reentry;
mod secret;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use holder_watch::HolderWatch;
pub(crate) use reentry::{Entry, Exit, Unlock};
pub(crate) use secret::{Found, HoldChange, SecretHold, SecretHolder};

use std::sync::Arc;

use seqd_api::{
    BreakLockRequest, BrokenHold, BrokenLock, HeldLock, Plan, ReleaseLockRequest, ReleasedLock,
    RenewLockRequest, VerifyLockRequest,
};
use seqd_raft::{Pool, ProposeError};
use seqd_state::{
    FencingToken, LockCommand, LockHolder, LockName, LockOutcome, LockRefusal, Outcome,
};
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::{LockError, RequestError, ServiceError, not_dots, propose, read, unexpected};
use super::seals::{Seal, secret};
use crate::config::keys::LimitsSection;
use crate::log_lines::LineBudget;
use crate::replica::{Replica, peek};

/// The TTL of a lock if the request has none: much longer than an election or the pause of a
/// process, and short enough for an operator.
const TTL_MS: u64 = 30_000;

/// The most claims of disconnected clients that are withdrawn at the same time; each tenant has a
/// share of this. Further claims end at their deadlines.
const MOST_WITHDRAWALS: u64 = 4096;

pub(crate) struct LockService {
    pub(super) replica: Arc<dyn Replica>,
    pub(super) limits: LimitsSection,
    withdrawals: Arc<Pool>,
    watches: Arc<Pool>,
    /// The requests that wait for their turn.
    waits: Arc<Pool>,
    /// The warnings about instances without a machine number.
    pub(super) warnings: LineBudget,
    /// True once this node stops. From then on, no request waits here.
    stopping: watch::Sender<bool>,
}

impl LockService {
    pub(crate) fn new(replica: Arc<dyn Replica>, limits: LimitsSection) -> LockService {
        LockService {
            replica,
            watches: Pool::new(limits.tenant_share, holder_watch::MOST_WATCHES),
            waits: Pool::new(limits.tenant_share, acquire::MOST_WAITS),
            withdrawals: Pool::new(limits.tenant_share, MOST_WITHDRAWALS),
            limits,
            warnings: LineBudget::new(),
            stopping: watch::Sender::new(false),
        }
    }

    /// Ends all waits with an error that sends their clients to another node.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Extends a hold.
    pub(crate) async fn renew(
        &self,
        name: &str,
        request: RenewLockRequest,
        deadline: Instant,
    ) -> Result<HeldLock, ServiceError> {
        let name = lock_name(name)?;
        let lease = lease_of(request.lease)?;
        let ttl_ms = request.ttl_ms.unwrap_or(TTL_MS);
        self.prolong(name, &lease, ttl_ms, deadline).await
    }

    /// Extends the hold of a lease to at least `ttl_ms` from now.
    async fn prolong(
        &self,
        name: LockName,
        lease: &str,
        ttl_ms: u64,
        deadline: Instant,
    ) -> Result<HeldLock, ServiceError> {
        let token = self.opened(&name, lease, deadline).await?;
        self.renew_hold(name, token, ttl_ms, deadline).await
    }

    /// Extends a hold to at least `ttl_ms` from now.
    async fn renew_hold(
        &self,
        name: LockName,
        token: FencingToken,
        ttl_ms: u64,
        deadline: Instant,
    ) -> Result<HeldLock, ServiceError> {
        let command = LockCommand::Renew {
            name: name.clone(),
            token,
            ttl_ms,
        };
        match propose(&*self.replica, command, deadline).await? {
            // This is a minimum, because the hold may last longer. This node's applied state may
            // lag and show too long a time.
            Outcome::Locks(LockOutcome::Renewed { owner, .. }) => {
                Ok(held(&name, owner, token, ttl_ms))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Ends the holds of others, as an operator.
    pub(crate) async fn break_holds(
        &self,
        name: &str,
        request: &BreakLockRequest,
        deadline: Instant,
    ) -> Result<BrokenLock, ServiceError> {
        let name = lock_name(name)?;
        let token = request.token.map(FencingToken);
        let command = LockCommand::Break {
            name: name.clone(),
            token,
        };
        match propose(&*self.replica, command, deadline).await? {
            Outcome::Locks(LockOutcome::Broken { ended, holders }) => Ok(BrokenLock {
                name: name.to_string(),
                ended,
                holders: holders.into_iter().map(to_api).collect(),
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// The holds that [`Self::break_holds`] would end.
    pub(crate) async fn plan_break(
        &self,
        name: &str,
        request: &BreakLockRequest,
        deadline: Instant,
    ) -> Result<Plan, ServiceError> {
        let name = lock_name(name)?;
        let token = request.token.map(FencingToken);
        read(&*self.replica, deadline).await?;
        let effect = peek(&*self.replica, |state| {
            let lock = state.lock(name.as_str())?;
            let ends = |holder: &&LockHolder| token.is_none_or(|token| holder.token == token);
            let first = lock.holders().find(ends);
            let (held, waiting) = (lock.holders().filter(ends).count(), lock.waiters().count());
            let of_whom = match first {
                Some(first) => format!("of {} with token {}", first.shown_owner(), first.token),
                None if token.is_none() => "only its delay".to_owned(),
                None => return None,
            };
            let others = held.saturating_sub(1);
            Some(format!(
                "ends {held} holds of the lock {name} ({of_whom}, and {others} others); {waiting} \
                 requests wait for it, and the next is granted the lock immediately, while a \
                 former holder may still act"
            ))
        });
        let not_held = || LockRefusal::NotHeld {
            name: name.clone(),
            token,
        };
        let effect = effect
            .flatten()
            .ok_or_else(|| ServiceError::Refused(not_held().into()))?;
        Ok(Plan::new(effect, None))
    }

    /// Ends a hold.
    pub(crate) async fn release(
        &self,
        name: &str,
        request: ReleaseLockRequest,
        deadline: Instant,
    ) -> Result<ReleasedLock, ServiceError> {
        let name = lock_name(name)?;
        let lease = lease_of(request.lease)?;
        let token = self.opened(&name, &lease, deadline).await?;
        self.release_hold(name, token, deadline).await
    }

    async fn release_hold(
        &self,
        name: LockName,
        token: FencingToken,
        deadline: Instant,
    ) -> Result<ReleasedLock, ServiceError> {
        let command = LockCommand::Release {
            name: name.clone(),
            token,
        };
        match propose(&*self.replica, command, deadline).await? {
            Outcome::Locks(LockOutcome::Released) => Ok(ReleasedLock {
                name: name.to_string(),
                token: token.0,
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns whether a token holds a lock, by a linearizable read.
    pub(crate) async fn verify(
        &self,
        name: &str,
        request: VerifyLockRequest,
        deadline: Instant,
    ) -> Result<HeldLock, ServiceError> {
        let name = lock_name(name)?;
        let token = token_of(request.token)?;
        let time = self.read_lock(name.as_str(), deadline).await?;
        let seen = peek(&*self.replica, |state| {
            let Some(lock) = state.lock(name.as_str()) else {
                return Err(None);
            };
            let is_owner = |owner: &str| request.owner.as_deref().is_none_or(|it| it == owner);
            match lock.holder(token).filter(|it| is_owner(&it.shown_owner())) {
                Some(holder) => {
                    let left_ms = time.left(holder.until);
                    Ok(held(&name, holder.shown_owner(), token, left_ms))
                }
                None => {
                    let first = lock.holders().min_by_key(|it| it.until);
                    Err(first.cloned())
                }
            }
        });
        let seen = seen.unwrap_or(Err(None));
        Ok(seen.map_err(|holder| LockError::NotTheHolder {
            name,
            token,
            holder: holder.map(Box::new),
        })?)
    }

    /// Returns the fencing token of a lease of this lock. A lease that this cluster did not make is
    /// refused with the same message as a lease whose hold has ended.
    async fn opened(
        &self,
        name: &LockName,
        lease: &str,
        deadline: Instant,
    ) -> Result<FencingToken, ServiceError> {
        let key = secret(&*self.replica, deadline).await?;
        let token = SEAL.open_text(&key, &[name.as_str().as_bytes()], lease);
        let lost = || LockRefusal::Lost { name: name.clone() };
        token
            .map(FencingToken)
            .ok_or_else(|| ServiceError::Refused(lost().into()))
    }
}

/// The error of a wait at a node that stops; the client is to retry at another node.
const STOPPING: ServiceError = ServiceError::Propose(ProposeError::Stopping);

/// Locks expire, so there may be room a little later.
fn full(detail: String) -> ServiceError {
    ServiceError::overloaded(detail, 1000)
}

fn held(name: &LockName, owner: String, token: FencingToken, expires_in_ms: u64) -> HeldLock {
    HeldLock {
        name: name.to_string(),
        owner,
        token: token.0,
        lease: None,
        expires_in_ms,
    }
}

/// The name of a lock.
///
/// # Errors
/// No lock can have it.
pub(crate) fn lock_name(text: &str) -> Result<LockName, RequestError> {
    not_dots(text)?;
    LockName::new(text).map_err(RequestError::invalid)
}

fn owner_of(owner: Option<String>) -> Result<String, RequestError> {
    owner.ok_or_else(|| {
        RequestError::invalid("owner is missing: a host, pod or service name of 1 to 128 bytes")
    })
}

fn lease_of(lease: Option<String>) -> Result<String, RequestError> {
    lease.ok_or_else(|| {
        RequestError::invalid("lease is missing: the response to acquire has the holder's lease")
    })
}

/// The seal of a hold.
const SEAL: Seal = Seal(b"seqd lock\0");

fn to_api(hold: seqd_state::BrokenHold) -> BrokenHold {
    BrokenHold {
        owner: hold.owner,
        token: hold.token.0,
    }
}

fn token_of(token: Option<u64>) -> Result<FencingToken, RequestError> {
    let missing = || RequestError::invalid("token is missing: it is in the response to acquire");
    token.map(FencingToken).ok_or_else(missing)
}
