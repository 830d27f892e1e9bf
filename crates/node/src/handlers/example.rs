//! The worked example of `docs/internals/EXTENDING.md`: an endpoint from its contract to its response,
//! each step with the file that it belongs into.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use seqd_api::routes::Method;
use seqd_api::{ErrorCode, Problem};
use serde::{Deserialize, Serialize};

use crate::http::{Context, Media, Path, Request, RequestIds, Response, build};
use crate::metrics::Metrics;

// Step 1, the contract: `api/src/paths.rs`, `api/src/routes.rs`, `api/src/wire/echo.rs`.

const ECHO: &str = "/v1/echo/{name}";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EchoQuery {
    #[serde(default, with = "seqd_api::number_text::lenient")]
    times: Option<u32>,
}

impl seqd_api::Request for EchoQuery {
    const FIELDS: &'static [&'static str] = &["times"];
}

#[derive(Debug, Serialize)]
struct Echo {
    text: String,
}

// Step 2, what it means: `node/src/services/echo.rs`, and a field of `Services`.

#[derive(Debug, thiserror::Error)]
enum EchoError {
    #[error("times is at most {most}, not {times}")]
    TooOften { times: u32, most: u32 },
}

struct EchoService {
    most: u32,
}

impl EchoService {
    fn echo(&self, name: &str, query: &EchoQuery) -> Result<Echo, EchoError> {
        let (times, most) = (query.times.unwrap_or(1), self.most);
        if times > most {
            return Err(EchoError::TooOften { times, most });
        }
        let text = name.repeat(times as usize);
        Ok(Echo { text })
    }
}

// Step 3, its errors in HTTP: a line of the macro `problems!` in `node/src/handlers/problems.rs`.

impl From<EchoError> for Problem {
    fn from(error: EchoError) -> Problem {
        match error {
            EchoError::TooOften { most, .. } => {
                Problem::new(ErrorCode::CountTooLarge, error.to_string()).with_extra("limit", most)
            }
        }
    }
}

// Step 4, the translation: `node/src/handlers/echo.rs`.

async fn echo(node: Arc<EchoService>, request: Request) -> Result<Response, Problem> {
    Response::json(&node.echo(request.name(), &request.decode()?)?)
}

// Step 5, the table: a line in `node/src/handlers/routes.rs`.

fn table() -> Vec<Path<EchoService>> {
    vec![Path::new(ECHO, &[Media::Json]).on(Method::Get, echo)]
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
async fn an_endpoint_is_added_in_five_steps() {
    let (status, body) = get("/v1/echo/ab?times=2").await;
    assert_eq!((status, &*body), (200, "{\"text\":\"abab\"}\n"));
    let (status, body) = get("/v1/echo/ab?times=4").await;
    assert!(status == 400 && body.contains("count-too-large"), "{body}");
    let (status, body) = get("/v1/echo/ab?tmes=2").await;
    assert!(status == 400 && body.contains("did you mean"), "{body}");
}
