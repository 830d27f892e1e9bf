//! The peers' transport over framed connections: one connection for each peer and link. It is
//! opened at the first call, kept, and reopened after it broke.

use std::collections::BTreeMap;
use std::sync::Arc;

use seqd_net::Lock;
use seqd_net::tls::{PeerTls, Rotating};
use seqd_net::{Dial, SecureDial, TcpDial, WhoIsAt};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::connection::Connection;
use super::route::Route;
use super::transport::{Answering, CallError, Limit, Link, Payload, Transport};
use crate::tasks::{RuntimeTasks, Tasks};

/// The transport of a node that is not simulated. Its connections belong to `runtime`.
#[must_use]
pub fn peer_transport(runtime: Handle) -> Arc<dyn Transport> {
    let tasks = Arc::new(RuntimeTasks(runtime));
    Arc::new(Dialer::new(Arc::new(TcpDial), tasks))
}

/// Like [`peer_transport`], over TLS.
#[must_use]
pub fn secure_peer_transport(tls: Arc<Rotating<PeerTls>>, runtime: Handle) -> Arc<dyn Transport> {
    let tasks = Arc::new(RuntimeTasks(runtime));
    Arc::new(Dialer::new(Arc::new(SecureDial::new(tls)), tasks))
}

pub struct Dialer {
    dial: Arc<dyn Dial>,
    tasks: Arc<dyn Tasks>,
    connections: Lock<BTreeMap<(Link, String), Arc<Connection>>>,
}

impl Dialer {
    /// A transport over the connections that `dial` opens. `tasks` starts their tasks.
    pub fn new(dial: Arc<dyn Dial>, tasks: Arc<dyn Tasks>) -> Self {
        Self {
            dial,
            tasks,
            connections: Lock::default(),
        }
    }

    fn connection(&self, link: Link, addr: &str) -> Arc<Connection> {
        let mut connections = self.connections.lock();
        let key = (link, addr.to_owned());
        if let Some(kept) = connections.get(&key)
            && kept.calls.takes_calls()
        {
            return Arc::clone(kept);
        }
        connections.retain(|_, kept| kept.calls.takes_calls());
        let dial = Arc::clone(&self.dial);
        let opened = Arc::new(Connection::open(dial, &*self.tasks, addr.to_owned(), link));
        connections.insert(key, Arc::clone(&opened));
        opened
    }
}

impl Transport for Dialer {
    fn know(&self, who: WhoIsAt) {
        self.dial.know(who);
    }

    fn post<'a>(
        &'a self,
        link: Link,
        addr: &'a str,
        route: Route,
        payload: Payload,
        limit: Limit,
    ) -> Answering<'a> {
        Box::pin(async move {
            let began = Instant::now();
            let connection = self.connection(link, addr);
            let again = match &payload {
                Payload::Bytes(bytes) if connection.calls.is_connected() => Some(bytes.clone()),
                _ => None,
            };
            let answer = connection.call(route, payload, limit).await;
            match (answer, again) {
                // A kept connection was closed before any part of the call was sent.
                (Err(CallError::Unsent(_)), Some(bytes)) if connection.calls.has_ended() => {
                    let left = limit.after(began.elapsed());
                    let payload = Payload::Bytes(bytes);
                    self.connection(link, addr).call(route, payload, left).await
                }
                (answer, _) => answer,
            }
        })
    }
}
