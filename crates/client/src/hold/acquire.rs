//! How a lock is taken: one acquisition, repeated under its nonce until it has an answer.

use std::sync::Arc;
use std::time::Duration;

use seqd_api::{AcquireRequest, HeldLock, RenewLockRequest};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::asks::Asks;
use super::error::{LockError, Verdict};
use super::keeper::release;
use super::options::LockOptions;
use crate::boot_clock::BootTime;
use crate::nonce;

/// The longest wait of one request, as the cluster has it.
const ROUND: Duration = Duration::from_secs(10 * 60);

/// The pause before a request that failed is repeated.
const AGAIN: Duration = Duration::from_millis(300);

/// The shortest time that a renewal is given.
pub(super) const LEAST_LIMIT: Duration = Duration::from_secs(1);

/// A grant whose holder does not have it yet. Dropped, it is given back by a task, without an
/// answer to wait for: until then others would wait for its end.
struct Granted<A: Asks> {
    asks: Arc<A>,
    name: String,
    lease: String,
    is_over: bool,
}

impl<A: Asks> Granted<A> {
    /// Its holder has it.
    fn done(mut self) {
        self.is_over = true;
    }

    async fn give_back(mut self) {
        // Where the cluster does not answer either, it ends by its own time.
        let _ = release(&*self.asks, &self.name, &self.lease).await;
        self.is_over = true;
    }
}

impl<A: Asks> Drop for Granted<A> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Without a runtime the process ends, and the hold by its own time.
        if let Ok(runtime) = Handle::try_current() {
            let (asks, name) = (Arc::clone(&self.asks), std::mem::take(&mut self.name));
            let lease = std::mem::take(&mut self.lease);
            runtime.spawn(async move { release(&*asks, &name, &lease).await });
        }
    }
}

/// A hold: its token, its lease, and until when it lasts at least.
pub(super) struct Taken {
    pub(super) token: u64,
    pub(super) lease: String,
    pub(super) until: BootTime,
}

/// Takes the lock.
pub(super) async fn acquire<A: Asks>(
    asks: &Arc<A>,
    name: &str,
    options: &LockOptions,
    clock: fn() -> BootTime,
) -> Result<Taken, LockError> {
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
                // It ran out before it was known of, or a renewal was applied whose answer was
                // lost.
                granted.give_back().await;
                confirmed?;
                nonce = nonce::draw();
                continue;
            }
            Err(error) => Verdict::of(error),
        };
        let is_over = ends.is_some_and(|ends| ends <= clock());
        match failed {
            Verdict::Held(problem) if is_over => return Err(LockError::Held(problem)),
            // The wait of one request was over; its place in the queue with it.
            Verdict::Held(_) => nonce = nonce::draw(),
            Verdict::Again(error) if is_over => return Err(LockError::Request(error)),
            Verdict::Again(_) => sleep(AGAIN).await,
            Verdict::NotHeld(problem) => {
                return Err(LockError::Request(crate::error::Error::Problem(problem)));
            }
            Verdict::Never(error) => return Err(LockError::Request(error)),
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

/// Until when a hold lasts at least, by its answer to a request that was sent then. What is left of
/// it was counted after the request had come to the cluster.
pub(super) fn lasts(held: &HeldLock, sent: BootTime, ttl: Duration) -> BootTime {
    let left = Duration::from_millis(held.expires_in_ms).min(ttl);
    sent.after(left.saturating_sub(left / DRIFT))
}

/// A clock may run so much slower than the leader's: one part in a thousand, ten times what is usual.
const DRIFT: u32 = 1000;

/// A hold that was waited for is renewed at once: what is known of its end is counted from before the
/// wait. `None` if it ran out.
async fn confirm<A: Asks>(
    asks: &A,
    name: &str,
    options: &LockOptions,
    (held, sent): (&HeldLock, BootTime),
    clock: fn() -> BootTime,
) -> Result<Option<Taken>, LockError> {
    let until = lasts(held, sent, options.ttl);
    let lease = held.lease.clone().unwrap_or_default();
    let taken = |until| Taken {
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
    // The grant may be as young as the answer.
    let over = clock().after(options.ttl);
    loop {
        let sent = clock();
        let limit = (options.ttl / 3).max(LEAST_LIMIT);
        match asks.renew(name, &renewal, limit).await.map_err(Verdict::of) {
            Ok(renewed) => return Ok(Some(taken(lasts(&renewed, sent, options.ttl)))),
            Err(Verdict::Again(_)) if over > clock() => sleep(AGAIN.min(options.ttl / 10)).await,
            Err(Verdict::Never(error)) => return Err(LockError::Request(error)),
            Err(_) => return Ok(None),
        }
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
