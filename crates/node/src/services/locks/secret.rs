//! Locks whose owner is a secret of the holder, such as the value of a lock in the Redis protocol.
//!
//! A caller that presents the value may release or extend the hold, provided that the hold was
//! acquired without an access token or with the same one. Changes of a hold with a public owner
//! require its lease.

use seqd_api::HeldLock;
use seqd_guards::is_out;
use seqd_state::{
    AcquireLock, Attempt, FencingToken, LockCommand, LockHolder, LockName, LockOutcome,
    LockRefusal, Nonce, Outcome, Refusal, Tenant,
};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use super::acquire::{Unanswered, draw};
use super::{LockService, lock_name};
use crate::access::Right;
use crate::replica::{ReadTime, peek};
use crate::services::error::ServiceError;

/// The holder of a lock, as a caller may see it.
pub(crate) struct SecretHolder {
    pub(crate) token: FencingToken,
    pub(crate) left_ms: u64,
    pub(crate) owner: SecretHold,
    /// The number of times that the holder has entered the lock, which is the number of requests of
    /// its claim.
    pub(crate) depth: usize,
    /// The last of these requests.
    pub(super) last: Option<Attempt>,
    pub(super) nonce: Nonce,
    /// The lifetime in the terms of the claim.
    pub(super) ttl_ms: u64,
}

/// The owner of a hold, as a caller may see it.
pub(crate) enum SecretHold {
    /// The secret.
    Own(String),
    /// The public form of an owner, if the hold has a lease or was acquired with another access
    /// token.
    Other(String),
}

/// A change of a hold.
#[derive(Clone, Copy)]
pub(crate) enum HoldChange {
    Release,
    /// Extends the hold to at least this time from now; a hold is never shortened.
    Extend {
        ttl_ms: u64,
    },
}

/// The holder of a lock, relative to the caller.
pub(crate) enum Found {
    Own(SecretHolder),
    Other,
    Free,
}

impl SecretHolder {
    pub(super) fn of(holder: &LockHolder, left_ms: u64, caller: Tenant) -> Self {
        let own = holder.secret_owner();
        let own = own.filter(|_| holder.tenant.is_one_client_with(caller) || is_out!(SecretsApart));
        Self {
            token: holder.token,
            left_ms,
            owner: match own {
                Some(secret) => SecretHold::Own(secret.to_owned()),
                None => SecretHold::Other(holder.shown_owner()),
            },
            depth: holder.attempts.len(),
            last: holder.attempts.last().copied(),
            nonce: holder.nonce,
            ttl_ms: holder.ttl_ms,
        }
    }

    /// The value of the hold, if it is the caller's.
    pub(super) fn own(&self) -> Option<&str> {
        match &self.owner {
            SecretHold::Own(secret) => Some(secret),
            SecretHold::Other(_) => None,
        }
    }

    /// Returns whether this is the caller's hold with this value.
    pub(crate) fn has(&self, value: &str) -> bool {
        let own = self.own();
        own.is_some_and(|secret| bool::from(secret.as_bytes().ct_eq(value.as_bytes())))
    }
}

impl LockService {
    /// The number of locks in use, as this node has applied them.
    pub(crate) fn count(&self) -> u64 {
        peek(&*self.replica, |state| state.lock_counts().locks).unwrap_or(0)
    }

