//! The clients' port: its limits, and a stop that lets requests in flight finish.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::http;
use seqd_net::{Acceptor, Listen};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::connections::{
    self, Answered, ClientConnection, HttpLimits, IsHot, Received, Unreadable,
};
use crate::descriptors::CLIENTS;

pub(super) const LIMITS: HttpLimits = HttpLimits {
    // Generous for cookies, tokens and tracing, but small for an attacker.
    head_bytes: 16 * 1024,
    headers: 64,
    hot: None,
    // Longer than the pools of common clients keep an idle connection.
    head_wait: Some(Duration::from_secs(100)),
    // A client connects because it has a request.
    first_byte: Duration::from_secs(10),
    // The time for which the reader of a snapshot may stall, and many times the longest pause of a
    // link that loses packets.
    write_wait: Duration::from_secs(60),
    // A hundred and fifty of the largest responses.
    unsent_bytes: 32 << 20,
};

/// The body of a request for the router.
pub(super) fn body_of(received: Received) -> Body {
    match received {
        Received::Whole(bytes) if bytes.is_empty() => Body::empty(),
        Received::Whole(bytes) => Body::from(bytes),
        Received::Streamed(body) => Body::new(body),
    }
}

#[derive(Debug)]
pub(crate) struct Server {
    stop: watch::Sender<Option<Duration>>,
    task: JoinHandle<()>,
    addr: SocketAddr,
}

impl Server {
    pub(crate) fn start<A>(
        listener: Box<dyn Listen>,
        answer: A,
        unreadable: Unreadable,
        hot: Option<IsHot>,
    ) -> io::Result<Server>
    where
        A: Fn(http::Request<Body>, ClientConnection) -> Answered<Body>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let acceptor = Acceptor::open(listener, CLIENTS)?;
        let addr = acceptor.addr();
        let (stop, mut stopping) = watch::channel(None);
        let grace = async move {
            let grace = stopping.wait_for(Option::is_some).await;
            grace.ok().and_then(|grace| *grace).unwrap_or_default()
        };
        let answer = move |request: http::Request<Received>, connection| {
            answer(request.map(body_of), connection)
        };
        let limits = HttpLimits { hot, ..LIMITS };
        let task = tokio::spawn(async move {
            if !connections::serve(acceptor, limits, answer, unreadable, grace).await {
                tracing::warn!("requests in flight were cut");
            }
        });
        Ok(Server { stop, task, addr })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Accepts no more connections, lets requests in flight finish for up to `grace`, then
    /// disconnects the rest.
    pub(crate) async fn stop(self, grace: Duration) {
        self.stop.send_replace(Some(grace));
        let _ = self.task.await;
    }
}
