//! The node's interface to its environment: everything that a test may replace.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use seqd_disk::{Disk, OsDisk};
use seqd_idgen::WallClock;
use seqd_net::{Listen, TcpPort};
use tokio::runtime::Handle;

use crate::clock::OsClock;
use crate::config::Config;
use crate::descriptors::{Descriptors, HEALTH};

/// The environment of a node. Monotonic time is tokio's, which a test can pause.
pub struct Ports {
    pub clock: Arc<dyn WallClock>,
    pub disk: Arc<dyn Disk>,
    /// The clients' port: a bound TCP listener, `into()`, or any other source of streams.
    pub http_listener: Box<dyn Listen>,
    /// The peers' port, likewise.
    pub peer_listener: Box<dyn Listen>,
    /// The port with `/livez`, `/readyz` and `/metrics` alone.
    pub health_listener: Option<Box<dyn Listen>>,
    pub protocols: ProtocolListeners,
    /// The runtime of consensus, with the peers' port and the links to the peers. It should differ
    /// from the runtime of the clients' ports, so that many requests do not delay heartbeats.
    pub consensus: Handle,
}

/// The ports of other protocols that the configuration enables.
#[derive(Default)]
pub struct ProtocolListeners {
    pub redis: Option<Box<dyn Listen>>,
    pub memcached: Option<Box<dyn Listen>>,
}

impl Ports {
    /// The operating system's clock and disk, and listeners bound as configured. File descriptors
    /// limit the number of connections of each. `consensus` is the runtime of consensus.
    pub fn os(config: &Config, descriptors: Descriptors, consensus: Handle) -> io::Result<Ports> {
        let bind = |address, key: &str, most| {
            let bound = TcpListener::bind(address).map_err(|error| {
                io::Error::new(error.kind(), format!("{key} = \"{address}\": {error}"))
            })?;
            let port: Box<dyn Listen> = Box::new(TcpPort::new(bound).with_most(most));
            Ok::<_, io::Error>(port)
        };
        let (redis, memcached) = (config.redis.listen, config.memcached.listen);
        let others = usize::from(redis.is_some()) + usize::from(memcached.is_some());
        let (clients, of_protocol) = descriptors.clients_of(others);
        let enabled = |address: Option<SocketAddr>, key, most| {
            let bound = address.map(|address| bind(address, key, most));
            bound.transpose()
        };
        Ok(Ports {
            clock: Arc::new(OsClock),
            disk: Arc::new(OsDisk),
            http_listener: bind(config.http.listen, "http.listen", clients)?,
            peer_listener: bind(config.peer.listen, "peer.listen", descriptors.peers)?,
            health_listener: enabled(config.health.listen, "health.listen", HEALTH)?,
            protocols: ProtocolListeners {
                redis: enabled(redis, "redis.listen", of_protocol)?,
                memcached: enabled(memcached, "memcached.listen", of_protocol)?,
            },
            consensus,
        })
    }
}

impl fmt::Debug for Ports {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ports").finish_non_exhaustive()
    }
}
