//! Serves a request with an `Idempotency-Key` once. A retry gets the same response.
//!
//! The key is begun before the request is served, and is completed with the whole response before
//! the response is sent. Therefore a retry at any node gets the same bytes. A request continues
//! after its client disconnects, so that a retry finds the response and need not wait for the claim
//! to expire. A refusal ends the key, because it allocated nothing, and a corrected request may use
//! the same key.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use seqd_api::{ErrorCode, Problem};
use seqd_raft::Part;
use seqd_state::{KeyName, KeyRefusal, KeySpace, MAX_ANSWER_BYTES, Refusal, Tenant};
use tokio::time::Instant;

use super::ids;
use crate::access::Caller;
use crate::admission::Serving;
use crate::http::{Request, Response, Stored};
use crate::problems::internal;
use crate::services::{KeyError, KeyedHandling, ServiceError, Services};

/// The most IDs or values of a request with a key. Its response is stored, and has room for a
/// thousand of the widest form.
const MAX_COUNT_WITH_KEY: u64 = 1000;

/// The size of a listed ID or value in the usual forms. If a response is larger, and there is no room
/// for it, its values remain a gap.
const LISTED_BYTES: u64 = 32;

/// The least time for abandoning the key of a refused request, also beyond the request's deadline.
const ABANDON_WAIT: Duration = Duration::from_millis(500);

type Handling = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// Wraps a handler so that a request with a key is served once.
pub(super) fn keyed<H, F>(
    handler: H,
) -> impl Fn(Arc<Services>, Request) -> Handling + Clone + Send + Sync + 'static
where
    H: Fn(Arc<Services>, Request) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response, Problem>> + Send + 'static,
{
    move |node, request| match request.key.clone() {
        None => Box::pin(handler(node, request)),
        Some(key) => {
            let name = KeyName {
                space: KeySpace::Requests {
                    access: access_of(request.caller),
                },
                key: key.key,
            };
            let (tenant, deadline) = (request.tenant, request.deadline);
            let served = {
                let (node, handler) = (Arc::clone(&node), handler.clone());
                move || handler(node, request)
            };
            let keys = Arc::clone(&node);
            let served = once(node, name, key.fingerprint, (tenant, deadline), served);
            Box::pin(async move {
                let place = keys.keys.place(tenant)?;
                to_its_end(place, served).await
            })
        }
    }
}

/// Like [`keyed`], but without another future for a request without a key, as most requests are.
pub(super) async fn direct<H, F>(
    handler: H,
    node: Arc<Services>,
    mut request: Request,
) -> Result<Response, Problem>
where
    H: Fn(Arc<Services>, Request) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response, Problem>> + Send + 'static,
{
    let serving = request.serving();
    if request.key.is_none() {
        return serving.scope(handler(node, request)).await;
    }
    serving.scope(keyed(handler)(node, request)).await
}

/// `GET /v1/id`. A request without a key, as most requests are, needs no allocation here.
pub(super) async fn one_id(node: Arc<Services>, mut request: Request) -> Result<Response, Problem> {
    if request.key.is_none() {
        return ids::one(node, request).await;
    }
    let serving = request.serving();
    serving.scope(keyed(ids::one)(node, request)).await
}

/// The space of a caller's keys: the ID of its token. The operator and callers without a token
/// share space 0.
fn access_of(caller: Caller) -> u64 {
    match caller {
        Caller::Anyone | Caller::Operator => 0,
        Caller::Token(id) => id.0,
    }
}

/// Serves a request to its end, even if its client disconnects and the future of its handler is
/// dropped. As without a key, a request that waits for other clients leaves its lane, and its
/// connection may be closed.
async fn to_its_end(
    place: Part,
    served: impl Future<Output = Result<Response, Problem>> + Send + 'static,
) -> Result<Response, Problem> {
    let served = served.inspect(move |_| drop(place));
    let task = tokio::spawn(Serving::current().scope(served));
    task.await.unwrap_or_else(|error| Err(internal(&error)))
}

