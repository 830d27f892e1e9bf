//! Locks: the holders of each lock, the lifetime of their holds, and the next waiters.
//!
//! A hold is exclusive only by the cluster's applied time. The protected resource must compare the
//! holder's fencing token. Each command first settles its lock: holds and waits that have expired
//! by the record's own times end, and the next waiters are granted the lock. The result therefore
//! does not depend on whether the index of deadlines, which passes a bounded number per entry, has
//! reached the lock.
//!
//! Invariants, over all entries ever applied:
//! - Each grant has a greater token than every earlier grant, of any lock.
//! - A hold ends by its release, by the withdrawal of all its requests, by an operator's break, or
//!   at its end, which never moves to an earlier time.
//! - After a hold expires, the lock is not granted before the delay has ended.

use seqd_guards::is_out;
use seqd_idgen::WallMs;

use crate::cluster::settings::{Counter, draw};
use crate::context::ApplyContext;
use crate::deadlines::{Deadlines, Expiring, Passing};
use crate::locks::commands::{
    AcquireLock, BrokenHold, LockCommand, LockOutcome, LockRefusal, MAX_BROKEN_NAMED, MAX_CLAIMS,
    MAX_LOCKS,
};
use crate::locks::names::{Attempt, FencingToken, LockName, Nonce};
use crate::locks::record::{Claim, LockRecord, LockWaiter, MAX_WAITERS};
use crate::locks::tally::LockTally;
use crate::newtypes::ClusterMs;
use crate::table::Table;
use crate::tenant::Tenant;
use crate::waits::Wait;

impl Expiring for LockRecord {
    fn deadline(&self, _: &LockName, _: &ApplyContext<'_>) -> Option<ClusterMs> {
        self.next_time()
    }

    fn pass(table: &mut Table<Self>, name: &LockName, passing: Passing<'_>) {
        Locks::new(table, passing).settle(name);
    }
}

/// The locks, with the counter, the deadlines and the tally, while an entry is applied.
pub(crate) struct Locks<'a> {
    table: &'a mut Table<LockRecord>,
    counter: &'a mut Table<Counter>,
    deadlines: &'a mut Deadlines,
    tally: &'a mut LockTally,
    now: ClusterMs,
}

impl<'a> Locks<'a> {
    pub(crate) fn new(table: &'a mut Table<LockRecord>, passing: Passing<'a>) -> Self {
        let Passing {
            stamp_wall_ms: WallMs(wall_ms),
            cluster_ms,
            counter,
            deadlines,
            tally,
        } = passing;
        let now = if is_out!(HoldsEndByClusterTime) {
            ClusterMs(wall_ms)
        } else {
            cluster_ms
        };
        Self {
            table,
            counter,
            deadlines,
            tally,
            now,
        }
    }

    pub(crate) fn apply(&mut self, command: &LockCommand) -> Result<LockOutcome, LockRefusal> {
        command.check()?;
        self.settle(command.name());
        match command {
            LockCommand::Acquire(asked) => self.acquire(asked),
            LockCommand::Renew {
                name,
                token,
                ttl_ms,
            } => self.renew(name, *token, *ttl_ms),
            LockCommand::Release { name, token } => self.release(name, *token),
            LockCommand::Break { name, token } => self.break_holds(name, *token),
            LockCommand::Withdraw {
                name,
                nonce,
                attempt,
            } => Ok(self.withdraw(name, *nonce, *attempt)),
        }
    }

    /// Ends expired holds and waits, and grants the lock to the next waiters.
    fn settle(&mut self, name: &LockName) {
        if self
            .table
            .get(name)
            .is_some_and(|record| record.is_due(self.now))
        {
            self.change(name, |_, _| ());
        }
    }

    /// Changes the record of a lock, grants the lock to the next waiters, and updates the deadline
    /// and the counts. Removes the record if nothing of it remains. Returns `None` if there is no
    /// record.
    fn change<T>(
        &mut self,
        name: &LockName,
        change: impl FnOnce(&mut LockRecord, &mut Table<Counter>) -> T,
    ) -> Option<T> {
        let now = self.now;
        let record = self.table.get_mut(name)?;
        let claims =
            |record: &LockRecord| (record.holders.len() as u64, record.waiters.len() as u64);
        let first = |record: &LockRecord| record.holders.first().map(|holder| holder.token);
        let (deadline, before) = (record.next_time(), claims(record));
        let held = first(record);
        let charged: Vec<Tenant> = record.tenants().collect();
        let (given_up, expired) = record.drop_over(now);
        let changed = change(record, self.counter);
        let mut ended = given_up;
        while let Some(claim) = record.take_next(now) {
            ended.push(claim.nonce);
            record.hold(claim, next_token(self.counter), now);
            self.tally.counts.granted += 1;
        }
        if held != first(record) {
            self.tally.ended.push(Wait::Holder { name: name.clone() });
        }
        self.tally.moved(before, claims(record));
        self.tally.counts.expired += expired;
        self.tally
            .ended
            .extend(ended.into_iter().map(|nonce| Wait::Lock {
                name: name.clone(),
                nonce,
            }));
        let (next, is_over) = (record.next_time(), record.is_over());
        let charges: Vec<Tenant> = record.tenants().collect();
        let (less, more) = differing(&charged, &charges);
        self.table.recharge(less, more);
        if let Some(at) = deadline.filter(|at| Some(*at) != next) {
            self.deadlines.remove::<LockRecord>(at, name);
        }
        if let Some(at) = next {
            self.deadlines.insert::<LockRecord>(at, name);
        }
        if is_over {
            self.table.remove(name);
        }
        self.tally.counts.locks = self.table.len() as u64;
        Some(changed)
    }

