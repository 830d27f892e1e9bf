//! No lock has more holders than it allows, regardless of requests, retries, waits, withdrawals and
//! late messages, and waiters are served in order of arrival.
//!
//! The test implements the rules independently, over a plain list of claims in order of arrival.
//! The wall clocks of the entries step in both directions and must not matter.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use seqd_state::{
    AcquireLock, Attempt, ClusterMs, FencingToken, LockCommand, LockName, LockOutcome, LockRefusal,
    Nonce, Outcome, Refusal, State,
};
use support::commands::apply_one;
use support::lock_rules::{Claim, Hold, Lock, NAMES, Seen, owner, seen};
use support::lock_steps::{LONGEST_MS, Step, steps};
use support::{founded, stamp};

/// After the IDs of the three founders.
const FIRST_TOKEN: u64 = 4;

#[derive(Debug)]
struct World {
    state: State,
    locks: BTreeMap<&'static str, Lock>,
    cluster: u64,
    last_token: u64,
    /// The tokens that were granted for each lock, with their owners.
    granted: BTreeMap<&'static str, Vec<(u64, String)>>,
}

/// The expected outcome of a command.
#[derive(Debug, PartialEq)]
enum Expected {
    Held(u64, u64),
    Waiting(u64, u64),
    Renewed(u64),
    Released,
    Withdrawn(bool),
    Busy,
    Lost,
    Broken(u32),
    NotHeld,
    Permits,
    Terms,
}

impl World {
    /// Returns the step; if it is a retry, with the terms of the existing claim.
    fn repeated(&self, name: &str, step: &Step) -> Step {
        let mut step = step.clone();
        if let Step::Acquire {
            nonce,
            ttl_ms,
            permits,
            shared,
            lock_delay_ms,
            as_before: true,
            ..
        } = &mut step
        {
            let lock = &self.locks[name];
            if let Some(claim) = lock.claims.iter().find(|claim| claim.nonce == *nonce) {
                (*ttl_ms, *permits) = (claim.ttl_ms, lock.permits);
                (*shared, *lock_delay_ms) = (claim.shared, claim.lock_delay_ms);
            }
        }
        step
    }

    fn acquire(&mut self, name: &'static str, step: &Step) -> Expected {
        let Step::Acquire {
            nonce,
            attempt,
            ttl_ms,
            wait_ms,
            permits,
            shared,
            lock_delay_ms,
            ..
        } = *step
        else {
            panic!("{step:?}");
        };
        let now = self.cluster;
        let lock = self.locks.get_mut(name).unwrap();
        let waits = |claim: &&Claim| claim.held.is_none();
        if let Some(place) = lock.claims.iter().position(|claim| claim.nonce == nonce) {
            let ahead = lock.claims[..place].iter().filter(waits).count() as u64;
            let claim = &mut lock.claims[place];
            let asked = (ttl_ms, permits, shared, lock_delay_ms);
            if asked
                != (
                    claim.ttl_ms,
                    lock.permits,
                    claim.shared,
                    claim.lock_delay_ms,
                )
            {
                return Expected::Terms;
            }
            if !claim.attempts.contains(&attempt) {
                claim.attempts.push(attempt);
            }
            if let Some(token) = claim.held {
                return Expected::Held(token, claim.until);
            }
            claim.until = claim.until.max(now + wait_ms);
            return Expected::Waiting(ahead, claim.until);
        }
        if lock.claims.is_empty() {
            lock.permits = permits;
        } else if lock.permits != permits {
            return Expected::Permits;
        }
        let ahead = lock.claims.iter().filter(waits).count() as u64;
        let is_free = ahead == 0 && lock.has_room(shared, now);
        if !is_free && wait_ms == 0 {
            return Expected::Busy;
        }
        lock.claims.push(Claim {
            nonce,
            attempts: vec![attempt],
            ttl_ms,
            shared,
            lock_delay_ms,
            until: now + if is_free { ttl_ms + 1 } else { wait_ms },
            held: None,
        });
        lock.grants(now, &mut self.last_token);
        let claim = lock.claims.last().unwrap();
        match claim.held {
            Some(token) => Expected::Held(token, claim.until),
            None => Expected::Waiting(ahead, claim.until),
        }
    }