async fn once<F>(
    node: Arc<Services>,
    name: KeyName,
    fingerprint: String,
    by: (Tenant, Instant),
    serve: impl FnOnce() -> F,
) -> Result<Response, Problem>
where
    F: Future<Output = Result<Response, Problem>>,
{
    let keys = &node.keys;
    let begun = keys.begin_request(name.clone(), fingerprint, by);
    let claim = match begun.await? {
        KeyedHandling::Serve(claim) => claim,
        KeyedHandling::Replay(kept) => {
            let stored = Stored::read(&kept.0);
            let unreadable = || ServiceError::from(KeyError::NotAnAnswer { key: name.key });
            let stored = stored.ok_or_else(unreadable)?;
            return Ok(stored.replayed());
        }
    };
    let stored = match serve().await {
        Ok(response) => response.stored().await,
        Err(problem) => Err(problem),
    };
    let fitting = stored.and_then(|stored| {
        let bytes = stored.write();
        if bytes.len() <= MAX_ANSWER_BYTES {
            return Ok((stored, bytes));
        }
        let detail = format!("a response of {} bytes cannot be stored", bytes.len());
        Err(internal(&detail))
    });
    let problem = match fitting {
        Ok((stored, bytes)) => {
            let kept = keys.keep_answer(name.clone(), claim, bytes.into(), by);
            match kept.await {
                Ok(()) => return Ok(stored.answer()),
                // The key is released, because a retry would not have more room.
                Err(error @ (ServiceError::Full(_) | ServiceError::Overloaded { .. })) => {
                    not_kept(error)
                        .with_hint("send less in one request; a retry takes other values")
                }
                Err(error) => return Err(not_kept(error)),
            }
        }
        Err(problem) => problem,
    };
    let until = by.1.max(Instant::now() + ABANDON_WAIT);
    // If this fails, the claim expires.
    drop(keys.give_up(name, claim, until).await);
    Err(problem)
}

/// The error for a response that was not stored. The response is not sent, and its values remain a
/// gap, so a repetition without the key would take others.
fn not_kept(error: ServiceError) -> Problem {
    let detail = format!("the response was not stored, and its values remain a gap: {error}");
    let code = match &error {
        ServiceError::Refused(Refusal::Keys(KeyRefusal::ClaimLost { .. })) => {
            ErrorCode::OutcomeUnknown
        }
        ServiceError::Refused(_) => error.code(),
        _ => ErrorCode::OutcomeUnknown,
    };
    Problem::new(code, detail)
        .with_hint("retry the request with the same key: it takes effect at most once")
}

/// Refuses a request with a key, before anything is allocated, if its count exceeds the room of a
/// stored response, or if there is no room for the response. `is_listed` is true if the response
/// lists each value.
pub(super) fn check_with_key(
    node: &Services,
    request: &Request,
    (count, is_listed): (Option<u64>, bool),
) -> Result<(), Problem> {
    let count = count.unwrap_or(1);
    if request.key.is_none() {
        return Ok(());
    }
    if count > MAX_COUNT_WITH_KEY {
        let detail = format!(
            "count is 1 to {MAX_COUNT_WITH_KEY} with an Idempotency-Key, because the response is \
             stored, not {count}"
        );
        let problem = Problem::new(ErrorCode::CountTooLarge, detail);
        return Err(problem.with_extra("limit", MAX_COUNT_WITH_KEY));
    }
    let bytes = if is_listed { count * LISTED_BYTES } else { 0 };
    Ok(node.keys.check_answer(request.tenant, bytes)?)
}

#[cfg(test)]
mod tests {
    use seqd_raft::Pool;
    use seqd_state::{AccessId, Share};
    use tokio::time::timeout;

    use super::*;
    use crate::admission::lanes::Lanes;

    #[test]
    fn a_request_whose_values_are_a_gap_is_not_called_repeatable() {
        let name = KeyName {
            space: KeySpace::Users,
            key: "k".to_owned(),
        };
        let lost = KeyRefusal::ClaimLost { name };
        for error in [
            ServiceError::Overloaded {
                detail: "full".to_owned(),
                retry_after_ms: 100,
            },
            ServiceError::Refused(Refusal::Keys(lost)),
        ] {
            let problem = not_kept(error);
            assert_eq!(&*problem.code, "outcome-unknown");
            assert!(!problem.retryable, "{problem:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_with_a_key_that_waits_for_others_leaves_its_lane() {
        let tenant = Tenant::of_token(AccessId(1));
        let lanes = Lanes::default();
        lanes.set_width(1);
        let slot = lanes.enter(tenant).unwrap().await.unwrap();
        let next = lanes.enter(tenant).unwrap();
        let place = Pool::new(Share::WHOLE, 1).take(tenant, 1).unwrap();
        let served = async move {
            assert_eq!(Serving::current_tenant(), tenant);
            let _pause = Serving::wait_as_wished();
            std::future::pending().await
        };
        let serving = Serving::new(tenant, None).with_slot(Some(slot));
        let waits = tokio::spawn(serving.scope(to_its_end(place, served)));
        let next = timeout(Duration::from_secs(1), next).await;
        assert!(
            next.is_ok(),
            "a request that waits keeps its place in the lane"
        );
        waits.abort();
    }
}
