//! The three requests of a holder, as a seam: tests put a cluster in memory behind it.

use std::future::Future;
use std::time::Duration;

use seqd_api::{AcquireRequest, HeldLock, ReleaseLockRequest, RenewLockRequest};

use crate::client::Client;
use crate::error::Error;

pub(super) trait Asks: Send + Sync + 'static {
    /// Takes the lock, waiting as the request has it. Safe to repeat, with the same nonce.
    fn acquire(
        &self,
        name: &str,
        request: &AcquireRequest,
    ) -> impl Future<Output = Result<HeldLock, Error>> + Send;

    /// A later end, or why not, within `limit`.
    fn renew(
        &self,
        name: &str,
        request: &RenewLockRequest,
        limit: Duration,
    ) -> impl Future<Output = Result<HeldLock, Error>> + Send;

    /// Gives the lock back.
    fn release(
        &self,
        name: &str,
        request: &ReleaseLockRequest,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

impl Asks for Client {
    async fn acquire(&self, name: &str, request: &AcquireRequest) -> Result<HeldLock, Error> {
        self.acquire_lock(name, request).await
    }

    async fn renew(
        &self,
        name: &str,
        request: &RenewLockRequest,
        limit: Duration,
    ) -> Result<HeldLock, Error> {
        self.within(limit).renew_lock(name, request).await
    }

    async fn release(&self, name: &str, request: &ReleaseLockRequest) -> Result<(), Error> {
        self.release_lock(name, request).await.map(drop)
    }
}
