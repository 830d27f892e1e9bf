//! Tests of the limits, of the locks after a restore, and of independence from the index of
//! deadlines.

use super::*;
use crate::deadlines::PASSED_PER_ENTRY;
use crate::domains::{Command, Outcome, Refusal};
use crate::locks::record::MAX_HOLDERS;
use crate::locks::view::ClaimView;
use crate::state::State;
use crate::testing::{entry, founded, restore};

fn asked(name: &str, nonce: u128, wait_ms: u64) -> AcquireLock {
    AcquireLock {
        tenant: crate::Tenant::OPERATOR,
        name: name.parse().unwrap(),
        owner: "pod".to_owned(),
        nonce: Nonce(nonce),
        attempt: Attempt(1),
        ttl_ms: 100,
        wait_ms,
        permits: 1,
        shared: false,
        lock_delay_ms: 0,
    }
}

fn acquire(name: &str, nonce: u128, wait_ms: u64) -> Command {
    LockCommand::Acquire(asked(name, nonce, wait_ms)).into()
}

fn withdraw(name: &str, nonce: u128, attempt: u64) -> Command {
    LockCommand::Withdraw {
        name: name.parse().unwrap(),
        nonce: Nonce(nonce),
        attempt: Attempt(attempt),
    }
    .into()
}

fn one(state: &mut State, at: u64, command: Command) -> Outcome {
    state.apply(&entry(at, vec![command]), None).remove(0)
}

fn is_held(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Locks(LockOutcome::Held { .. }))
}

fn refused(refusal: LockRefusal) -> Outcome {
    Outcome::Refused(Refusal::Locks(refusal))
}

#[test]
fn an_entry_passes_a_bounded_number_of_locks_and_the_others_are_free() {
    let mut state = founded();
    let locks = PASSED_PER_ENTRY + 2;
    let name = |at: usize| format!("{at:05}");
    let commands = (0..locks).map(|at| acquire(&name(at), 1, 0)).collect();
    state.apply(&entry(10, commands), None);
    let waits = (0..locks).map(|at| acquire(&name(at), 2, 60_000)).collect();
    state.apply(&entry(11, waits), None);
    assert_eq!(state.lock_counts().waiters, locks as u64);

    state.apply(&entry(111, Vec::new()), None);
    let granted = (state.ended_waits().iter()).filter(|it| matches!(it, Wait::Lock { .. }));
    assert_eq!(granted.count(), PASSED_PER_ENTRY);
    assert_eq!(
        state.lock_counts().waiters,
        2,
        "the rest is for the next entry"
    );
    let last = name(locks - 1);
    assert_eq!(state.lock(&last).unwrap().holders().count(), 0);
    // A command settles its lock, so the first waiter holds it.
    let mut read_back = State::from_rows(state.rows()).unwrap();
    for state in [&mut state, &mut read_back] {
        let stranger = one(state, 111, acquire(&last, 3, 0));
        assert!(matches!(
            stranger,
            Outcome::Refused(Refusal::Locks(LockRefusal::Held { .. }))
        ));
        assert!(
            state
                .lock(&last)
                .unwrap()
                .holders()
                .next()
                .is_some_and(|it| it.nonce == Nonce(2))
        );
        assert_eq!(state.lock_counts().waiters, 0);
        assert_eq!(state.lock_counts().holders, locks as u64);
    }
    assert_eq!(read_back.digest(), state.digest());
    assert_eq!(read_back.next_deadline(), state.next_deadline());
}

