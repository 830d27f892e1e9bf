//! The acquisition of a lock, retried until its response is known.

use std::time::Duration;

use seqd_api::{AcquireRequest, HeldLock, op};
use tokio::time::Instant;

use crate::client::Client;
use crate::error::Error;
use crate::nonce;
use crate::operations::call_of;

/// The largest number of requests for one acquisition whose responses are lost: one per node of a
/// cluster.
const MOST_REQUESTS: usize = 5;

impl Client {
    /// Acquires a lock after a wait of up to `wait_ms`. A request whose response is lost is retried
    /// with the same nonce, so that it finds its place in the queue or its hold.
    ///
    /// Count the time of a hold from the time at which the request was sent. After a wait, renew it
    /// first.
    ///
    /// # Errors
    /// The problem that a node returned, or the reason why no response arrived.
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
            let call = call_of::<op::AcquireLock>(&[&name], &request)?;
            match self.answer(call.waiting(left)).await {
                Err(Error::OutcomeUnknown(_)) if requests < MOST_REQUESTS => {}
                answer => return answer,
            }
        }
    }
}