    fn prolong(&mut self, name: &'static str, token: u64, ttl_ms: u64) -> Option<u64> {
        let until = self.cluster + ttl_ms + 1;
        let mut claims = self.locks.get_mut(name).unwrap().claims.iter_mut();
        let claim = claims.find(|claim| claim.held == Some(token))?;
        claim.until = claim.until.max(until);
        Some(claim.until)
    }

    fn release(&mut self, name: &'static str, token: u64) -> Expected {
        let now = self.cluster;
        let lock = self.locks.get_mut(name).unwrap();
        if !lock.claims.iter().any(|claim| claim.held == Some(token)) {
            return Expected::Lost;
        }
        lock.claims.retain(|claim| claim.held != Some(token));
        lock.grants(now, &mut self.last_token);
        Expected::Released
    }

    fn break_holds(&mut self, name: &'static str, token: Option<u64>) -> Expected {
        let now = self.cluster;
        let lock = self.locks.get_mut(name).unwrap();
        let before = lock.claims.len();
        let is_broken =
            |claim: &Claim| claim.held.is_some() && token.is_none_or(|it| claim.held == Some(it));
        lock.claims.retain(|claim| !is_broken(claim));
        let ended = (before - lock.claims.len()) as u32;
        let is_delayed = token.is_none() && lock.delayed_until > now;
        if is_delayed {
            lock.delayed_until = 0;
        }
        lock.grants(now, &mut self.last_token);
        if ended > 0 || is_delayed {
            Expected::Broken(ended)
        } else {
            Expected::NotHeld
        }
    }

    fn withdraw(&mut self, name: &'static str, nonce: u8, attempt: u64) -> Expected {
        let now = self.cluster;
        let lock = self.locks.get_mut(name).unwrap();
        let before = lock.claims.len();
        lock.claims.retain_mut(|claim| {
            if claim.nonce == nonce {
                claim.attempts.retain(|kept| *kept != attempt);
            }
            !claim.attempts.is_empty()
        });
        let ended = lock.claims.len() < before;
        lock.grants(now, &mut self.last_token);
        Expected::Withdrawn(ended)
    }

    /// Returns a token that was granted for this lock, and its owner.
    fn known(&self, name: &str, which: &Index) -> (u64, String) {
        let known = &self.granted[name];
        if known.is_empty() {
            return (77, owner(0));
        }
        known[which.index(known.len())].clone()
    }

    /// Returns the command of a step and the outcome that the rules expect.
    fn play(&mut self, name: &'static str, step: &Step) -> (LockCommand, Expected) {
        let lock = || LockName::new(name).unwrap();
        match step {
            Step::Acquire { nonce, .. } => {
                let step = &self.repeated(name, step);
                let expected = self.acquire(name, step);
                (acquire_of(name, *nonce, step), expected)
            }
            Step::Renew(which, ttl_ms) => {
                let (token, _) = self.known(name, which);
                let until = self.prolong(name, token, *ttl_ms);
                let renew = LockCommand::Renew {
                    name: lock(),
                    token: FencingToken(token),
                    ttl_ms: *ttl_ms,
                };
                (renew, until.map_or(Expected::Lost, Expected::Renewed))
            }
            Step::Release(which) => {
                let (token, _) = self.known(name, which);
                let expected = self.release(name, token);
                let (name, token) = (lock(), FencingToken(token));
                (LockCommand::Release { name, token }, expected)
            }
            Step::Break(which) => {
                let token = which.as_ref().map(|which| self.known(name, which).0);
                let expected = self.break_holds(name, token);
                let (name, token) = (lock(), token.map(FencingToken));
                (LockCommand::Break { name, token }, expected)
            }
            Step::Withdraw { nonce, attempt } => {
                let expected = self.withdraw(name, *nonce, *attempt);
                let withdraw = LockCommand::Withdraw {
                    name: lock(),
                    nonce: Nonce((*nonce).into()),
                    attempt: Attempt(*attempt),
                };
                (withdraw, expected)
            }
            Step::Restart => panic!("a restart is no command"),
        }
    }

