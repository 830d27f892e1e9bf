//! Requests with an `Idempotency-Key`: their keys have a space of their own, and the result of a
//! key is the whole response.

use std::time::Duration;

use seqd_guards::is_out;
use seqd_raft::{Part, ProposeError};
use seqd_state::codec::Bytes;
use seqd_state::{KeyClaim, KeyName, RESERVED_RESULT_BYTES, Tenant};
use tokio::time::{Instant, sleep};

use super::error::ServiceError;
use super::keys::{Begun, KeyService};
use super::room::NoRoom;
use crate::times::millis;

/// The time for which a claim outlives its request, so that the entry that completes it can be
/// applied.
const REQUEST_MARGIN_MS: u64 = 1000;

/// The pause between two attempts to store a response.
const KEEP_PAUSE: Duration = Duration::from_millis(50);

/// The handling of a request with a key.
#[derive(Debug)]
pub(crate) enum KeyedHandling {
    /// Serve the request; its response completes the key.
    Serve(KeyClaim),
    /// Send the stored response.
    Replay(Bytes),
}

impl KeyService {
    /// Reserves a place among the requests with a key that are served concurrently.
    pub(crate) fn place(&self, tenant: Tenant) -> Result<Part, ServiceError> {
        self.in_flight.take(tenant, 1).ok_or_else(crowded)
    }

    /// Begins the key of a request, so that the request is served once.
    pub(crate) async fn begin_request(
        &self,
        name: KeyName,
        fingerprint: String,
        (tenant, deadline): (Tenant, Instant),
    ) -> Result<KeyedHandling, ServiceError> {
        let time = deadline.saturating_duration_since(Instant::now());
        let begin = seqd_state::BeginKey {
            name,
            tenant,
            ttl_ms: millis(self.limits.answer_ttl),
            claim_ttl_ms: millis(time).saturating_add(REQUEST_MARGIN_MS),
            fingerprint,
            nonce: String::new(),
        };
        Ok(match self.begin_key(begin, deadline).await? {
            Begun::First { claim, .. } => KeyedHandling::Serve(claim),
            Begun::Done { result, .. } => KeyedHandling::Replay(result),
        })
    }

    /// Stores a response. Retries until the deadline while it is certain that nothing was proposed.
    ///
    /// # Errors
    /// [`ServiceError::Full`] if the limits or the tenant's share leave no room for it: nothing was
    /// stored.
    pub(crate) async fn keep_answer(
        &self,
        name: KeyName,
        claim: KeyClaim,
        answer: Bytes,
        (tenant, deadline): (Tenant, Instant),
    ) -> Result<(), ServiceError> {
        loop {
            let kept = match self.room_for(&name, &answer, tenant) {
                Ok(_part) => {
                    self.keep(name.clone(), claim, answer.clone(), deadline)
                        .await
                }
                Err(why) => Err(why),
            };
            match kept {
                Err(error) if is_unproposed(&error) && Instant::now() + KEEP_PAUSE < deadline => {
                    sleep(KEEP_PAUSE).await;
                }
                kept => return kept,
            }
        }
    }

    /// Reserves memory for storing a response, and checks that the cluster has room for it. A
    /// response within its reservation needs neither.
    fn room_for(
        &self,
        name: &KeyName,
        answer: &Bytes,
        tenant: Tenant,
    ) -> Result<Option<Part>, ServiceError> {
        let bytes = answer.0.len();
        if bytes <= RESERVED_RESULT_BYTES || is_out!(AnswersHaveRoom) {
            return Ok(None);
        }
        let part = self.keeping.take(tenant, bytes as u64);
        let part = part.ok_or_else(crowded)?;
        self.check_result(name, bytes)?;
        Ok(Some(part))
    }
}

fn crowded() -> ServiceError {
    let detail = "too many requests with a key are being served, for this client or for all \
        clients";
    ServiceError::overloaded(detail, 100)
}

/// Returns whether an error means that the command is certainly not in the log, and that a retry
/// may succeed soon.
fn is_unproposed(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::Overloaded { .. }
            | ServiceError::Full(NoRoom::Behind { .. })
            | ServiceError::Propose(
                ProposeError::NoQuorum { .. }
                    | ProposeError::Overloaded { .. }
                    | ProposeError::OverloadedBytes { .. }
                    | ProposeError::NoRoom { .. }
            )
    )
}
