//! Locks: each call once, and the acquisition that is repeated until its answer is known.

use std::time::Duration;

use reqwest::Method;
use seqd_api::{
    AcquireRequest, BreakLockRequest, BrokenLock, HeldLock, Lock, LockQuery, LocksQuery, Page,
    ReleaseLockRequest, ReleasedLock, RenewLockRequest, VerifyLockRequest, paths,
};
use tokio::time::Instant;

use crate::changes;
use crate::client::{Call, Client};
use crate::error::Error;
use crate::nonce;

/// How often an acquisition is sent whose answer gets lost: once to each of the nodes of a cluster.
const MOST_REQUESTS: usize = 5;

#[expect(
    clippy::missing_errors_doc,
    reason = "all of them fail in the same way: what was answered, or why no answer came"
)]
impl Client {
    /// Holds a lock, after a wait of up to `wait_ms`. A request whose answer gets lost is repeated
    /// with the nonce of the first, so that its place in the queue, or its hold, is found again.
    ///
    /// Count the time of a hold from when the request was sent; after a wait renew it first.
    pub async fn acquire_lock(
        &self,
        name: &str,
        request: &AcquireRequest,
    ) -> Result<HeldLock, Error> {
        let mut request = request.clone();
        if request.nonce.is_none() && request.lease.is_none() {
            request.nonce = Some(nonce::draw());
        }
        let wait = Duration::from_millis(request.wait_ms.unwrap_or(0));
        let until = Instant::now() + wait;
        let mut requests = 0;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if requests > 0 {
                request.wait_ms = Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
            }
            requests += 1;
            let path = paths::fill(paths::LOCK_ACQUIRE, name);
            let call = Call::change(Method::POST, path).body(&request)?;
            match self.answer(call.waiting(left)).await {
                Err(Error::OutcomeUnknown(_)) if requests < MOST_REQUESTS => {}
                answer => return answer,
            }
        }
    }

    /// Lets a hold last longer. It may be repeated: a hold never gets shorter by it.
    pub async fn renew_lock(
        &self,
        name: &str,
        request: &RenewLockRequest,
    ) -> Result<HeldLock, Error> {
        let call = Call::get(paths::fill(paths::LOCK_RENEW, name)).method(Method::POST);
        self.answer(call.body(request)?).await
    }

    /// Ends a hold.
    pub async fn release_lock(
        &self,
        name: &str,
        request: &ReleaseLockRequest,
    ) -> Result<ReleasedLock, Error> {
        let call = Call::change(Method::POST, paths::fill(paths::LOCK_RELEASE, name));
        self.answer(call.body(request)?).await
    }

    /// Ends holds of others, as an operator: the next waiter is granted the lock at once.
    pub async fn break_lock(
        &self,
        name: &str,
        request: &BreakLockRequest,
    ) -> Result<BrokenLock, Error> {
        self.answer(changes::break_lock(name, request)?).await
    }

    /// Whether a token holds a lock, linearizable.
    pub async fn verify_lock(
        &self,
        name: &str,
        request: &VerifyLockRequest,
    ) -> Result<HeldLock, Error> {
        let call = Call::get(paths::fill(paths::LOCK_VERIFY, name)).method(Method::POST);
        self.answer(call.body(request)?).await
    }

    /// One lock: who holds it, and who waits.
    pub async fn lock(&self, name: &str, query: &LockQuery) -> Result<Lock, Error> {
        let wait = Duration::from_millis(query.wait_ms.unwrap_or(0));
        let call = Call::get(paths::fill(paths::LOCK, name)).waiting(wait);
        self.answer(call.query(query)?).await
    }

    /// One page of the locks that are in use.
    pub async fn locks(&self, query: &LocksQuery) -> Result<Page<Lock>, Error> {
        self.answer(Call::get(paths::LOCKS).query(query)?).await
    }
}