#[test]
fn a_lock_has_so_many_waiters_and_a_cluster_so_many_claims() {
    let mut state = founded();
    one(&mut state, 1, acquire("a", 0, 0));
    for nonce in 1..=MAX_WAITERS as u128 {
        let waits = one(&mut state, 1, acquire("a", nonce, 1_000));
        assert!(matches!(waits, Outcome::Locks(LockOutcome::Waiting { .. })));
    }
    let name: LockName = "a".parse().unwrap();
    let one_more = one(&mut state, 1, acquire("a", 9_999, 1_000));
    assert_eq!(one_more, refused(LockRefusal::TooManyWaiters { name }));
    let repeated = one(&mut state, 1, acquire("a", 5, 1_000));
    assert!(matches!(
        repeated,
        Outcome::Locks(LockOutcome::Waiting { ahead: 4, .. })
    ));

    state.lock_tally.counts.holders = MAX_CLAIMS - MAX_WAITERS as u64;
    let full = one(&mut state, 1, acquire("b", 0, 0));
    assert_eq!(full, refused(LockRefusal::TooManyLocks));
    state.lock_tally.counts.holders -= 1;
    assert!(is_held(&one(&mut state, 1, acquire("b", 0, 0))));
}

#[test]
fn the_largest_lock_fits_a_row() {
    let mut state = founded();
    let shared = |nonce, attempt| {
        let asked = AcquireLock {
            tenant: crate::Tenant::OPERATOR,
            owner: "o".repeat(128),
            attempt: Attempt(attempt),
            shared: true,
            wait_ms: 1_000,
            ..asked(&"n".repeat(255), nonce, 1_000)
        };
        LockCommand::Acquire(asked).into()
    };
    for nonce in 0..(MAX_HOLDERS + MAX_WAITERS) as u128 {
        for attempt in 1..=5 {
            one(&mut state, 1, shared(nonce, attempt));
        }
    }
    let counts = state.lock_counts();
    assert_eq!((counts.holders, counts.waiters), (1024, 3072));
    let rows: Vec<_> = state.rows().collect();
    let largest = rows.iter().map(|(_, value)| value.len()).max();
    assert!(largest > Some(800_000), "{largest:?}");
    let read_back = State::from_rows(rows).unwrap();
    assert_eq!(read_back.digest(), state.digest());
}

#[test]
fn too_many_requests_to_distinguish_leave_the_hold_until_it_expires() {
    let mut state = founded();
    for attempt in 1..=5 {
        let asked = AcquireLock {
            tenant: crate::Tenant::OPERATOR,
            attempt: Attempt(attempt),
            ..asked("a", 1, 0)
        };
        assert!(is_held(&one(
            &mut state,
            1,
            LockCommand::Acquire(asked).into()
        )));
    }
    for attempt in 1..=5 {
        let kept = LockOutcome::Withdrawn { ended: false };
        assert_eq!(
            one(&mut state, 1, withdraw("a", 1, attempt)),
            Outcome::Locks(kept)
        );
    }
    assert!(state.lock("a").unwrap().claim("pod", Nonce(1)).is_some());
    state.apply(&entry(102, Vec::new()), None);
    assert!(state.lock("a").is_none());
    assert_eq!(state.lock_counts().expired, 1);
}

/// The nonce is a hash: if two owners have the same nonce, each still has its own claim.
#[test]
fn a_claim_is_of_its_owner_and_its_nonce() {
    let mut state = founded();
    one(&mut state, 1, acquire("a", 1, 0));
    let other = |attempt| {
        let asked = AcquireLock {
            tenant: crate::Tenant::OPERATOR,
            owner: "other".to_owned(),
            attempt: Attempt(attempt),
            ..asked("a", 1, 50)
        };
        LockCommand::Acquire(asked).into()
    };
    let waits = one(&mut state, 1, other(2));
    assert!(matches!(waits, Outcome::Locks(LockOutcome::Waiting { .. })));
    let claim = |state: &State, owner: &str| {
        let lock = state.lock("a").unwrap();
        match lock.claim(owner, Nonce(1)) {
            Some(ClaimView::Held(holder)) => ("holds", holder.owner.clone()),
            Some(ClaimView::Waiting(waiter)) => ("waits", waiter.owner.clone()),
            None => ("nothing", owner.to_owned()),
        }
    };
    assert_eq!(claim(&state, "pod"), ("holds", "pod".to_owned()));
    assert_eq!(claim(&state, "other"), ("waits", "other".to_owned()));
    assert_eq!(claim(&state, "third"), ("nothing", "third".to_owned()));
    one(&mut state, 1, withdraw("a", 1, 2));
    assert_eq!(claim(&state, "pod"), ("holds", "pod".to_owned()));
    assert_eq!(claim(&state, "other"), ("nothing", "other".to_owned()));
}