    fn acquire(&mut self, asked: &AcquireLock) -> Result<LockOutcome, LockRefusal> {
        let (name, now) = (&asked.name, self.now);
        if let Some(record) = self.table.get(name)
            && let Some(claim) = record.claim(&asked.owner, asked.nonce)
        {
            // Each request of a secret owner enters the lock once, so each one must be
            // distinguished.
            let is_full = asked.nonce.has_secret_owner() && claim.is_full(asked.attempt);
            if is_full || !record.has_terms(claim, asked) {
                let name = name.clone();
                return Err(LockRefusal::TermsDiffer { name });
            }
            if let Some(joined) = self.join(asked) {
                self.wake(asked);
                return Ok(joined);
            }
        }
        let Some(record) = self.table.get(name) else {
            self.check_room()?;
            self.table.put(name.clone(), LockRecord::new(asked.permits));
            return self.grant(asked);
        };
        if record.permits != asked.permits && !record.is_unused() {
            let (asked, permits, name) = (asked.permits, record.permits, name.clone());
            return Err(LockRefusal::PermitsDiffer {
                name,
                asked,
                permits,
            });
        }
        if record.is_open(asked.shared, now) {
            self.check_room()?;
            return self.grant(asked);
        }
        if asked.wait_ms == 0 {
            return Err(held(name, record, now));
        }
        if record.waiters.len() >= MAX_WAITERS {
            return Err(LockRefusal::TooManyWaiters { name: name.clone() });
        }
        self.check_room()?;
        self.enqueue(asked)
    }

    /// Joins the request to the claim of this owner and nonce and returns the response of that
    /// claim.
    fn join(&mut self, asked: &AcquireLock) -> Option<LockOutcome> {
        let wait_until = ClusterMs(self.now.0.saturating_add(asked.wait_ms));
        let (owner, nonce, attempt) = (&asked.owner, asked.nonce, asked.attempt);
        self.change(&asked.name, |record, _| {
            if let Some(holder) = record.joined_holder(owner, nonce, attempt) {
                let (token, until) = (holder.token, holder.until);
                return Some(LockOutcome::Held { token, until });
            }
            let (place, until) = record.joined_waiter(owner, nonce, (attempt, wait_until))?;
            Some(waiting(place, until))
        })?
    }

    /// Wakes the request that waits for this claim. The request's node may receive the outcome from
    /// the leader before it applies the entry.
    fn wake(&mut self, asked: &AcquireLock) {
        let (name, nonce) = (asked.name.clone(), asked.nonce);
        self.tally.ended.push(Wait::Lock { name, nonce });
    }

    fn grant(&mut self, asked: &AcquireLock) -> Result<LockOutcome, LockRefusal> {
        let now = self.now;
        let granted = self.change(&asked.name, |record, counter| {
            record.permits = asked.permits;
            let token = next_token(counter);
            let until = record.hold(Claim::of(asked), token, now);
            LockOutcome::Held { token, until }
        });
        self.tally.counts.granted += 1;
        self.wake(asked);
        granted.ok_or(LockRefusal::TooManyLocks)
    }

    fn enqueue(&mut self, asked: &AcquireLock) -> Result<LockOutcome, LockRefusal> {
        let until = ClusterMs(self.now.0.saturating_add(asked.wait_ms));
        let queued = self.change(&asked.name, |record, _| {
            record.permits = asked.permits;
            let place = record.waiters.len();
            record.waiters.push_back(LockWaiter {
                claim: Claim::of(asked),
                until,
            });
            waiting(place, until)
        });
        queued.ok_or(LockRefusal::TooManyLocks)
    }

