//! The worked example of `docs/internals/EXTENDING.md`: an endpoint from its contract to its
//! response, each step with the file that it belongs to.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use seqd_api::{Need, Operation, Typed};
use serde::{Deserialize, Serialize};

use crate::http::{Context, RequestIds, Route, build};
use crate::metrics::Metrics;
use crate::services::{RequestError, ServiceError};

// Step 1, the contract: the types in `api/src/wire/echo.rs`, the row in `api/src/operations.rs`.
// The row expands to this implementation.

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EchoQuery {
    #[serde(default, with = "seqd_api::number_text::Lenient")]
    times: Option<u32>,
}

impl seqd_api::Request for EchoQuery {
    const FIELDS: &'static [&'static str] = &["times"];
}

#[derive(Debug, Serialize, Deserialize)]
struct Echo {
    text: String,
}

#[derive(Clone, Copy)]
struct GetEcho;

impl Typed for GetEcho {
    type Request = EchoQuery;
    type Response = Echo;
    const ROW: &'static Operation = &Operation {
        id: "echo",
        path: "/v1/echo/{name}",
        about: "Repeats a name.",
        ..Operation::local(Need::AnyToken)
    };
}

// Step 2, the meaning: `node/src/services/echo.rs`, and a field of `Services`.

struct EchoService {
    most: u32,
}

impl EchoService {
    fn echo(&self, name: &str, query: &EchoQuery) -> Result<Echo, ServiceError> {
        let times = query.times.unwrap_or(1);
        if times > self.most {
            let error = RequestError::TooMany {
                field: "times",
                count: u64::from(times),
                limit: u64::from(self.most),
            };
            return Err(error.into());
        }
        let text = name.repeat(times as usize);
        Ok(Echo { text })
    }
}

// Step 3, its errors: this one is shared. A new one is an arm in `node/src/services/error.rs` with
// its code, and advice for it in `node/src/problems.rs`.

// Step 4, the table of handlers: a line in `node/src/handlers/table.rs`.

fn table() -> Vec<Route<EchoService>> {
    vec![Route::<EchoService>::json(
        GetEcho,
        |service, call| async move { service.echo(call.name(), &call.fields) },
    )]
}

async fn get(path: &str) -> (u16, String) {
    let (ids, metrics) = (RequestIds::new(1), Metrics::new());
    let limit = Duration::from_secs(1);
    let context = Context::new("n1", ids, limit, &metrics.http, Box::new(|| None)).unwrap();
    let router = build(
        table(),
        &Arc::new(context),
        &Arc::new(EchoService { most: 3 }),
    );
    let request = http::Request::get(path).body(Body::empty()).unwrap();
    let response = TowerToHyperService::new(router).call(request).await;
    let (parts, body) = response.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    (parts.status.as_u16(), text)
}

#[tokio::test]
async fn an_endpoint_is_added_in_four_steps() {
    let (status, body) = get("/v1/echo/ab?times=2").await;
    assert_eq!((status, &*body), (200, "{\"text\":\"abab\"}\n"));
    let (status, body) = get("/v1/echo/ab?times=4").await;
    assert!(status == 400 && body.contains("count-too-large"), "{body}");
    let (status, body) = get("/v1/echo/ab?tmes=2").await;
    assert!(status == 400 && body.contains("did you mean"), "{body}");
}