#[test]
fn a_nonce_that_comes_again_with_other_terms_is_refused_and_changes_nothing() {
    let mut state = founded();
    one(&mut state, 1, acquire("a", 1, 0));
    one(&mut state, 1, acquire("a", 2, 50));
    let before = state.digest();
    let refusal = |name: &str| {
        refused(LockRefusal::TermsDiffer {
            name: name.parse().unwrap(),
        })
    };
    for nonce in [1, 2] {
        let same = asked("a", nonce, 50);
        let differ = [
            AcquireLock {
                tenant: crate::Tenant::OPERATOR,
                ttl_ms: 101,
                ..same.clone()
            },
            AcquireLock {
                tenant: crate::Tenant::OPERATOR,
                permits: 2,
                ..same.clone()
            },
            AcquireLock {
                tenant: crate::Tenant::OPERATOR,
                shared: true,
                ..same.clone()
            },
            AcquireLock {
                tenant: crate::Tenant::OPERATOR,
                lock_delay_ms: 1,
                ..same.clone()
            },
        ];
        for asked in differ {
            let asked = LockCommand::Acquire(AcquireLock {
                tenant: crate::Tenant::OPERATOR,
                attempt: Attempt(9),
                ..asked
            });
            assert_eq!(
                one(&mut state, 1, asked.clone().into()),
                refusal("a"),
                "{asked:?}"
            );
        }
    }
    assert_eq!(state.digest(), before);
    // The waiting time may differ. Once the claim has ended, its nonce can be used again.
    let longer = one(&mut state, 1, acquire("a", 2, 60));
    assert!(matches!(
        longer,
        Outcome::Locks(LockOutcome::Waiting { .. })
    ));
    let anew = AcquireLock {
        tenant: crate::Tenant::OPERATOR,
        ttl_ms: 500,
        ..asked("a", 1, 0)
    };
    let anew = one(&mut state, 5_000, LockCommand::Acquire(anew).into());
    assert!(is_held(&anew), "{anew:?}");
}

#[test]
fn a_restored_cluster_has_every_lock_free() {
    let mut state = founded();
    one(&mut state, 1, acquire("a", 1, 0));
    one(&mut state, 1, acquire("a", 2, 5_000));
    restore(&mut state);
    assert!(state.lock("a").is_none());
    assert_eq!(state.next_deadline(), None);
    assert_eq!(state.lock_counts().holders + state.lock_counts().waiters, 0);
    assert!(!state.rows().any(|(key, _)| key[0] == b'm'));
}

#[test]
fn a_break_ends_holds_and_delays_and_lets_the_next_waiter_in_at_once() {
    let mut state = founded();
    let broken = |state: &mut State, token| {
        let name = "a".parse().unwrap();
        one(state, 3, LockCommand::Break { name, token }.into())
    };
    let not_held = |token| {
        let name = "a".parse().unwrap();
        refused(LockRefusal::NotHeld { name, token })
    };
    assert_eq!(broken(&mut state, None), not_held(None));
    let delayed = AcquireLock {
        lock_delay_ms: 1_000,
        ..asked("a", 1, 0)
    };
    one(&mut state, 1, LockCommand::Acquire(delayed).into());
    one(&mut state, 2, acquire("a", 2, 9_000));
    let other = Some(FencingToken(77));
    assert_eq!(broken(&mut state, other), not_held(other));
    let first = state.lock("a").unwrap().holders().next().unwrap().clone();
    let ended = Outcome::Locks(LockOutcome::Broken {
        ended: 1,
        holders: vec![BrokenHold {
            owner: first.owner.clone(),
            token: first.token,
        }],
    });
    assert_eq!(broken(&mut state, Some(first.token)), ended);
    let next = state.lock("a").unwrap().holders().next().unwrap().clone();
    assert_eq!(
        next.nonce,
        Nonce(2),
        "the next waiter holds the lock at once"
    );
    assert!(next.token > first.token);
}
