//! Renews a hold when two thirds of its time remain, and releases it at the end.

use std::sync::Arc;
use std::time::Duration;

use seqd_api::{ReleaseLockRequest, RenewLockRequest};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use super::acquire::{LEAST_LIMIT, lasts, millis};
use super::asks::Asks;
use super::error::{FailureKind, LockLost};
use crate::boot_clock::{BootTime, sleep_until_by};
use crate::error::Error;

/// The pause before the first retry of a release. Each further pause is longer by this time.
const AGAIN: Duration = Duration::from_millis(100);

/// The known state of a hold.
#[derive(Clone, Debug)]
pub(super) enum Hold {
    /// Held at least until this time.
    Until(BootTime),
    Lost(Arc<LockLost>),
}

pub(super) struct Keeper<A> {
    pub(super) asks: Arc<A>,
    pub(super) name: String,
    pub(super) lease: String,
    pub(super) ttl: Duration,
    pub(super) known: watch::Sender<Hold>,
    pub(super) clock: fn() -> BootTime,
}

impl<A: Asks> Keeper<A> {
    /// Runs until the guard is dropped or the lock is lost. Returns the result of the release.
    pub(super) async fn keep(self, mut ended: oneshot::Receiver<()>) -> Result<(), Error> {
        tokio::select! {
            lost = self.renew() => {
                self.known.send_replace(Hold::Lost(Arc::new(lost)));
                let _ = (&mut ended).await;
                // The lock is lost as far as this process can determine. The cluster may treat it
                // as held for slightly longer while others wait.
            }
            _ = &mut ended => {
                self.known.send_replace(Hold::Lost(Arc::new(LockLost::Released)));
            }
        }
        release(&*self.asks, &self.name, &self.lease).await
    }

    fn until(&self) -> BootTime {
        match &*self.known.borrow() {
            Hold::Until(until) => *until,
            Hold::Lost(_) => (self.clock)(),
        }
    }

    /// Renews the hold, and returns when the lock is lost.
    async fn renew(&self) -> LockLost {
        loop {
            // Two thirds of the known time remain as a reserve for failed renewals.
            let due = self.until().before(self.ttl / 3 * 2);
            sleep_until_by(due, self.clock).await;
            let mut why = None;
            loop {
                let now = (self.clock)();
                let left = self.until().since(now);
                if left.is_zero() {
                    return LockLost::RanOut { why };
                }
                let limit = (self.ttl / 3).max(LEAST_LIMIT).min(left);
                let renewal = self.renewal();
                let renewed = self.asks.renew(&self.name, &renewal, limit);
                let renewed = tokio::select! {
                    renewed = renewed => renewed,
                    () = sleep_until_by(now.after(left), self.clock) => continue,
                };
                match renewed.map_err(FailureKind::of) {
                    Ok(held) => {
                        let until = lasts(&held, now, self.ttl);
                        self.known.send_replace(Hold::Until(until));
                        break;
                    }
                    Err(FailureKind::Held(problem) | FailureKind::NotHeld(problem)) => {
                        return LockLost::TakenAway(problem);
                    }
                    Err(FailureKind::Again(error) | FailureKind::Never(error)) => {
                        why = Some(Box::new(error));
                        sleep((self.ttl / 20).min(Duration::from_secs(1))).await;
                    }
                }
            }
        }
    }

    fn renewal(&self) -> RenewLockRequest {
        RenewLockRequest {
            lease: Some(self.lease.clone()),
            ttl_ms: Some(millis(self.ttl)),
        }
    }
}

/// Releases a hold, with a few retries because others wait for it. A hold that has already ended
/// counts as released.
pub(super) async fn release<A: Asks>(asks: &A, name: &str, lease: &str) -> Result<(), Error> {
    let request = ReleaseLockRequest {
        lease: Some(lease.to_owned()),
    };
    let mut attempts = 0;
    loop {
        attempts += 1;
        match asks.release(name, &request).await.map_err(FailureKind::of) {
            Ok(()) | Err(FailureKind::NotHeld(_) | FailureKind::Held(_)) => return Ok(()),
            Err(FailureKind::Again(_)) if attempts < 5 => sleep(AGAIN * attempts).await,
            Err(FailureKind::Again(error) | FailureKind::Never(error)) => return Err(error),
        }
    }
}
