//! The peers' port over HTTP/1: each request's path names the message, its body carries it.

use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, TryStreamExt};

use super::acceptor::Bounded;
use super::transport::{Handler, RejectionCode};

/// Connections at once: 64 members with three links of a few connections each.
const CONNECTIONS: usize = 1024;

/// Serves the peers' port until `until` is over.
pub(crate) fn serve(
    listener: TcpListener,
    handler: Arc<dyn Handler>,
    until: impl Future<Output = ()> + Send + 'static,
) -> io::Result<tokio::task::JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let listener = Bounded::new(tokio::net::TcpListener::from_std(listener)?, CONNECTIONS);
    let router = Router::new().fallback(answer).with_state(handler);
    Ok(tokio::spawn(async move {
        // Connections of peers never end by themselves: the task is dropped with them at the end.
        let serving = async { axum::serve(listener, router).await };
        tokio::select! { _ = serving => {}, () = until => {} }
    }))
}

async fn answer(State(handler): State<Arc<dyn Handler>>, uri: Uri, body: Body) -> Response {
    let chunks = body.into_data_stream().map_err(io::Error::other).boxed();
    match handler.handle(uri.path().to_owned(), chunks).await {
        Ok(bytes) => bytes.into_response(),
        Err(rejection) => (status(rejection.code), rejection.to_string()).into_response(),
    }
}

fn status(code: RejectionCode) -> StatusCode {
    match code {
        RejectionCode::Malformed | RejectionCode::NewerFormat => StatusCode::BAD_REQUEST,
        RejectionCode::WrongCluster | RejectionCode::WrongTarget => StatusCode::MISDIRECTED_REQUEST,
        RejectionCode::StaleBoot | RejectionCode::Superseded | RejectionCode::Removed => {
            StatusCode::FORBIDDEN
        }
        RejectionCode::Unintroduced => StatusCode::PRECONDITION_REQUIRED,
        RejectionCode::NotRunning => StatusCode::SERVICE_UNAVAILABLE,
    }
}
