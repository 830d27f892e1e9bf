//! Clusters in which any node can be cut off from the others.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::{Answering, CallError, Limit, Link, Payload, Transport};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::harness::Cluster;
use crate::peer_transport;

/// The addresses of nodes that are cut off in both directions.
pub(crate) type Cut = Arc<Mutex<BTreeSet<String>>>;

/// A value for a `Cut` that blocks entries to this address, but not heartbeats.
pub(crate) fn log_of(addr: &str) -> String {
    format!("log of {addr}")
}

/// Carries nothing from or to nodes that are cut off. A call times out, as with a pulled cable.
struct Wire {
    own: String,
    cut: Cut,
    below: Arc<dyn Transport>,
}

impl Transport for Wire {
    fn post<'a>(
        &'a self,
        link: Link,
        addr: &'a str,
        route: Route,
        payload: Payload,
        limit: Limit,
    ) -> Answering<'a> {
        let is_cut = {
            let cut = self.cut.lock().unwrap();
            let is_log_cut = link == Link::Log && cut.contains(&log_of(addr));
            is_log_cut || cut.contains(&self.own) || cut.contains(addr)
        };
        if !is_cut {
            return self.below.post(link, addr, route, payload, limit);
        }
        Box::pin(async move {
            sleep(match limit {
                Limit::Total(total) => total,
                Limit::Progress { moving, .. } => moving,
            })
            .await;
            Err(CallError::NoAnswer)
        })
    }
}

/// Three ready nodes, each of which can be cut off.
pub(crate) async fn cluster() -> (Cluster, Cut) {
    let cut = Cut::default();
    let mut cluster = Cluster::planned(3);
    for spot in &mut cluster.spots {
        spot.transport = Arc::new(Wire {
            own: spot.addr.clone(),
            cut: Arc::clone(&cut),
            below: peer_transport(Handle::current()),
        });
    }
    for at in 0..3 {
        cluster.start(at).await.unwrap();
    }
    cluster.create_orders(0).await;
    (cluster, cut)
}
