//! The three requests of a lock holder as a trait, so that tests can use an in-memory cluster.

use std::future::Future;
use std::time::Duration;

use seqd_api::{AcquireRequest, HeldLock, ReleaseLockRequest, RenewLockRequest};

use crate::client::Client;
use crate::error::Error;

pub(super) trait Asks: Send + Sync + 'static {
    /// Acquires the lock, and waits for it as set in the request. Safe to retry with the same
    /// nonce.
    fn acquire(
        &self,
        name: &str,
        request: &AcquireRequest,
    ) -> impl Future<Output = Result<HeldLock, Error>> + Send;

    /// Requests a later end of the hold, within `limit`.
    fn renew(
        &self,
        name: &str,
        request: &RenewLockRequest,
        limit: Duration,
    ) -> impl Future<Output = Result<HeldLock, Error>> + Send;

    /// Releases the lock.
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
