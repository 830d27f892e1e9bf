//! One of each command, refusal and outcome of locks.

use seqd_state::{
    AcquireLock, Attempt, BrokenHold, ClusterMs, Command, FencingToken, LockCommand, LockHolder,
    LockName, LockOutcome, LockProblem, LockRefusal, Nonce, Outcome, Refusal,
};

use crate::support::commands::apply_one;
use crate::support::{founded, stamp};

fn lock() -> LockName {
    LockName::new("jobs/nightly 1").unwrap()
}

/// Returns the holder of a lock with one permit.
fn lock_holder() -> LockHolder {
    let mut state = founded();
    let asked = AcquireLock {
        tenant: seqd_state::Tenant::OPERATOR,
        name: lock(),
        owner: "pod-1".to_owned(),
        nonce: Nonce(5),
        attempt: Attempt(7),
        ttl_ms: 30_000,
        wait_ms: 0,
        permits: 1,
        shared: true,
        lock_delay_ms: 1_000,
    };
    apply_one(&mut state, stamp(0, 10), LockCommand::Acquire(asked).into());
    let lock = state.lock("jobs/nightly 1").unwrap();
    lock.holders().next().unwrap().clone()
}

pub(crate) fn commands() -> Vec<Command> {
    vec![
        LockCommand::Acquire(AcquireLock {
            tenant: seqd_state::Tenant::OPERATOR,
            name: lock(),
            owner: "pod-1".to_owned(),
            nonce: Nonce(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
            attempt: Attempt(7),
            ttl_ms: 30_000,
            wait_ms: 5_000,
            permits: 3,
            shared: false,
            lock_delay_ms: 1_000,
        })
        .into(),
        LockCommand::Renew {
            name: lock(),
            token: FencingToken(9),
            ttl_ms: 30_000,
        }
        .into(),
        LockCommand::Release {
            name: lock(),
            token: FencingToken(9),
        }
        .into(),
        LockCommand::Withdraw {
            name: lock(),
            nonce: Nonce(5),
            attempt: Attempt(7),
        }
        .into(),
        LockCommand::Break {
            name: lock(),
            token: Some(FencingToken(9)),
        }
        .into(),
    ]
}

pub(crate) fn refusals() -> Vec<Refusal> {
    vec![
        Refusal::Locks(LockRefusal::Held {
            name: lock(),
            holder: Some(Box::new(lock_holder())),
            retry_after_ms: 1_500,
        }),
        Refusal::Locks(LockRefusal::Held {
            name: lock(),
            holder: None,
            retry_after_ms: 200,
        }),
        Refusal::Locks(LockRefusal::Lost { name: lock() }),
        Refusal::Locks(LockRefusal::PermitsDiffer {
            name: lock(),
            asked: 3,
            permits: 1,
        }),
        Refusal::Locks(LockRefusal::TooManyWaiters { name: lock() }),
        Refusal::Locks(LockRefusal::TooManyLocks),
        Refusal::Locks(LockRefusal::Invalid(LockProblem::Ttl)),
        Refusal::Locks(LockRefusal::TermsDiffer { name: lock() }),
        Refusal::Locks(LockRefusal::NotHeld {
            name: lock(),
            token: Some(FencingToken(9)),
        }),
    ]
}

pub(crate) fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Locks(LockOutcome::Held {
            token: FencingToken(9),
            until: ClusterMs(30_010),
        }),
        Outcome::Locks(LockOutcome::Waiting {
            ahead: 2,
            until: ClusterMs(5_010),
        }),
        Outcome::Locks(LockOutcome::Renewed {
            owner: "pod-1".to_owned(),
            until: ClusterMs(60_010),
        }),
        Outcome::Locks(LockOutcome::Released),
        Outcome::Locks(LockOutcome::Withdrawn { ended: true }),
        Outcome::Locks(LockOutcome::Broken {
            ended: 1,
            holders: vec![BrokenHold {
                owner: "pod-1".to_owned(),
                token: FencingToken(9),
            }],
        }),
    ]
}
