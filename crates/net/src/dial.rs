//! Where connections to peers lead.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::listen::{BoxStream, set_options};

/// A stream to an address, to come.
pub type Dialing<'a> = Pin<Box<dyn Future<Output = io::Result<BoxStream>> + Send + 'a>>;

/// The name of the node at a peer's address; `None` where it is not known.
pub type WhoIsAt = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Connects to the address of a peer, `HOST:PORT`.
pub trait Dial: Send + Sync {
    /// A port without a process behind it is [`io::ErrorKind::ConnectionRefused`].
    fn dial<'a>(&'a self, addr: &'a str) -> Dialing<'a>;

    /// Says once who is where, before the first connection: certificates are compared with it.
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
