//! Reads of locks, as they are at the applied time, whether or not the row was settled since.

use std::ops::Bound;

use super::names::{Attempt, FencingToken, LockName, Nonce};
use super::record::{Claim, LockHolder, LockRecord, LockWaiter};
use super::tally::LockCounts;
use crate::newtypes::ClusterMs;
use crate::state::State;
use crate::waits::Wait;

/// A lock at the applied cluster time.
#[derive(Debug, Clone, Copy)]
pub struct LockView<'a> {
    pub name: &'a LockName,
    pub record: &'a LockRecord,
    now: ClusterMs,
}

/// A claim of a lock at the applied cluster time.
#[derive(Debug, Clone, Copy)]
pub enum ClaimView<'a> {
    Held(&'a LockHolder),
    Waiting(&'a LockWaiter),
}

impl ClaimView<'_> {
    /// Returns whether a request belongs to the claim.
    #[must_use]
    pub fn has_request(self, attempt: Attempt) -> bool {
        let attempts = match self {
            Self::Held(holder) => &holder.attempts,
            Self::Waiting(waiter) => &waiter.attempts,
        };
        attempts.contains(&attempt)
    }
}

impl<'a> LockView<'a> {
    /// Returns the holders, by token.
    pub fn holders(self) -> impl Iterator<Item = &'a LockHolder> {
        let holders = self.record.holders.iter();
        holders.filter(move |holder| holder.until > self.now)
    }

    /// Returns the waiters in the order in which they are served.
    pub fn waiters(self) -> impl Iterator<Item = &'a LockWaiter> {
        let waiters = self.record.waiters.iter();
        waiters.filter(move |waiter| waiter.until > self.now)
    }

    /// Returns the time until which the lock is granted to no client.
    #[must_use]
    pub fn delayed_until(self) -> Option<ClusterMs> {
        self.record.delay_at(self.now)
    }

    /// Returns the applied cluster time.
    #[must_use]
    pub fn now(self) -> ClusterMs {
        self.now
    }

    /// Returns the claim of this owner and nonce.
    #[must_use]
    pub fn claim(self, owner: &str, nonce: Nonce) -> Option<ClaimView<'a>> {
        let is_it = |claim: &Claim| claim.is_of(owner, nonce);
        let holder = self.holders().find(|holder| is_it(&holder.claim));
        let waiting = || self.waiters().find(|waiter| is_it(&waiter.claim));
        holder
            .map(ClaimView::Held)
            .or_else(|| waiting().map(ClaimView::Waiting))
    }

    /// Returns the holder with this token.
    #[must_use]
    pub fn holder(self, token: FencingToken) -> Option<&'a LockHolder> {
        self.holders().find(|holder| holder.token == token)
    }

    /// Returns whether the lock has a holder, a waiter or a delay.
    #[must_use]
    pub fn is_in_use(self) -> bool {
        self.holders().next().is_some()
            || self.waiters().next().is_some()
            || self.delayed_until().is_some()
    }
}

impl State {
    /// Returns a lock that is held, waited for or delayed.
    #[must_use]
    pub fn lock(&self, name: &str) -> Option<LockView<'_>> {
        let from: (Bound<&str>, Bound<&str>) = (Bound::Included(name), Bound::Included(name));
        let (name, record) = self.tables.locks.range::<str>(from).next()?;
        let now = self.cluster_ms();
        Some(LockView { name, record, now }).filter(|lock| lock.is_in_use())
    }

    /// Returns the locks after `after` whose names begin with `prefix`, by name. Includes locks
    /// whose holds and waits have expired and that have not been removed yet.
    pub fn locks<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a LockName>,
    ) -> impl Iterator<Item = LockView<'a>> {
        let from = match after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix),
        };
        let now = self.cluster_ms();
        let behind = self.tables.locks.range::<str>((from, Bound::Unbounded));
        let matching = behind.take_while(move |(name, _)| name.as_str().starts_with(prefix));
        matching.map(move |(name, record)| LockView { name, record, now })
    }

    #[must_use]
    pub fn lock_counts(&self) -> LockCounts {
        self.lock_tally.counts
    }

    /// Returns the waits that the last entry ended.
    #[must_use]
    pub fn ended_waits(&self) -> &[Wait] {
        &self.lock_tally.ended
    }
}
