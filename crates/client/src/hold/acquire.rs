//! Acquires a lock. One acquisition is retried with the same nonce until it has a response.

use std::sync::Arc;
use std::time::Duration;

use seqd_api::{AcquireRequest, HeldLock, RenewLockRequest};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::asks::Asks;
use super::error::{FailureKind, LockError};
use super::keeper::release;
use super::options::LockOptions;
use crate::boot_clock::BootTime;
use crate::nonce;

/// The longest wait of one request that the cluster accepts.
const ROUND: Duration = Duration::from_secs(10 * 60);

/// The pause before a failed request is retried.
const AGAIN: Duration = Duration::from_millis(300);

/// The shortest timeout of a renewal.
pub(super) const LEAST_LIMIT: Duration = Duration::from_secs(1);

/// A grant that has not been returned to the caller. When it is dropped, a task releases it without
/// waiting for the response. Otherwise other waiters would have to wait until it expires.
struct Granted<A: Asks> {
    asks: Arc<A>,
    name: String,
    lease: String,
    is_over: bool,
}

impl<A: Asks> Granted<A> {
    /// Marks the grant as returned to the caller.
    fn done(mut self) {
        self.is_over = true;
    }

    async fn give_back(mut self) {
        // If the cluster does not respond, the hold expires.
        let _ = release(&*self.asks, &self.name, &self.lease).await;
        self.is_over = true;
    }
}

impl<A: Asks> Drop for Granted<A> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Without a runtime the process is ending, and the hold expires.
        if let Ok(runtime) = Handle::try_current() {
            let (asks, name) = (Arc::clone(&self.asks), std::mem::take(&mut self.name));
            let lease = std::mem::take(&mut self.lease);
            runtime.spawn(async move { release(&*asks, &name, &lease).await });
        }
    }
}

/// A hold: its token, its lease, and the time until which it lasts at least.
pub(super) struct AcquiredHold {
    pub(super) token: u64,
    pub(super) lease: String,
    pub(super) until: BootTime,
}

/// Acquires the lock.
pub(super) async fn acquire<A: Asks>(
    asks: &Arc<A>,
    name: &str,
    options: &LockOptions,
    clock: fn() -> BootTime,
) -> Result<AcquiredHold, LockError> {
    let ends = options.wait.map(|wait| clock().after(wait));
    let mut nonce = nonce::draw();
    loop {
        let left = ends.map(|ends| ends.since(clock()));
        let wait = left.unwrap_or(ROUND).min(ROUND);
        let request = request(options, &nonce, wait);
        let sent = clock();
        let failed = match asks.acquire(name, &request).await {
            Ok(held) => {
                let granted = Granted {
                    asks: Arc::clone(asks),
                    name: name.to_owned(),
                    lease: held.lease.clone().unwrap_or_default(),
                    is_over: false,
                };
                let confirmed = confirm(&**asks, name, options, (&held, sent), clock).await;
                if let Ok(Some(taken)) = confirmed {
                    granted.done();
                    return Ok(taken);
                }
                // The hold expired before it was confirmed, or the response to an applied renewal
                // was lost.
                granted.give_back().await;
                confirmed?;
                nonce = nonce::draw();
                continue;
            }
            Err(error) => FailureKind::of(error),
        };
        let is_over = ends.is_some_and(|ends| ends <= clock());
        match failed {
            FailureKind::Held(problem) if is_over => return Err(LockError::Held(problem)),
            // The wait of one request has ended, and with it the place in the queue.
            FailureKind::Held(_) => nonce = nonce::draw(),
            FailureKind::Again(error) if is_over => return Err(LockError::Request(error)),
            FailureKind::Again(_) => sleep(AGAIN).await,
            FailureKind::NotHeld(problem) => {
                return Err(LockError::Request(crate::error::Error::Problem(problem)));
            }
            FailureKind::Never(error) => return Err(LockError::Request(error)),
        }
    }
}

fn request(options: &LockOptions, nonce: &str, wait: Duration) -> AcquireRequest {
    AcquireRequest {
        owner: Some(options.owner.clone()),
        ttl_ms: Some(millis(options.ttl)),
        wait_ms: Some(millis(wait)),
        nonce: Some(nonce.to_owned()),
        permits: Some(options.permits),
        shared: Some(options.shared),
        lock_delay_ms: Some(millis(options.lock_delay)),
        ..AcquireRequest::default()
    }
}

/// Returns the time until which a hold lasts at least. `held` is the response to a request sent at
/// `sent`. The remaining time was measured after the request had arrived at the cluster.
pub(super) fn lasts(held: &HeldLock, sent: BootTime, ttl: Duration) -> BootTime {
    let left = Duration::from_millis(held.expires_in_ms).min(ttl);
    sent.after(left.saturating_sub(left / DRIFT))
}

/// The assumed drift: this clock may be slower than the leader's by one part in a thousand, ten
/// times the usual.
const DRIFT: u32 = 1000;

/// Renews a hold immediately after a wait, because the known remaining time is counted from before
/// the wait. Returns `None` if the hold expired.
async fn confirm<A: Asks>(
    asks: &A,
    name: &str,
    options: &LockOptions,
    (held, sent): (&HeldLock, BootTime),
    clock: fn() -> BootTime,
) -> Result<Option<AcquiredHold>, LockError> {
    let until = lasts(held, sent, options.ttl);
    let lease = held.lease.clone().unwrap_or_default();
    let taken = |until| AcquiredHold {
        token: held.token,
        lease: lease.clone(),
        until,
    };
    if until.since(clock()) > options.ttl / 2 {
        return Ok(Some(taken(until)));
    }
    let renewal = RenewLockRequest {
        lease: Some(lease.clone()),
        ttl_ms: Some(millis(options.ttl)),
    };
    // The grant may be as recent as the response.
    let over = clock().after(options.ttl);
    loop {
        let sent = clock();
        let limit = (options.ttl / 3).max(LEAST_LIMIT);
        match asks
            .renew(name, &renewal, limit)
            .await
            .map_err(FailureKind::of)
        {
            Ok(renewed) => return Ok(Some(taken(lasts(&renewed, sent, options.ttl)))),
            Err(FailureKind::Again(_)) if over > clock() => {
                sleep(AGAIN.min(options.ttl / 10)).await
            }
            Err(FailureKind::Never(error)) => return Err(LockError::Request(error)),
            Err(_) => return Ok(None),
        }
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