    /// Checks the properties that hold independently of the rules, as seen from outside.
    fn check_holds(&mut self, before: &Seen, ended_by_step: bool, played: &'static str) {
        let seen = seen(&self.state);
        let tokens = |granted: &BTreeMap<_, Vec<(u64, String)>>| {
            let tokens: Vec<u64> = granted
                .values()
                .flatten()
                .map(|(token, _)| *token)
                .collect();
            tokens
        };
        let known = tokens(&self.granted);
        let highest = known.iter().copied().max().unwrap_or(FIRST_TOKEN - 1);
        for name in NAMES {
            let holders = &seen[name].holders;
            let (sharing, alone): (Vec<_>, Vec<_>) = holders.iter().partition(|hold| hold.shared);
            let permits = self.locks[name].permits as usize;
            assert!(
                alone.len() <= permits && (alone.is_empty() || sharing.is_empty()),
                "granted while it is held: {holders:?}"
            );
            let is_new = |hold: &&Hold| !before[name].holders.iter().any(|old| old.is(hold));
            for hold in holders.iter().filter(is_new) {
                let is_new = !tokens(&self.granted).contains(&hold.token);
                assert!(
                    is_new && hold.token > highest,
                    "a token does not rise: {hold:?}"
                );
                let granted = self.granted.get_mut(name).unwrap();
                granted.push((hold.token, owner(hold.nonce)));
                let queue = before[name].waiters.iter();
                let earlier = queue.take_while(|(nonce, _)| *nonce != hold.nonce);
                let waits = |(nonce, until): &&(u8, u64)| {
                    let mut waiters = seen[name].waiters.iter();
                    *until > self.cluster && waiters.any(|(waiter, _)| waiter == nonce)
                };
                let passed: Vec<_> = earlier.filter(waits).collect();
                assert!(passed.is_empty(), "it passed {passed:?}, who came before");
            }
            for hold in &before[name].holders {
                let is_there = holders.iter().any(|now| now.is(hold));
                let may_end = hold.until <= self.cluster || (ended_by_step && name == played);
                assert!(
                    is_there || may_end,
                    "a hold ended before its time: {hold:?}"
                );
            }
        }
    }

    /// Checks that the state matches the rules.
    fn check_state(&self) {
        for (name, expected) in &self.locks {
            let lock = self.state.lock(name);
            let claims = |held: bool| {
                let claims = expected.claims.iter();
                claims.filter(move |claim| claim.held.is_some() == held)
            };
            let holders: Vec<_> = claims(true)
                .map(|claim| (claim.held.unwrap(), u128::from(claim.nonce), claim.until))
                .collect();
            let seen: Vec<_> = lock
                .iter()
                .flat_map(|lock| lock.holders())
                .map(|holder| (holder.token.0, holder.nonce.0, holder.until.0))
                .collect();
            assert_eq!(seen, holders, "{name}");
            let waiters: Vec<_> = claims(false)
                .map(|claim| (u128::from(claim.nonce), claim.until))
                .collect();
            let seen: Vec<_> = lock
                .iter()
                .flat_map(|lock| lock.waiters())
                .map(|waiter| (waiter.nonce.0, waiter.until.0))
                .collect();
            assert_eq!(seen, waiters, "{name}");
            let delay =
                Some(ClusterMs(expected.delayed_until)).filter(|until| until.0 > self.cluster);
            assert_eq!(lock.and_then(|lock| lock.delayed_until()), delay, "{name}");
        }
        let claims = || self.locks.values().flat_map(|lock| &lock.claims);
        let held = claims().filter(|claim| claim.held.is_some()).count() as u64;
        let counts = self.state.lock_counts();
        assert_eq!(
            (counts.holders, counts.waiters),
            (held, claims().count() as u64 - held)
        );
        let rows = self.state.rows().filter(|(key, _)| key[0] == b'm').count() as u64;
        assert_eq!(counts.locks, rows, "a lock that nobody uses has no row");
    }
}

fn plain(name: &str, owner: String, ttl_ms: u64) -> AcquireLock {
    AcquireLock {
        tenant: seqd_state::Tenant::OPERATOR,
        name: LockName::new(name).unwrap(),
        owner,
        nonce: Nonce(99),
        attempt: Attempt(1),
        ttl_ms,
        wait_ms: 0,
        permits: 1,
        shared: false,
        lock_delay_ms: 0,
    }
}

fn acquire_of(name: &str, nonce: u8, step: &Step) -> LockCommand {
    let Step::Acquire {
        attempt,
        ttl_ms,
        wait_ms,
        permits,
        shared,
        lock_delay_ms,
        ..
    } = *step
    else {
        panic!("{step:?}");
    };
    LockCommand::Acquire(AcquireLock {
        tenant: seqd_state::Tenant::OPERATOR,
        nonce: Nonce(nonce.into()),
        attempt: Attempt(attempt),
        wait_ms,
        permits,
        shared,
        lock_delay_ms,
        ..plain(name, owner(nonce), ttl_ms)
    })
}

