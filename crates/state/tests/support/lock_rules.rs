//! An independent implementation of the rules of locks, over a plain list of claims, and the
//! observable part of the state.

use std::collections::BTreeMap;

use seqd_state::State;

/// The locks of the model.
pub(crate) const NAMES: [&str; 2] = ["a", "b/1 %"];

/// A claim according to the rules. `held` is its token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Claim {
    pub(crate) nonce: u8,
    pub(crate) attempts: Vec<u64>,
    pub(crate) ttl_ms: u64,
    pub(crate) shared: bool,
    pub(crate) lock_delay_ms: u64,
    pub(crate) until: u64,
    pub(crate) held: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Lock {
    pub(crate) permits: u32,
    /// The claims, in order of arrival.
    pub(crate) claims: Vec<Claim>,
    pub(crate) delayed_until: u64,
}

pub(crate) fn owner(nonce: u8) -> String {
    format!("owner {}", nonce % 3)
}

impl Lock {
    pub(crate) fn ends(&mut self, now: u64) {
        for claim in self.claims.iter().filter(|claim| claim.until <= now) {
            if claim.held.is_some() && claim.lock_delay_ms > 0 {
                self.delayed_until = self.delayed_until.max(claim.until + claim.lock_delay_ms);
            }
        }
        self.claims.retain(|claim| claim.until > now);
    }

    pub(crate) fn has_room(&self, shared: bool, now: u64) -> bool {
        let held = self.claims.iter().filter(|claim| claim.held.is_some());
        let (sharing, alone): (Vec<_>, Vec<_>) = held.partition(|claim| claim.shared);
        let fits = if shared {
            alone.is_empty()
        } else {
            sharing.is_empty() && (alone.len() as u32) < self.permits
        };
        fits && self.delayed_until <= now
    }

    pub(crate) fn grants(&mut self, now: u64, last_token: &mut u64) {
        while let Some(next) = self.claims.iter().position(|claim| claim.held.is_none()) {
            let shared = self.claims[next].shared;
            if !self.has_room(shared, now) {
                return;
            }
            *last_token += 1;
            let claim = &mut self.claims[next];
            claim.held = Some(*last_token);
            claim.until = now + claim.ttl_ms + 1;
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) nonce: u8,
    pub(crate) token: u64,
    pub(crate) shared: bool,
    pub(crate) until: u64,
}

impl Hold {
    pub(crate) fn is(&self, other: &Hold) -> bool {
        (self.nonce, self.token) == (other.nonce, other.token)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct SeenLock {
    pub(crate) holders: Vec<Hold>,
    /// The waiters, with the ends of their waits.
    pub(crate) waiters: Vec<(u8, u64)>,
}

pub(crate) type Seen = BTreeMap<&'static str, SeenLock>;

pub(crate) fn seen(state: &State) -> Seen {
    let of = |name: &'static str| {
        let Some(lock) = state.lock(name) else {
            return (name, SeenLock::default());
        };
        let holders = lock.holders().map(|holder| Hold {
            nonce: holder.nonce.0 as u8,
            token: holder.token.0,
            shared: holder.shared,
            until: holder.until.0,
        });
        let waiters = lock
            .waiters()
            .map(|waiter| (waiter.nonce.0 as u8, waiter.until.0));
        let (holders, waiters) = (holders.collect(), waiters.collect());
        (name, SeenLock { holders, waiters })
    };
    NAMES.into_iter().map(of).collect()
}
