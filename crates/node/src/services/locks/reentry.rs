//! Reentrant locks, such as those of Redisson.
//!
//! Each entry is a request of the holder's claim: the lock is free once all of them are withdrawn.
//! Before an exit takes effect, it is recorded: the record is a lock of its own, whose value names
//! the entry that ends. A retried exit finds the record at any node and ends the same entry.

use seqd_guards::is_out;
use seqd_state::{
    Attempt, FencingToken, LockCommand, LockName, LockOutcome, LockRefusal, MAX_ATTEMPTS, Nonce,
    Outcome, Refusal, Tenant,
};
use tokio::time::Instant;

use super::acquire::Unanswered;
use super::secret::asked;
use super::{Found, HoldChange, LockService, SecretHolder, lock_name};
use crate::access::Right;
use crate::services::error::{RequestError, ServiceError, propose, unexpected};

/// The result of an attempt to enter a lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Entered,
    /// Another holder has the lock for this time.
    Held {
        left_ms: u64,
    },
}

/// The result of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The caller still holds the lock, by earlier entries.
    Inside,
    /// The lock is free.
    Free,
    /// The caller does not hold the lock.
    NotHeld,
}

/// An exit of the holder with this value.
pub(crate) struct Unlock<'a> {
    pub(crate) value: &'a str,
    /// The hold is extended to at least this time if the caller is still inside.
    pub(crate) ttl_ms: u64,
    /// The name and the lifetime of the record that makes a retried exit idempotent.
    pub(crate) record: Option<(&'a str, u64)>,
}

/// Returns whether the holder has entered the lock as often as it may.
fn is_full(holder: &SecretHolder) -> bool {
    holder.depth >= MAX_ATTEMPTS
}

/// Returns whether a record was refused because there is no room for another lock.
fn is_for_room(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::Full(_)
            | ServiceError::Overloaded { .. }
            | ServiceError::Refused(Refusal::Locks(LockRefusal::TooManyLocks))
    )
}

fn too_often() -> ServiceError {
    let detail = format!("a holder enters a lock at most {MAX_ATTEMPTS} times");
    RequestError::Invalid(detail).into()
}

