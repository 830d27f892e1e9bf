//! A node as it is assembled for production: real sockets, a real folder.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use seqd_disk::Disk;
use seqd_idgen::WallClock;
use seqd_node::{Layers, Node, Ports, ProtocolListeners};
use tokio::runtime::Handle;

/// Starts a cluster of one node with these further settings.
pub(crate) async fn start(
    folder: &Path,
    settings: &str,
    clock: Arc<dyn WallClock>,
    disk: Arc<dyn Disk>,
    consensus: Handle,
) -> Node {
    let http_listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer_listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (http, peer) = (http_listener.local_addr(), peer_listener.local_addr());
    let file = format!(
        "node = {{ name = \"n1\", data_dir = {folder:?} }}\nhttp.listen = \"{}\"\n\
         peer.listen = \"{}\"\n{settings}",
        http.unwrap(),
        peer.unwrap()
    );
    let layers = Layers::default().file("seqd.toml", &file).unwrap();
    let ports = Ports {
        clock,
        disk,
        http_listener: http_listener.into(),
        peer_listener: peer_listener.into(),
        health_listener: None,
        protocols: ProtocolListeners::default(),
        consensus,
    };
    let resolved = layers.resolve("localhost").unwrap();
    Node::start(resolved.config, ports).await.unwrap()
}