fn of_outcome(outcome: Outcome) -> Expected {
    match outcome {
        Outcome::Locks(outcome) => match outcome {
            LockOutcome::Held { token, until } => Expected::Held(token.0, until.0),
            LockOutcome::Waiting { ahead, until } => Expected::Waiting(ahead.into(), until.0),
            LockOutcome::Renewed { until, .. } => Expected::Renewed(until.0),
            LockOutcome::Released => Expected::Released,
            LockOutcome::Broken { ended, .. } => Expected::Broken(ended),
            LockOutcome::Withdrawn { ended } => Expected::Withdrawn(ended),
        },
        Outcome::Refused(Refusal::Locks(refusal)) => match refusal {
            LockRefusal::Held { retry_after_ms, .. } => {
                assert!(retry_after_ms > 0);
                Expected::Busy
            }
            LockRefusal::Lost { .. } => Expected::Lost,
            LockRefusal::NotHeld { .. } => Expected::NotHeld,
            LockRefusal::PermitsDiffer { .. } => Expected::Permits,
            LockRefusal::TermsDiffer { .. } => Expected::Terms,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Returns whether only the holder of the token can get this outcome.
fn is_of_holder(outcome: &Expected) -> bool {
    matches!(
        outcome,
        Expected::Renewed(_) | Expected::Released | Expected::Broken(_)
    )
}

fn until(outcome: &Expected) -> Option<u64> {
    match outcome {
        Expected::Held(_, until) | Expected::Waiting(_, until) | Expected::Renewed(until) => {
            Some(*until)
        }
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_script_has_a_lock_held_twice_or_out_of_turn(steps in steps()) {
        let mut world = World {
            state: founded(),
            locks: NAMES.map(|name| (name, Lock::default())).into(),
            cluster: 0,
            last_token: FIRST_TOKEN - 1,
            granted: NAMES.map(|name| (name, Vec::new())).into(),
        };
        let mut wall = 1_000_000i64;
        for (which, wall_step, passes, step) in steps {
            wall = (wall + wall_step).max(0);
            world.cluster += passes;
            let (name, now) = (NAMES[which], world.cluster);
            if matches!(step, Step::Restart) {
                world.state = State::from_rows(world.state.rows()).unwrap();
            }
            let before = seen(&world.state);
            // The rules pass the time first, in the order of the deadlines.
            let mut due: Vec<_> = world.locks.iter().filter_map(|(name, lock)| {
                let times = lock.claims.iter().map(|claim| claim.until);
                let delay = (lock.delayed_until > 0).then_some(lock.delayed_until);
                let first = times.chain(delay).min()?;
                (first <= now).then_some((first, *name))
            }).collect();
            due.sort_unstable();
            for (_, name) in due {
                let lock = world.locks.get_mut(name).unwrap();
                lock.ends(now);
                if lock.delayed_until <= now {
                    lock.delayed_until = 0;
                }
                lock.grants(now, &mut world.last_token);
            }
            let stamp = stamp(wall as u64, now);
            if matches!(step, Step::Restart) {
                let empty = seqd_state::Entry { stamp, commands: Vec::new() };
                world.state.apply(&empty, None);
                world.check_holds(&before, false, name);
                world.check_state();
                continue;
            }
            let (command, expected) = world.play(name, &step);
            let outcome = of_outcome(apply_one(&mut world.state, stamp, command.into()));
            prop_assert!(
                until(&outcome).is_none_or(|until| until <= now + LONGEST_MS + 1),
                "its end is not by the time of the cluster: {outcome:?}"
            );
            prop_assert!(
                !is_of_holder(&outcome) || is_of_holder(&expected),
                "by a token that does not hold it: {step:?}"
            );
            let is_early = matches!(
                (&outcome, &expected),
                (Expected::Withdrawn(true), Expected::Withdrawn(false))
            );
            prop_assert!(!is_early, "withdrawn from under another request: {step:?}");
            let ends = matches!(
                outcome,
                Expected::Released | Expected::Broken(_) | Expected::Withdrawn(true)
            );
            world.check_holds(&before, ends, name);
            prop_assert_eq!(outcome, expected, "{:?}", step);
            world.check_state();
        }
    }
}
