//! The way in of requests, from the token to the handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{self, StatusCode};
use bytes::Bytes;
use futures_util::stream;
use seqd_api::{Method, Operation, Typed, op};
use seqd_state::{AccessCommand, AccessId, Permission, Scope, TokenHash};
use tokio::time::Instant;

use super::{Context, Endpoint, RequestIds, Response};
use crate::access::{Access, Caller, TokenFile};
use crate::admission::{Admitted, ProtocolRequest, Sender};
use crate::metrics::Metrics;
use crate::test_replica::{NOON, TestClock, TestReplica};

const OPERATOR: &str = "operator-0123456789abcdef0123456789abcdef";
const TTL_MS: u64 = 1_500;

struct Door {
    clock: Arc<TestClock>,
    replica: Arc<TestReplica>,
    context: Arc<Context>,
}

impl Door {
    async fn new() -> Door {
        let clock = TestClock::at(NOON);
        let replica = TestReplica::founded(clock.clone(), 30_000);
        let operator = Some(TokenFile::of_token(OPERATOR));
        let window = Duration::from_secs(30);
        let access = Access::new(operator, replica.clone(), clock.clone(), window);
        access.look().await;
        let (metrics, timeout) = (Metrics::new(), Duration::from_secs(3));
        let cluster = Box::new(|| None);
        let context = Context::new("n1", RequestIds::new(1), timeout, &metrics.http, cluster);
        let mut context = context.unwrap();
        context.admission.access = access;
        Door {
            clock,
            replica,
            context: Arc::new(context),
        }
    }

    /// A caller with a token that permits everything and expires after [`TTL_MS`].
    fn caller(&self, id: u64) -> Sender {
        let id = AccessId(id);
        let create = AccessCommand::Create {
            id,
            hash: TokenHash([0; 32]),
            permissions: vec![Permission {
                scope: Scope::Admin,
                prefix: String::new(),
            }],
            description: String::new(),
            expires_ms: Some(NOON + TTL_MS),
            per_second: None,
        };
        self.replica.apply(vec![create.into()]);
        Sender {
            caller: Caller::Token(id),
            connection: None,
        }
    }

    /// Sends a request. `meanwhile` happens before the body arrives. Returns the status, and
    /// whether the handler was called.
    async fn send(
        &self,
        operation: &'static Operation,
        sender: Sender,
        meanwhile: impl FnOnce() + Send + 'static,
    ) -> (StatusCode, bool) {
        let is_called = AtomicBool::new(false);
        let endpoint = Endpoint::new(&self.context, &Arc::new(()), operation, Method::Post);
        let body = stream::once(async move {
            meanwhile();
            Ok::<_, std::io::Error>(Bytes::from_static(b"{}"))
        });
        let request = http::Request::post("/v1/x")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("content-length", "2")
            .body(Body::from_stream(body));
        let handler = async |_, _| {
            is_called.store(true, Ordering::Relaxed);
            Ok(Response::text(String::new()))
        };
        let request = request.unwrap();
        let name = Some("order".to_owned());
        let served = endpoint.serve(request, sender, name, handler).await;
        (served.status(), is_called.into_inner())
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_token_expires_while_its_body_arrives_is_refused() {
    for operation in [op::NextValues::ROW, op::AdvanceSequence::ROW] {
        let door = Door::new().await;
        let clock = Arc::clone(&door.clock);
        let in_time = move || clock.step(TTL_MS as i64 - 1);
        let served = door.send(operation, door.caller(1), in_time).await;
        assert_eq!(served, (StatusCode::OK, true));

        let clock = Arc::clone(&door.clock);
        let too_late = move || clock.step(1);
        let served = door.send(operation, door.caller(2), too_late).await;
        assert_eq!(
            served,
            (StatusCode::UNAUTHORIZED, false),
            "a request was served after its token had expired"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_token_is_revoked_while_its_body_arrives_is_unauthorized() {
    for operation in [op::NextValues::ROW, op::AdvanceSequence::ROW] {
        let door = Door::new().await;
        let replica = Arc::clone(&door.replica);
        let revoke = move || {
            let id = AccessId(1);
            replica.apply(vec![AccessCommand::Revoke { id }.into()]);
        };
        let served = door.send(operation, door.caller(1), revoke).await;
        assert_eq!(served, (StatusCode::UNAUTHORIZED, false));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_token_expires_while_it_waits_for_its_lane_is_refused() {
    let door = Door::new().await;
    let lanes = &door.context.admission.lanes;
    lanes.set_width(1);
    let sender = door.caller(1);
    let served = lanes.enter(sender.tenant()).unwrap().await.unwrap();
    let waits = door.send(op::NextValues::ROW, sender, || ());
    let expires = async {
        tokio::task::yield_now().await;
        door.clock.step(TTL_MS as i64);
        drop(served);
    };
    let (served, ()) = tokio::join!(waits, expires);
    assert_eq!(served, (StatusCode::UNAUTHORIZED, false));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_request_whose_token_has_expired_is_refused() {
    let door = Door::new().await;
    let sender = door.caller(1);
    door.clock.step(TTL_MS as i64);
    let admission = &door.context.admission;
    let asked = ProtocolRequest {
        operation: op::NextValues::ROW,
        name: "order",
        logged: ("compat", "/order"),
    };
    let work = async |_: Admitted| Ok::<_, seqd_api::Problem>(());
    let served = admission.serve(asked, &sender, work).await;
    assert_eq!(served.err().map(|problem| problem.status), Some(401));
}

/// A caller of any permission could fill the log with refusals otherwise.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_logged_is_delayed() {
    let door = Door::new().await;
    let took = async |operation| {
        let endpoint = Endpoint::new(&door.context, &Arc::new(()), operation, Method::Get);
        let begun = Instant::now();
        let request = http::Request::get("/v1/x")
            .header("host", "evil.example")
            .body(Body::empty());
        let handler = async |_, _| Ok(Response::text(String::new()));
        let served = endpoint.serve(request.unwrap(), door.caller(1), None, handler);
        assert_eq!(served.await.status(), StatusCode::MISDIRECTED_REQUEST);
        begun.elapsed()
    };
    assert_eq!(took(op::GetId::ROW).await, Duration::ZERO);
    assert!(took(op::ListAccess::ROW).await >= Duration::from_millis(100));
}
