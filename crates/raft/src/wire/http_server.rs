//! The peers' port over HTTP/1: each request's path names the message, its body carries it.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use http_body_util::{BodyDataStream, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use super::transport::{Handler, RejectionCode};
use crate::net::{self, Acceptor, HttpLimits, Listen};

/// Connections at once: 64 members with three links of a few connections each.
const CONNECTIONS: usize = 1024;

/// hyper's own bounds: a read of a large message may take as much at once. Idle connections are
/// kept.
const LIMITS: HttpLimits = HttpLimits {
    head_bytes: 408 << 10,
    headers: 100,
    head_wait: None,
};

/// How long answers that are under way may take once the node has ended.
const GRACE: Duration = Duration::from_millis(100);

/// Serves the peers' port until `until` is over.
pub(crate) fn serve(
    listener: Box<dyn Listen>,
    handler: Arc<dyn Handler>,
    until: impl Future<Output = ()> + Send + 'static,
) -> io::Result<tokio::task::JoinHandle<()>> {
    let acceptor = Acceptor::open(listener, CONNECTIONS)?;
    let answer = move |request| answer(Arc::clone(&handler), request);
    let stop = async move {
        until.await;
        GRACE
    };
    Ok(tokio::spawn(async move {
        net::serve(acceptor, LIMITS, answer, stop).await;
    }))
}

async fn answer(handler: Arc<dyn Handler>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let chunks = BodyDataStream::new(body).map_err(io::Error::other).boxed();
    let (status, bytes) = match handler.handle(head.uri.path().to_owned(), chunks).await {
        Ok(bytes) => (StatusCode::OK, bytes),
        Err(rejection) => (status(rejection.code), rejection.to_string().into()),
    };
    let mut response = Response::new(Full::new(bytes));
    *response.status_mut() = status;
    response
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
