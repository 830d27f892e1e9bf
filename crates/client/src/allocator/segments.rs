//! The two requests of an allocator as a trait, so that tests can use an in-memory cluster.

use std::future::Future;

use seqd_api::{Grant, GrantRequest, ReturnRequest};

use crate::client::Client;
use crate::error::Error;

pub(super) trait Segments: Send + Sync + 'static {
    /// Requests a segment.
    fn grant(&self, request: &GrantRequest) -> impl Future<Output = Result<Grant, Error>> + Send;

    /// Returns the last `unused` values of the run that ends with this grant.
    fn give_back(
        &self,
        grant: u128,
        unused: u64,
    ) -> impl Future<Output = Result<u64, Error>> + Send;
}

/// The segments of one sequence.
pub(super) struct OfSequence {
    pub(super) client: Client,
    pub(super) name: String,
}

impl Segments for OfSequence {
    async fn grant(&self, request: &GrantRequest) -> Result<Grant, Error> {
        self.client.grant_segment(&self.name, request).await
    }

    async fn give_back(&self, grant: u128, unused: u64) -> Result<u64, Error> {
        let request = ReturnRequest {
            unused: Some(unused),
        };
        let returned = self
            .client
            .return_segment(&self.name, grant, &request)
            .await?;
        Ok(returned.returned)
    }
}
