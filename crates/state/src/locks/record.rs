//! The record of a lock: its holders, its waiters, and the times at which they end.
//!
//! Invariants, by the cluster's applied time:
//! - There are never more exclusive holders than permits, and never exclusive and shared holders at
//!   the same time.
//! - Waiters are served in order of arrival. A shared waiter does not overtake an exclusive one.
//! - No waiter waits for a lock that could be granted to it: each change ends with the grants that
//!   it allows.
//! - An expired holder holds nothing, whether or not its row was changed since.

use std::collections::VecDeque;

use seqd_guards::is_out;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::commands::{AcquireLock, MAX_LOCK_DELAY_MS};
use super::names::{Attempt, FencingToken, LockName, MAX_LOCK_OWNER_BYTES, Nonce, is_printable};
use crate::codec::Versioned;
use crate::newtypes::ClusterMs;
use crate::table::Record;
use crate::tenant::Tenant;

/// The maximum number of concurrent holders of a lock.
///
/// Together with [`MAX_WAITERS`] it limits a row to 1 MiB.
pub const MAX_HOLDERS: usize = 1024;

/// The maximum number of waiters of a lock: the last of them waits for three thousand others.
pub const MAX_WAITERS: usize = 3072;

/// The maximum number of requests of a claim that are distinguished: a client retries only a few
/// times.
pub const MAX_ATTEMPTS: usize = 4;

/// The maximum size of a holder, in bytes: owner, attempts, two flags, and seven numbers, one of
/// them with 16 bytes.
const MAX_CLAIM_BYTES: usize = 8 + MAX_LOCK_OWNER_BYTES + 8 + 8 * MAX_ATTEMPTS + 2 + 8 * 8;

const _: () = assert!(
    (MAX_HOLDERS + MAX_WAITERS) * MAX_CLAIM_BYTES + 64 <= 1 << 20,
    "the largest lock fits a row"
);

/// The bytes of the hash that is shown in place of a secret owner: enough to distinguish holders.
const SHOWN_HASH_BYTES: usize = 4;

/// A request for a lock: its owner and its terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The tenant that requested the lock.
    pub tenant: Tenant,
    pub(crate) owner: String,
    pub nonce: Nonce,
    /// The requests of the claim whose clients are not known to have disconnected.
    pub attempts: Vec<Attempt>,
    /// The lifetime of a hold of this claim.
    pub ttl_ms: u64,
    pub shared: bool,
    /// The time after the expiry of this claim's hold during which the lock is granted to no
    /// client.
    pub lock_delay_ms: u64,
}

impl Claim {
    pub(crate) fn of(asked: &AcquireLock) -> Self {
        Self {
            tenant: asked.tenant,
            owner: asked.owner.clone(),
            nonce: asked.nonce,
            attempts: vec![asked.attempt],
            ttl_ms: asked.ttl_ms,
            shared: asked.shared,
            lock_delay_ms: asked.lock_delay_ms,
        }
    }

    /// Returns the owner as other clients may see it: a hash in place of a secret.
    #[must_use]
    pub fn shown_owner(&self) -> String {
        match self.secret_owner().filter(|_| !is_out!(SecretOwnerHidden)) {
            Some(secret) => {
                let hash = Sha256::digest(secret);
                let short = hash.iter().take(SHOWN_HASH_BYTES);
                let short: String = short.map(|byte| format!("{byte:02x}")).collect();
                format!("redis:{short}")
            }
            None => self.owner.clone(),
        }
    }

    /// Returns the owner if it is a secret of the holder: the value of a lock of the Redis
    /// protocol.
    #[must_use]
    pub fn secret_owner(&self) -> Option<&str> {
        let is_secret = self.nonce.has_secret_owner();
        is_secret.then_some(self.owner.as_str())
    }

    /// Returns whether this is the claim of this owner and nonce.
    pub(crate) fn is_of(&self, owner: &str, nonce: Nonce) -> bool {
        self.nonce == nonce && self.owner == owner
    }

    /// Returns whether a request has the terms of this claim. The waiting time may differ, because
    /// a client that retries has already waited for a part of it.
    fn has_terms_of(&self, asked: &AcquireLock) -> bool {
        self.ttl_ms == asked.ttl_ms
            && self.shared == asked.shared
            && self.lock_delay_ms == asked.lock_delay_ms
    }

    /// Returns whether a further request could not be distinguished from the others.
    pub(crate) fn is_full(&self, attempt: Attempt) -> bool {
        self.attempts.len() >= MAX_ATTEMPTS && !self.attempts.contains(&attempt)
    }

    /// Adds a request. If there are more than can be distinguished, no withdrawal ends the claim.
    fn add(&mut self, attempt: Attempt) {
        if self.attempts.contains(&attempt) || self.attempts.contains(&Attempt::NOBODY) {
            return;
        }
        if self.attempts.len() < MAX_ATTEMPTS {
            self.attempts.push(attempt);
        } else if let Some(last) = self.attempts.last_mut() {
            *last = Attempt::NOBODY;
        }
    }

