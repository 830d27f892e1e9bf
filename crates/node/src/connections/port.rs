//! Accepts the connections of one port, serves each in a task, and closes all of them together.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::FutureExt as _;
use seqd_net::{Acceptor, BoxStream, Listen};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::held::{ClientConnection, Held};
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
    stop: oneshot::Sender<Duration>,
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
        S: Fn(Paced<BoxStream>, ClientConnection, Stopping) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let acceptor = Acceptor::open(listener, CLIENTS)?;
        let addr = acceptor.addr();
        let (stop, stopped) = oneshot::channel();
        let served = serve(acceptor, bounds, unreadable, connection, stopped);
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
        let _ = self.stop.send(grace);
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
    mut stop: oneshot::Receiver<Duration>,
) -> bool
where
    S: Fn(Paced<BoxStream>, ClientConnection, Stopping) -> F + Send,
    F: Future<Output = ()> + Send + 'static,
{
    let (stopping, is_stopping) = watch::channel(false);
    // Connections that outlast the grace period are dropped with this set.
    let mut connections = JoinSet::new();
    let mut held = Held::new(acceptor.most(), bounds.unsent_bytes);
    let grace = loop {
        let (accepted, permit) = tokio::select! {
            accepted = acceptor.accept() => accepted,
            () = held.too_much() => {
                held.relieve();
                continue;
            }
            grace = &mut stop => break grace.unwrap_or_default(),
        };
        while connections.try_join_next().is_some() {}
        let has_place = held.make_place();
        let client = held.connection(accepted.from, !has_place);
        let stream = Paced::new(accepted.stream, &bounds, client.clone(), unreadable.clone());
        let stopping = Stopping(is_stopping.clone());
        let served = connection(stream, client.clone(), stopping);
        let task = connections.spawn(served.map(|()| drop(permit)));
        held.add(task, &client);
    };
    drop(acceptor);
    stopping.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    let is_drained = tokio::time::timeout(grace, all).await.is_ok();
    connections.shutdown().await;
    is_drained
}
