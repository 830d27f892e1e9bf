//! Sources of connections.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::tls::Certified;

/// The largest number of connections that wait to be accepted: many may arrive while all cores are
/// busy. If the queue is full, the system of the client retries a second later. The system of the
/// node may allow fewer (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// A bidirectional stream of bytes.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub type BoxStream = Box<dyn Stream>;

/// A stream, and the address of the other side if the network has addresses.
pub struct Accepted {
    pub stream: BoxStream,
    pub from: Option<IpAddr>,
    /// The node at the other side, once its certificate is known. `None` without TLS.
    pub certified: Option<Certified>,
}

/// The next stream of a [`Listen`], as a future.
pub type Accepting<'a> = Pin<Box<dyn Future<Output = io::Result<Accepted>> + Send + 'a>>;

/// A source of connections. It is already bound to its address.
pub trait Listen: Send {
    /// Registers with the runtime of the caller, once, before the first [`Listen::accept`]. Returns
    /// the address.
    ///
    /// # Errors
    /// The operating system refuses.
    fn open(&mut self) -> io::Result<SocketAddr>;

    /// The number of concurrent connections for which the process has descriptors, at least two.
    fn most(&self) -> usize {
        usize::MAX
    }

    /// Returns the next connection. The future may be dropped while it waits.
    fn accept(&mut self) -> Accepting<'_>;
}

/// A TCP port. Accepting requires a runtime, binding does not.
#[derive(Debug)]
pub struct TcpPort {
    bound: Option<std::net::TcpListener>,
    open: Option<TcpListener>,
    most: usize,
}

impl TcpPort {
    /// The port of `bound`.
    #[must_use]
    pub fn new(bound: std::net::TcpListener) -> Self {
        let (bound, open) = (Some(bound), None);
        let most = usize::MAX;
        Self { bound, open, most }
    }

    /// The same port for `most` concurrent connections, at least two.
    #[must_use]
    pub fn with_most(self, most: usize) -> Self {
        let most = most.max(2);
        Self { most, ..self }
    }
}

impl Listen for TcpPort {
    fn open(&mut self) -> io::Result<SocketAddr> {
        if let Some(bound) = self.bound.take() {
            bound.set_nonblocking(true)?;
            // Listens again, with a longer queue than that of the standard library.
            rustix::net::listen(&bound, BACKLOG)?;
            self.open = Some(TcpListener::from_std(bound)?);
        }
        match &self.open {
            Some(listener) => listener.local_addr(),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn most(&self) -> usize {
        self.most
    }

    fn accept(&mut self) -> Accepting<'_> {
        Box::pin(async move {
            let Some(listener) = &self.open else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            let (stream, from) = listener.accept().await?;
            if let Err(error) = set_options(&stream) {
                tracing::debug!(%error, "a connection keeps its default options");
            }
            Ok(Accepted {
                stream: Box::new(stream),
                from: Some(from.ip()),
                certified: None,
            })
        })
    }
}

impl From<std::net::TcpListener> for Box<dyn Listen> {
    fn from(bound: std::net::TcpListener) -> Self {
        Box::new(TcpPort::new(bound))
    }
}

/// Sets TCP_NODELAY, because small responses would wait for the delayed acknowledgements of the
/// other side, and keepalive, which ends a connection a minute after its host disappeared.
pub(crate) fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(30))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(())
}