    fn renew(
        &mut self,
        name: &LockName,
        token: FencingToken,
        ttl_ms: u64,
    ) -> Result<LockOutcome, LockRefusal> {
        let until = self.now.after(ttl_ms);
        self.of_hold(name, token, |record, place| {
            let holder = record.holders.get_mut(place)?;
            holder.until = holder.until.max(until);
            Some(LockOutcome::Renewed {
                owner: holder.shown_owner(),
                until: holder.until,
            })
        })
    }

    fn release(
        &mut self,
        name: &LockName,
        token: FencingToken,
    ) -> Result<LockOutcome, LockRefusal> {
        self.of_hold(name, token, |record, place| {
            record.holders.remove(place);
            Some(LockOutcome::Released)
        })
    }

    /// Changes the hold with this token. `change` receives its index.
    fn of_hold(
        &mut self,
        name: &LockName,
        token: FencingToken,
        change: impl FnOnce(&mut LockRecord, usize) -> Option<LockOutcome>,
    ) -> Result<LockOutcome, LockRefusal> {
        let place = (self.table.get(name)).and_then(|record| record.place_of(token));
        let changed = place.and_then(|place| self.change(name, |record, _| change(record, place)));
        let lost = || LockRefusal::Lost { name: name.clone() };
        changed.flatten().ok_or_else(lost)
    }

    fn break_holds(
        &mut self,
        name: &LockName,
        token: Option<FencingToken>,
    ) -> Result<LockOutcome, LockRefusal> {
        let not_held = || LockRefusal::NotHeld {
            name: name.clone(),
            token,
        };
        let is_there = self.table.get(name).is_some_and(|record| match token {
            Some(token) => record.place_of(token).is_some(),
            None => !record.holders.is_empty() || record.delay_at(self.now).is_some(),
        });
        if !is_there {
            return Err(not_held());
        }
        let broken = self.change(name, |record, _| {
            let ended: Vec<BrokenHold> = (record.holders)
                .extract_if(.., |holder| token.is_none_or(|token| holder.token == token))
                .map(|holder| BrokenHold {
                    token: holder.token,
                    owner: holder.shown_owner(),
                })
                .collect();
            if token.is_none() {
                record.delayed_until = ClusterMs(0);
            }
            LockOutcome::Broken {
                ended: u32::try_from(ended.len()).unwrap_or(u32::MAX),
                holders: ended.into_iter().take(MAX_BROKEN_NAMED).collect(),
            }
        });
        broken.ok_or_else(not_held)
    }

    fn withdraw(&mut self, name: &LockName, nonce: Nonce, attempt: Attempt) -> LockOutcome {
        let is_there = (self.table.get(name)).is_some_and(|record| record.has_nonce(nonce));
        let withdrawn = is_there
            .then(|| self.change(name, |record, _| record.withdraw(nonce, attempt)))
            .flatten();
        let ended = withdrawn.unwrap_or(false);
        LockOutcome::Withdrawn { ended }
    }

    /// Refuses another claim when the cluster has the maximum number of locks or claims.
    fn check_room(&self) -> Result<(), LockRefusal> {
        let counts = &self.tally.counts;
        if self.table.len() >= MAX_LOCKS || counts.holders + counts.waiters >= MAX_CLAIMS {
            return Err(LockRefusal::TooManyLocks);
        }
        Ok(())
    }
}

/// Returns the parts in which two lists of claims differ: a claim was added at an end, or some
/// claims were removed.
fn differing<'a>(before: &'a [Tenant], after: &'a [Tenant]) -> (&'a [Tenant], &'a [Tenant]) {
    let pairs = before.iter().zip(after);
    let alike = pairs.take_while(|(one, other)| one == other).count();
    let (before, after) = (&before[alike..], &after[alike..]);
    let pairs = before.iter().rev().zip(after.iter().rev());
    let alike = pairs.take_while(|(one, other)| one == other).count();
    let (less, more) = (before.len() - alike, after.len() - alike);
    (&before[..less], &after[..more])
}

fn next_token(counter: &mut Table<Counter>) -> FencingToken {
    if is_out!(GrantDrawsToken) {
        let counter = counter.get(&()).copied().unwrap_or_default();
        return FencingToken(counter.last);
    }
    FencingToken(draw(counter))
}

fn waiting(place: usize, until: ClusterMs) -> LockOutcome {
    let ahead = u32::try_from(place).unwrap_or(u32::MAX);
    LockOutcome::Waiting { ahead, until }
}

fn held(name: &LockName, record: &LockRecord, now: ClusterMs) -> LockRefusal {
    let holder = record.first_to_end();
    let ends = holder.map(|holder| holder.until);
    let until = record.delay_at(now).into_iter().chain(ends).max();
    LockRefusal::Held {
        name: name.clone(),
        holder: holder.cloned().map(Box::new),
        retry_after_ms: until.map_or(1, |until| until.0.saturating_sub(now.0).max(1)),
    }
}

#[cfg(test)]
mod tests;
