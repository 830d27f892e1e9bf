//! The acquisition of a lock, which is repeated until its answer is known.

use std::time::Duration;

use seqd_api::{AcquireRequest, HeldLock, op};
use tokio::time::Instant;

use crate::client::Client;
use crate::error::Error;
use crate::nonce;
use crate::operations::call_of;

/// How often an acquisition is sent whose answer gets lost: once to each of the nodes of a cluster.
const MOST_REQUESTS: usize = 5;

impl Client {
    /// Holds a lock, after a wait of up to `wait_ms`. A request whose answer gets lost is repeated
    /// with the nonce of the first, so that its place in the queue, or its hold, is found again.
    ///
    /// Count the time of a hold from when the request was sent; after a wait renew it first.
    ///
    /// # Errors
    /// What was answered, or why no answer came.
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