impl LockService {
    /// Enters a lock: acquires it, or enters the hold with this value again and extends it.
    pub(crate) async fn enter(
        &self,
        name: &str,
        (value, ttl_ms): (&str, u64),
        (right, tenant): (&Right, Tenant),
        deadline: Instant,
    ) -> Result<Entry, ServiceError> {
        let lock = lock_name(name)?;
        // This node's applied state nearly always shows whether the caller holds the lock. If the
        // state lags, the refusal contains the holder.
        let mut own = self.first_holder(&lock, None, tenant);
        loop {
            own = own.filter(|holder| holder.has(value));
            if own.as_ref().is_some_and(is_full) {
                own = self.own(name, value, (tenant, deadline)).await?;
            }
            if own.as_ref().is_some_and(is_full) {
                return Err(too_often());
            }
            // Extended before the entry, because an extension alone does no harm if the entry
            // fails.
            if let Some(holder) = &own {
                let change = HoldChange::Extend { ttl_ms };
                let token = holder.token;
                if !self.change_hold(name, token, change, deadline).await? {
                    own = None;
                }
            }
            let mut claim = asked(lock.clone(), (value, ttl_ms), tenant)?;
            if let Some(holder) = &own {
                (claim.nonce, claim.ttl_ms) = (holder.nonce, holder.ttl_ms);
            }
            let entered = self.claim((claim, None), Unanswered::Withdrawn, right, deadline);
            match entered.await {
                Ok(held) => {
                    let token = FencingToken(held.token);
                    // If the hold ended after its extension, the entry is a new hold with the
                    // lifetime of the old claim.
                    let is_new = own.as_ref().is_some_and(|own| own.token != token);
                    let change = HoldChange::Extend { ttl_ms };
                    if !is_new || self.change_hold(name, token, change, deadline).await? {
                        return Ok(Entry::Entered);
                    }
                    own = None;
                }
                Err(ServiceError::Refused(Refusal::Locks(LockRefusal::Held {
                    holder,
                    retry_after_ms,
                    ..
                }))) => {
                    let was_own = own.is_some();
                    own = holder.map(|holder| SecretHolder::of(&holder, retry_after_ms, tenant));
                    if was_own || !own.as_ref().is_some_and(|holder| holder.has(value)) {
                        return Ok(Entry::Held {
                            left_ms: retry_after_ms,
                        });
                    }
                }
                // The terms are those of the claim, so the refusal means that the claim has the
                // most requests that are permitted.
                Err(ServiceError::Refused(Refusal::Locks(LockRefusal::TermsDiffer { .. }))) => {
                    return Err(too_often());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends the last entry of the holder with this value.
    pub(crate) async fn exit(
        &self,
        name: &str,
        unlock: &Unlock<'_>,
        (right, tenant): (&Right, Tenant),
        deadline: Instant,
    ) -> Result<Exit, ServiceError> {
        let lock = lock_name(name)?;
        let by = (tenant, deadline);
        let own = self.own(name, unlock.value, by).await?;
        let last = own
            .as_ref()
            .and_then(|holder| Some((holder.depth == 1, holder.last?)));
        let last = match (unlock.record, last) {
            (None, last) => last,
            (Some(_), last) if is_out!(ExitRecorded) => last,
            (Some((record, _)), None) => self.recorded(record, by).await?,
            (Some(record), Some(last)) => {
                let by = (right, tenant);
                Some(self.record(record, last, by, deadline).await?)
            }
        };
        let Some((is_free, entry)) = last else {
            return Ok(Exit::NotHeld);
        };
        if let Some(holder) = own {
            // Extended before the withdrawal, because an error after the withdrawal would be false.
            let change = HoldChange::Extend {
                ttl_ms: unlock.ttl_ms,
            };
            let token = holder.token;
            if !is_free && !self.change_hold(name, token, change, deadline).await? {
                return Ok(Exit::NotHeld);
            }
            self.withdraw(lock, holder.nonce, entry, deadline).await?;
        }
        Ok(if is_free { Exit::Free } else { Exit::Inside })
    }

    /// Finds the hold with this value, by a linearizable read.
    async fn own(
        &self,
        name: &str,
        value: &str,
        by: (Tenant, Instant),
    ) -> Result<Option<SecretHolder>, ServiceError> {
        Ok(match self.find_secret(name, value, by).await? {
            Found::Own(holder) => Some(holder),
            Found::Other | Found::Free => None,
        })
    }

    /// Records which entry an exit ends, and whether the lock is then free. If an earlier attempt
    /// of the same exit has recorded this, returns the earlier record.
    async fn record(
        &self,
        (record, ttl_ms): (&str, u64),
        (is_free, entry): (bool, Attempt),
        (right, tenant): (&Right, Tenant),
        deadline: Instant,
    ) -> Result<(bool, Attempt), ServiceError> {
        let value = format!("{} {}", i32::from(is_free), entry.0);
        let by = (right, tenant);
        let is_new = self.acquire_secret(record, (&value, ttl_ms), by, deadline);
        match is_new.await {
            Ok(Some(_)) => return Ok((is_free, entry)),
            Ok(None) => {}
            // The last exit is never refused for room: a retry of it finds no hold. A retry of
            // another one without a record would end another entry.
            Err(error) if is_free && is_for_room(&error) => {}
            Err(error) => return Err(error),
        }
        let earlier = self.recorded(record, (tenant, deadline)).await?;
        Ok(earlier.unwrap_or((is_free, entry)))
    }

    /// The entry that a recorded exit ends, and whether the lock is then free.
    async fn recorded(
        &self,
        record: &str,
        (tenant, deadline): (Tenant, Instant),
    ) -> Result<Option<(bool, Attempt)>, ServiceError> {
        let holder = self.holder(record, tenant, deadline).await?;
        Ok(holder.and_then(|holder| {
            let (is_free, entry) = holder.own()?.split_once(' ')?;
            Some((is_free == "1", Attempt(entry.parse().ok()?)))
        }))
    }

    async fn withdraw(
        &self,
        name: LockName,
        nonce: Nonce,
        attempt: Attempt,
        deadline: Instant,
    ) -> Result<(), ServiceError> {
        let command = LockCommand::Withdraw {
            name,
            nonce,
            attempt,
        };
        match propose(&*self.replica, command, deadline).await? {
            Outcome::Locks(LockOutcome::Withdrawn { .. }) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }
}
