//! The peers' transport over HTTP/1.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Body, Client, RequestBuilder};

use super::transport::{Answering, CallError, Link, MESSAGE_BYTES, Payload, Rejection, Transport};
use crate::handle::{Stop, StopReason};

/// What stands before a peer's address. It is not the scheme of the clients' interface, which the
/// crate `api` has: either may become another one without the other.
const SCHEME: &str = "http://";

/// Idle connections that are kept for each peer and link: as many as groups are forwarded at once.
const IDLE_PER_PEER: usize = 8;

/// The longest time that a connection to a peer may take to come about.
const CONNECT: Duration = Duration::from_millis(500);

/// The transport of a node that is not simulated.
///
/// # Errors
/// A [`Stop`] if the clients cannot be made.
pub fn http_transport() -> Result<Arc<dyn Transport>, Stop> {
    match HttpTransport::new() {
        Ok(transport) => Ok(Arc::new(transport)),
        Err(error) => {
            let message = format!("cannot make a client for peers: {error}");
            Err(Stop::new(StopReason::StartFailed, message))
        }
    }
}

/// HTTP/1 connections to peers.
struct HttpTransport {
    calls: Client,
    heartbeats: Client,
    snapshots: Client,
}

impl HttpTransport {
    /// Makes the clients; they connect at their first call.
    fn new() -> reqwest::Result<Self> {
        Ok(Self {
            calls: client()?,
            heartbeats: client()?,
            snapshots: client()?,
        })
    }
}

/// Every connection to a peer is made by a client of this function.
fn client() -> reqwest::Result<Client> {
    Client::builder()
        .no_proxy()
        .http1_only()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT)
        .pool_max_idle_per_host(IDLE_PER_PEER)
        .pool_idle_timeout(Duration::from_secs(60))
        .build()
}

impl Transport for HttpTransport {
    fn post<'a>(
        &'a self,
        link: Link,
        addr: &'a str,
        path: &'a str,
        payload: Payload,
        limit: Duration,
    ) -> Answering<'a> {
        let client = match link {
            Link::Calls => &self.calls,
            Link::Heartbeats => &self.heartbeats,
            Link::Snapshots => &self.snapshots,
        };
        let body = match payload {
            Payload::Bytes(bytes) => Body::from(bytes),
            Payload::Stream(stream) => Body::wrap_stream(stream),
        };
        let request = client.post(format!("{SCHEME}{addr}{path}"));
        Box::pin(answer(request.timeout(limit).body(body)))
    }
}

async fn answer(request: RequestBuilder) -> Result<Bytes, CallError> {
    let answer = request.send().await.map_err(|e| classify(&e))?;
    let status = answer.status();
    if answer
        .content_length()
        .is_some_and(|length| length > MESSAGE_BYTES as u64)
    {
        let why = "the answer is larger than a message may be";
        return Err(CallError::Broken(why.to_owned()));
    }
    let bytes = answer.bytes().await.map_err(|e| classify(&e))?;
    if status.is_success() {
        Ok(bytes)
    } else {
        Err(Rejection::parse(&String::from_utf8_lossy(&bytes)).into())
    }
}

fn classify(error: &reqwest::Error) -> CallError {
    let mut source = std::error::Error::source(error);
    let mut innermost = error.to_string();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::ConnectionRefused
        {
            return CallError::Refused;
        }
        innermost = inner.to_string();
        source = inner.source();
    }
    if error.is_connect() {
        let why = if error.is_timeout() {
            "no answer to connect".to_owned()
        } else {
            innermost
        };
        CallError::Unsent(why)
    } else if error.is_timeout() {
        CallError::NoAnswer
    } else {
        CallError::Broken(innermost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_closed_port_is_distinguished_from_a_silent_one() {
        let transport = HttpTransport::new().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let limit = Duration::from_millis(100);
        let silent = transport
            .post(Link::Calls, &addr, "/", Payload::Bytes("x".into()), limit)
            .await
            .unwrap_err();
        assert!(matches!(silent, CallError::NoAnswer), "{silent:?}");
        drop(listener);
        let closed = transport
            .post(Link::Calls, &addr, "/", Payload::Bytes("x".into()), limit)
            .await
            .unwrap_err();
        assert!(matches!(closed, CallError::Refused), "{closed:?}");
    }
}
