//! Connections to peers.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::listen::{BoxStream, set_options};

/// The future stream to an address.
pub type Dialing<'a> = Pin<Box<dyn Future<Output = io::Result<BoxStream>> + Send + 'a>>;

/// Returns the name of the node at a peer's address, or `None` if it is unknown.
pub type WhoIsAt = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Connects to the address of a peer, `HOST:PORT`.
pub trait Dial: Send + Sync {
    /// Connects. For a port without a process the error is [`io::ErrorKind::ConnectionRefused`].
    fn dial<'a>(&'a self, addr: &'a str) -> Dialing<'a>;

    /// Sets, once before the first connection, the names with which certificates are compared.
    fn know(&self, _who: WhoIsAt) {}
}

/// TCP connections.
#[derive(Clone, Copy, Debug)]
pub struct TcpDial;

impl Dial for TcpDial {
    fn dial<'a>(&'a self, addr: &'a str) -> Dialing<'a> {
        Box::pin(async move {
            let stream = TcpStream::connect(addr).await?;
            if let Err(error) = set_options(&stream) {
                tracing::debug!(%error, "a connection keeps its default options");
            }
            Ok(Box::new(stream) as BoxStream)
        })
    }
}