    /// Acquires a lock without a wait. Returns `None` if it is held. After an error whose outcome is
    /// unknown, and if the client disconnects, the caller may find its hold by the secret.
    pub(crate) async fn acquire_secret(
        &self,
        name: &str,
        (secret, ttl_ms): (&str, u64),
        (right, tenant): (&Right, Tenant),
        deadline: Instant,
    ) -> Result<Option<HeldLock>, ServiceError> {
        let asked = (asked(lock_name(name)?, (secret, ttl_ms), tenant)?, None);
        match self.claim(asked, Unanswered::Kept, right, deadline).await {
            Ok(held) => Ok(Some(held)),
            Err(ServiceError::Refused(Refusal::Locks(
                LockRefusal::Held { .. } | LockRefusal::PermitsDiffer { .. },
            ))) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The first holder of a lock, by a linearizable read.
    pub(crate) async fn holder(
        &self,
        name: &str,
        caller: Tenant,
        deadline: Instant,
    ) -> Result<Option<SecretHolder>, ServiceError> {
        let name = lock_name(name)?;
        let time = self.read_lock(name.as_str(), deadline).await?;
        Ok(self.first_holder(&name, Some(time), caller))
    }

    /// Finds the hold of a lock with this value, by a linearizable read.
    pub(crate) async fn find_secret(
        &self,
        name: &str,
        value: &str,
        (caller, deadline): (Tenant, Instant),
    ) -> Result<Found, ServiceError> {
        Ok(match self.holder(name, caller, deadline).await? {
            None => Found::Free,
            Some(holder) if holder.has(value) => Found::Own(holder),
            Some(_) => Found::Other,
        })
    }

    /// Changes the hold with this value.
    pub(crate) async fn change_secret(
        &self,
        name: &str,
        (value, change): (&str, HoldChange),
        (caller, deadline): (Tenant, Instant),
    ) -> Result<Found, ServiceError> {
        let lock = lock_name(name)?;
        // This node's applied state nearly always contains the hold, and no token is granted twice.
        let known = self.first_holder(&lock, None, caller);
        let changed = |token| self.change_hold(name, token, change, deadline);
        if let Some(holder) = known.filter(|holder| holder.has(value))
            && changed(holder.token).await?
        {
            return Ok(Found::Own(holder));
        }
        match self.find_secret(name, value, (caller, deadline)).await? {
            Found::Own(holder) => match changed(holder.token).await? {
                true => Ok(Found::Own(holder)),
                false => Ok(Found::Free),
            },
            other => Ok(other),
        }
    }

    /// Changes the hold with this token. The caller has proven that it owns the hold. Returns
    /// `false` if the hold has ended.
    pub(crate) async fn change_hold(
        &self,
        name: &str,
        token: FencingToken,
        change: HoldChange,
        deadline: Instant,
    ) -> Result<bool, ServiceError> {
        let name = lock_name(name)?;
        let changed = match change {
            HoldChange::Release => self.release_hold(name, token, deadline).await.map(drop),
            HoldChange::Extend { ttl_ms } => {
                let renewed = self.renew_hold(name, token, ttl_ms, deadline).await;
                renewed.map(drop)
            }
        };
        match changed {
            Ok(()) => Ok(true),
            Err(ServiceError::Refused(Refusal::Locks(LockRefusal::Lost { .. }))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Releases the holds with these tokens by one proposal: all of them, or none. The caller has
    /// proven that it owns them. Returns the number of holds that had not ended.
    pub(crate) async fn release_all(
        &self,
        holds: &[(String, FencingToken)],
        deadline: Instant,
    ) -> Result<u64, ServiceError> {
        let releases = holds.iter().map(|(name, token)| {
            let (name, token) = (lock_name(name)?, *token);
            Ok(LockCommand::Release { name, token }.into())
        });
        let releases = releases.collect::<Result<_, ServiceError>>()?;
        let outcomes = self.replica.propose(releases, deadline).await;
        let outcomes = outcomes.map_err(ServiceError::Propose)?;
        let is_released = |it: &&Outcome| matches!(it, Outcome::Locks(LockOutcome::Released));
        Ok(outcomes.iter().filter(is_released).count() as u64)
    }

    /// Extends the holds of these locks with these values to at least `ttl_ms` from now. Those that
    /// this node has applied are extended by one proposal. Returns whether each was extended.
    ///
    /// # Errors
    /// The first error. An error of one hold does not prevent the extension of the others.
    pub(crate) async fn extend_all(
        &self,
        locks: &[(String, String)],
        ttl_ms: u64,
        (caller, deadline): (Tenant, Instant),
    ) -> Result<Vec<bool>, ServiceError> {
        let known = locks.iter().map(|(name, value)| {
            let name = lock_name(name).ok()?;
            let holder = self.first_holder(&name, None, caller);
            let token = holder.filter(|holder| holder.has(value))?.token;
            Some(LockCommand::Renew {
                name,
                token,
                ttl_ms,
            })
        });
        let known: Vec<Option<LockCommand>> = known.collect();
        let renewals: Vec<_> = known.iter().flatten().cloned().map(Into::into).collect();
        let mut outcomes = Vec::new().into_iter();
        if !renewals.is_empty() {
            let renewed = self.replica.propose(renewals, deadline).await;
            outcomes = renewed.map_err(ServiceError::Propose)?.into_iter();
        }
        let (mut extended, mut failed) = (Vec::new(), None);
        for ((name, value), known) in locks.iter().zip(known) {
            let renewed = known.and_then(|_| outcomes.next());
            if let Some(Outcome::Locks(LockOutcome::Renewed { .. })) = renewed {
                extended.push(true);
                continue;
            }
            let change = (value.as_str(), HoldChange::Extend { ttl_ms });
            let found = self.change_secret(name, change, (caller, deadline)).await;
            extended.push(matches!(found, Ok(Found::Own(_))));
            failed = failed.or(found.err());
        }
        failed.map_or(Ok(extended), Err)
    }

    /// The first holder in this node's applied state. Its remaining time counts from the read at
    /// `time`, or from the applied time.
    pub(super) fn first_holder(
        &self,
        name: &LockName,
        time: Option<ReadTime>,
        caller: Tenant,
    ) -> Option<SecretHolder> {
        let found = peek(&*self.replica, |state| {
            let time = time.unwrap_or_else(|| ReadTime::of_applied(state));
            let first = state.lock(name.as_str())?.holders().next();
            first.map(|holder| SecretHolder::of(holder, time.left(holder.until), caller))
        });
        found.flatten()
    }
}

/// A new claim of a lock, without a wait.
pub(super) fn asked(
    name: LockName,
    (secret, ttl_ms): (&str, u64),
    tenant: Tenant,
) -> Result<AcquireLock, ServiceError> {
    Ok(AcquireLock {
        name,
        tenant,
        owner: secret.to_owned(),
        nonce: Nonce::with_secret_owner(draw()?),
        attempt: Attempt(draw()?.max(1)),
        ttl_ms,
        wait_ms: 0,
        permits: 1,
        shared: false,
        lock_delay_ms: 0,
    })
}