    /// Removes a request and returns whether none remains.
    fn withdraw(&mut self, attempt: Attempt) -> bool {
        let before = self.attempts.len();
        self.attempts.retain(|kept| *kept != attempt);
        self.attempts.is_empty() || (self.attempts.len() < before && is_out!(OthersKeepClaim))
    }

    fn is_sound(&self) -> bool {
        is_printable(&self.owner, MAX_LOCK_OWNER_BYTES)
            && self.attempts.len() <= MAX_ATTEMPTS
            && self.lock_delay_ms <= MAX_LOCK_DELAY_MS
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    pub claim: Claim,
    pub token: FencingToken,
    pub until: ClusterMs,
}

impl std::ops::Deref for LockHolder {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.claim
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockWaiter {
    pub claim: Claim,
    /// The time at which the claim stops waiting.
    pub until: ClusterMs,
}

impl std::ops::Deref for LockWaiter {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.claim
    }
}

/// A lock that is held, waited for or delayed. Its name is the row's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRecord {
    /// The maximum number of concurrent holders.
    pub permits: u32,
    /// The holders, in the order of tokens.
    pub(crate) holders: Vec<LockHolder>,
    /// The waiters, in order of arrival.
    pub(crate) waiters: VecDeque<LockWaiter>,
    /// Until this time the lock is granted to no client. 0 if there is no delay.
    pub(crate) delayed_until: ClusterMs,
}

impl Versioned for LockRecord {
    const KIND: u8 = 23;
    const VERSION: u8 = 1;
}

impl Record for LockRecord {
    type Key = LockName;
    const PREFIX: u8 = b'm';

    fn is_sound(&self) -> bool {
        let claims = (self.holders.iter().map(|holder| &holder.claim))
            .chain(self.waiters.iter().map(|waiter| &waiter.claim));
        self.holders.len() <= MAX_HOLDERS
            && self.waiters.len() <= MAX_WAITERS
            && claims.into_iter().all(Claim::is_sound)
    }

    fn charge(&self, _: &LockName, charge: &mut dyn FnMut(Tenant, u64)) {
        self.tenants().for_each(|tenant| charge(tenant, 0));
    }
}

impl LockRecord {
    pub(crate) fn new(permits: u32) -> Self {
        Self {
            permits,
            holders: Vec::new(),
            waiters: VecDeque::new(),
            delayed_until: ClusterMs(0),
        }
    }

