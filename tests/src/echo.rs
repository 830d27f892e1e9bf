//! A small HTTP server that returns numbers: counted, repeated, or out of order.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};

use crate::server::Server;

/// A server with these paths:
///
/// - `GET /next`: a counter, as text
/// - `POST /next`: the same in JSON, if the body is JSON
/// - `GET /repeating`: a counter in which each thousandth number is the number before
/// - `GET /falling`: numbers that never repeat and decrease
#[derive(Debug)]
pub struct Echo {
    server: Server,
}

type Counter = State<Arc<AtomicI64>>;

fn count(counter: &AtomicI64) -> i64 {
    counter.fetch_add(1, Ordering::Relaxed)
}

impl Echo {
    pub fn start() -> Self {
        let document = |State(counter): Counter, body: axum::Json<serde_json::Value>| async move {
            let tenant = body["tenant"].clone();
            let data = serde_json::json!({ "id": count(&counter).to_string(), "tenant": tenant });
            serde_json::json!({ "data": data }).to_string()
        };
        let router = Router::new()
            .route(
                "/next",
                get(|State(counter): Counter| async move { count(&counter).to_string() }),
            )
            .route("/next", post(document))
            .route(
                "/repeating",
                get(|State(counter): Counter| async move {
                    let number = count(&counter);
                    (if number % 1000 == 999 {
                        number - 1
                    } else {
                        number
                    })
                    .to_string()
                }),
            )
            .route(
                "/falling",
                get(|State(counter): Counter| async move { (-count(&counter)).to_string() }),
            )
            .with_state(Arc::default());
        Self {
            server: Server::start(router),
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address)
    }
}
