//! The three requests of a generator as a trait, so that tests can use an in-memory cluster.

use std::future::Future;
use std::time::Duration;

use seqd_api::{Lease, LeaseRequest, ReleaseRequest, RenewRequest};

use crate::client::Client;
use crate::error::Error;

pub(super) trait Leases: Send + Sync + 'static {
    /// Leases a worker. If the response is lost, the worker stays leased for a window.
    fn lease(&self, request: &LeaseRequest) -> impl Future<Output = Result<Lease, Error>> + Send;

    /// Requests a later fence, within `limit`.
    fn renew(
        &self,
        layout: &str,
        worker: u32,
        request: &RenewRequest,
        limit: Duration,
    ) -> impl Future<Output = Result<Lease, Error>> + Send;

    /// Releases a worker.
    fn release(
        &self,
        layout: &str,
        worker: u32,
        request: &ReleaseRequest,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

impl Leases for Client {
    async fn lease(&self, request: &LeaseRequest) -> Result<Lease, Error> {
        self.lease_worker(request).await
    }

    async fn renew(
        &self,
        layout: &str,
        worker: u32,
        request: &RenewRequest,
        limit: Duration,
    ) -> Result<Lease, Error> {
        let client = self.within(limit);
        client.renew_worker(layout, worker, request).await
    }

    async fn release(
        &self,
        layout: &str,
        worker: u32,
        request: &ReleaseRequest,
    ) -> Result<(), Error> {
        self.release_worker(layout, worker, request).await.map(drop)
    }
}