    /// Returns the tenants to which the claims are charged: those of its holders, then of its
    /// waiters.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = Tenant> {
        let holders = self.holders.iter().map(|holder| holder.tenant);
        holders.chain(self.waiters.iter().map(|waiter| waiter.tenant))
    }

    /// Returns whether the lock has neither a holder nor a waiter.
    pub(crate) fn is_unused(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }

    /// Returns whether the record can be removed: no holder, no waiter and no delay.
    pub(crate) fn is_over(&self) -> bool {
        self.is_unused() && self.delayed_until == ClusterMs(0)
    }

    /// Returns the next time at which a holder, a waiter or the delay ends.
    pub(crate) fn next_time(&self) -> Option<ClusterMs> {
        let holders = self.holders.iter().map(|holder| holder.until);
        let waiters = self.waiters.iter().map(|waiter| waiter.until);
        let delay = (self.delayed_until > ClusterMs(0)).then_some(self.delayed_until);
        holders.chain(waiters).chain(delay).min()
    }

    /// Returns whether one of these times has come.
    pub(crate) fn is_due(&self, now: ClusterMs) -> bool {
        self.next_time().is_some_and(|at| at <= now)
    }

    /// Returns the time until which the lock is granted to no client, including the delays of
    /// holders that expired since.
    pub(crate) fn delay_at(&self, now: ClusterMs) -> Option<ClusterMs> {
        let over = self.holders.iter().filter(|holder| holder.until <= now);
        let delays = over.filter_map(LockHolder::delay_behind);
        let delay = delays.chain([self.delayed_until]).max()?;
        (delay > now).then_some(delay)
    }

    /// Removes expired holders and waiters. Returns the nonces of the removed waiters and the
    /// number of removed holders.
    pub(crate) fn drop_over(&mut self, now: ClusterMs) -> (Vec<Nonce>, u64) {
        self.delayed_until = self.delay_at(now).unwrap_or_default();
        let held = self.holders.len();
        self.holders.retain(|holder| holder.until > now);
        let over = self.waiters.iter().filter(|waiter| waiter.until <= now);
        let given_up = over.map(|waiter| waiter.nonce).collect();
        self.waiters.retain(|waiter| waiter.until > now);
        (given_up, (held - self.holders.len()) as u64)
    }

    /// Returns whether one more holder fits, regardless of the waiters.
    pub(crate) fn can_take(&self, shared: bool, now: ClusterMs) -> bool {
        if is_out!(NotGrantedWhileHeld) {
            return self.holders.len() < MAX_HOLDERS;
        }
        let has_room = if shared {
            self.holders.len() < MAX_HOLDERS && self.holders.iter().all(|holder| holder.shared)
        } else {
            self.holders.len() < self.permits as usize
                && !self.holders.iter().any(|holder| holder.shared)
        };
        has_room && self.delayed_until <= now
    }

    /// Returns whether a new claim is granted the lock at once.
    pub(crate) fn is_open(&self, shared: bool, now: ClusterMs) -> bool {
        let is_next = self.waiters.is_empty() || is_out!(FirstComesFirst);
        is_next && self.can_take(shared, now)
    }

    /// Removes and returns the waiter to which the lock is to be granted, if there is one.
    pub(crate) fn take_next(&mut self, now: ClusterMs) -> Option<Claim> {
        let first = self.waiters.front()?;
        if !self.can_take(first.shared, now) {
            return None;
        }
        self.waiters.pop_front().map(|waiter| waiter.claim)
    }

    pub(crate) fn hold(&mut self, claim: Claim, token: FencingToken, now: ClusterMs) -> ClusterMs {
        let until = now.after(claim.ttl_ms);
        // Most locks have one holder, and a first push would make room for four.
        if self.holders.is_empty() {
            self.holders.reserve_exact(1);
        }
        self.holders.push(LockHolder {
            claim,
            token,
            until,
        });
        until
    }

    /// Returns the index of the holder with this token.
    pub(crate) fn place_of(&self, token: FencingToken) -> Option<usize> {
        let is_it = |holder: &LockHolder| holder.token == token;
        let any = (is_out!(HoldTokenCompared) && !self.holders.is_empty()).then_some(0);
        self.holders.iter().position(is_it).or(any)
    }

    /// Returns the holder that ends first.
    pub(crate) fn first_to_end(&self) -> Option<&LockHolder> {
        self.holders.iter().min_by_key(|holder| holder.until)
    }

    /// Adds a request to the holder with this owner and nonce.
    pub(crate) fn joined_holder(
        &mut self,
        owner: &str,
        nonce: Nonce,
        attempt: Attempt,
    ) -> Option<&LockHolder> {
        let mut holders = self.holders.iter_mut();
        let holder = holders.find(|holder| holder.claim.is_of(owner, nonce))?;
        holder.claim.add(attempt);
        Some(holder)
    }

    /// Adds a request to the waiter with this owner and nonce and extends its wait at least to
    /// `until`. Returns its place and the end of its wait.
    pub(crate) fn joined_waiter(
        &mut self,
        owner: &str,
        nonce: Nonce,
        (attempt, until): (Attempt, ClusterMs),
    ) -> Option<(usize, ClusterMs)> {
        let is_it = |waiter: &LockWaiter| waiter.claim.is_of(owner, nonce);
        let place = self.waiters.iter().position(is_it)?;
        let waiter = self.waiters.get_mut(place)?;
        waiter.claim.add(attempt);
        waiter.until = waiter.until.max(until);
        Some((place, waiter.until))
    }

    /// Returns the claim of this owner and nonce.
    pub(crate) fn claim(&self, owner: &str, nonce: Nonce) -> Option<&Claim> {
        let held = self.holders.iter().map(|holder| &holder.claim);
        let waiting = self.waiters.iter().map(|waiter| &waiter.claim);
        (held.chain(waiting)).find(|claim| claim.is_of(owner, nonce))
    }

    /// Returns whether a request has the terms of its claim, permits included.
    pub(crate) fn has_terms(&self, claim: &Claim, asked: &AcquireLock) -> bool {
        self.permits == asked.permits && claim.has_terms_of(asked)
    }

    /// Returns whether any owner has a claim with this nonce.
    pub(crate) fn has_nonce(&self, nonce: Nonce) -> bool {
        self.holders.iter().any(|holder| holder.nonce == nonce)
            || self.waiters.iter().any(|waiter| waiter.nonce == nonce)
    }

    /// Removes a request of a claim and returns whether the claim ended. The attempt, a number
    /// drawn for each request, identifies the request.
    pub(crate) fn withdraw(&mut self, nonce: Nonce, attempt: Attempt) -> bool {
        let before = self.holders.len() + self.waiters.len();
        (self.holders)
            .retain_mut(|holder| holder.nonce != nonce || !holder.claim.withdraw(attempt));
        (self.waiters)
            .retain_mut(|waiter| waiter.nonce != nonce || !waiter.claim.withdraw(attempt));
        self.holders.len() + self.waiters.len() < before
    }
}

impl LockHolder {
    /// Returns the time until which the lock is granted to no client if this hold expires.
    fn delay_behind(&self) -> Option<ClusterMs> {
        (self.lock_delay_ms > 0).then(|| ClusterMs(self.until.0.saturating_add(self.lock_delay_ms)))
    }
}
