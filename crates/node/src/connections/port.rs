//! Accepts the connections of one port, serves each in a task, and closes all of them together.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use seqd_net::{Acceptor, Connection, Listen};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::exchange::ClientConnection;
use super::held::Held;
use super::limits::{Bounds, Unreadable};
use super::paced::Paced;
use crate::descriptors::CLIENTS;

/// Resolves when the port stops.
#[derive(Clone)]
pub(crate) struct Stopping(watch::Receiver<bool>);

impl Stopping {
    pub(crate) async fn wait(mut self) {
        // An error means that the port has ended without a stop, which ends this task.
        let _ = self.0.wait_for(|is_stopping| *is_stopping).await;
    }
}

/// A port that is served.
#[derive(Debug)]
pub(crate) struct Port {
    stop: watch::Sender<Option<Duration>>,
    task: JoinHandle<()>,
    addr: SocketAddr,
}

impl Port {
    /// Serves each connection of a listener with `connection`. `unreadable` is for HTTP.
    ///
    /// # Errors
    /// The operating system refuses the listener.
    pub(crate) fn start<S, F>(
        listener: Box<dyn Listen>,
        (bounds, unreadable): (Bounds, Option<Unreadable>),
        connection: S,
    ) -> io::Result<Port>
    where
        S: Fn(Paced<Connection>, ClientConnection, Stopping) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let acceptor = Acceptor::open(listener, CLIENTS)?;
        let addr = acceptor.addr();
        let (stop, mut stopping) = watch::channel(None);
        let grace = async move {
            let grace = stopping.wait_for(Option::is_some).await;
            grace.ok().and_then(|grace| *grace).unwrap_or_default()
        };
        let served = serve(acceptor, bounds, unreadable, connection, grace);
        let task = tokio::spawn(async move {
            if !served.await {
                tracing::warn!("requests in progress were aborted");
            }
        });
        Ok(Port { stop, task, addr })
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

/// Serves connections until `stop` yields a grace period. Then accepts no more, lets requests in
/// flight finish for that long, and disconnects the rest. Dropping the future disconnects all at
/// once.
///
/// Returns whether all requests were answered.
async fn serve<S, F>(
    mut acceptor: Acceptor,
    bounds: Bounds,
    unreadable: Option<Unreadable>,
    connection: S,
    stop: impl Future<Output = Duration> + Send,
) -> bool
where
    S: Fn(Paced<Connection>, ClientConnection, Stopping) -> F + Send,
    F: Future<Output = ()> + Send + 'static,
{
    let (stopping, is_stopping) = watch::channel(false);
    // Connections that outlast the grace period are dropped with this set.
    let mut connections = JoinSet::new();
    let mut held = Held::new(acceptor.most(), bounds.unsent_bytes);
    let mut stop = pin!(stop);
    let grace = loop {
        let stream = tokio::select! {
            stream = acceptor.accept() => stream,
            () = held.too_much() => {
                held.relieve();
                continue;
            }
            grace = &mut stop => break grace,
        };
        while connections.try_join_next().is_some() {}
        let has_place = held.make_place();
        let entry = held.entry(stream.from());
        let is_first = !has_place && held.is_first(&entry);
        let client = ClientConnection::new(entry.clone(), !has_place, is_first);
        let stream = Paced::new(stream, &bounds, entry.clone(), unreadable.clone());
        let stopping = Stopping(is_stopping.clone());
        let task = connections.spawn(connection(stream, client, stopping));
        held.add(task, &entry);
    };
    drop(acceptor);
    stopping.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    let is_drained = tokio::time::timeout(grace, all).await.is_ok();
    connections.shutdown().await;
    is_drained
}
