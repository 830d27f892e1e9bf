//! The clients' HTTP port and its limits.

use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::http;
use seqd_net::Listen;

use crate::connections::{
    self, Answered, ClientConnection, HttpLimits, IsHot, Port, Received, Unreadable,
};

pub(super) const LIMITS: HttpLimits = HttpLimits {
    // Generous for cookies, tokens and tracing, but small for an attacker.
    head_bytes: 16 * 1024,
    headers: 64,
    hot: None,
    // Longer than the pools of common clients keep an idle connection.
    head_wait: Some(Duration::from_secs(100)),
};

/// The body of a request for the router.
pub(super) fn body_of(received: Received) -> Body {
    match received {
        Received::Whole(bytes) if bytes.is_empty() => Body::empty(),
        Received::Whole(bytes) => Body::from(bytes),
        Received::Arriving(body) => Body::new(body),
        Received::Streamed(body) => Body::new(body),
    }
}

/// Serves HTTP on a listener. `hot` are the requests that are read without hyper.
///
/// # Errors
/// The operating system refuses the listener.
pub(crate) fn serve<A>(
    listener: Box<dyn Listen>,
    answer: A,
    unreadable: Unreadable,
    hot: Option<IsHot>,
) -> io::Result<Port>
where
    A: Fn(http::Request<Body>, ClientConnection) -> Answered<Body> + Clone + Send + Sync + 'static,
{
    let answer = move |request: http::Request<Received>, connection| {
        answer(request.map(body_of), connection)
    };
    connections::serve_http(listener, HttpLimits { hot, ..LIMITS }, answer, unreadable)
}
