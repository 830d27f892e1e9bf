//! Accepts a limited number of connections. Other connections wait in the queue of the operating
//! system.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::listen::{Accepted, Listen};
use crate::tls::Certified;

/// The pause after a failed accept, for example without a free file descriptor.
const AFTER_ERROR: Duration = Duration::from_millis(50);

/// Accepts connections while it has permits.
pub struct Acceptor {
    listener: Box<dyn Listen>,
    addr: SocketAddr,
    permits: Arc<Semaphore>,
    most: usize,
    /// The last attempt failed and was logged. Consecutive failures are logged once.
    is_failing: bool,
}

impl Acceptor {
    /// Opens `listener` on the caller's runtime, for at most `limit` concurrent connections, and no
    /// more than [`Listen::most`].
    ///
    /// # Errors
    /// As for [`Listen::open`].
    pub fn open(mut listener: Box<dyn Listen>, limit: usize) -> io::Result<Self> {
        let addr = listener.open()?;
        let most = limit.min(listener.most());
        Ok(Self {
            listener,
            addr,
            permits: Arc::new(Semaphore::new(most)),
            most,
            is_failing: false,
        })
    }

    /// The address of the port.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The largest number of concurrent connections.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the next connection. Waits while the limit is reached. The future may be dropped
    /// while it waits.
    pub async fn accept(&mut self) -> Connection {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            match (permit, self.listener.accept().await) {
                (Ok(permit), Ok(accepted)) => {
                    self.is_failing = false;
                    return Connection {
                        accepted,
                        _permit: permit,
                    };
                }
                (_, Err(error)) => {
                    if !self.is_failing {
                        tracing::warn!(%error, port = %self.addr, "a connection was not accepted");
                    }
                    self.is_failing = true;
                    tokio::time::sleep(AFTER_ERROR).await;
                }
                (Err(_), _) => std::future::pending().await,
            }
        }
    }
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Acceptor")
            .field("addr", &self.addr)
            .field("free", &self.permits.available_permits())
            .finish_non_exhaustive()
    }
}

/// A stream and its permit.
pub struct Connection {
    accepted: Accepted,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// Returns the address of the other side, or `None` if the network has no addresses.
    #[must_use]
    pub fn from(&self) -> Option<IpAddr> {
        self.accepted.from
    }

    /// Returns the node at the other side, once its certificate is known. `None` without TLS.
    #[must_use]
    pub fn certified(&self) -> Option<Certified> {
        self.accepted.certified.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.accepted.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.accepted.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.accepted.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.accepted.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.accepted.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.accepted.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, timeout};

    use super::super::listen::Accepting;
    use super::*;

    /// A network without sockets. It accepts the queued streams; `None` is a failed accept.
    struct Simulated(VecDeque<Option<DuplexStream>>);

    impl Listen for Simulated {
        fn open(&mut self) -> io::Result<SocketAddr> {
            Ok(([127, 0, 0, 1], 7).into())
        }

        fn accept(&mut self) -> Accepting<'_> {
            Box::pin(async move {
                match self.0.pop_front() {
                    Some(Some(stream)) => Ok(Accepted {
                        stream: Box::new(stream),
                        from: None,
                        certified: None,
                    }),
                    Some(None) => Err(io::Error::other("too many open files")),
                    None => std::future::pending().await,
                }
            })
        }
    }

    fn simulated(limit: usize, queue: impl IntoIterator<Item = Option<DuplexStream>>) -> Acceptor {
        let listener = Box::new(Simulated(queue.into_iter().collect()));
        Acceptor::open(listener, limit).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_over_the_limit_waits_until_one_ends() {
        let (one, mut far) = duplex(64);
        let (two, _far) = duplex(64);
        let mut acceptor = simulated(1, [Some(one), Some(two)]);
        let mut first = acceptor.accept().await;
        far.write_all(b"ping").await.unwrap();
        let mut got = [0; 4];
        first.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"ping");
        let wait = Duration::from_secs(1);
        assert!(timeout(wait, acceptor.accept()).await.is_err());
        drop(first);
        assert!(timeout(wait, acceptor.accept()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_accept_that_fails_is_tried_again_after_a_pause() {
        let (one, _far) = duplex(64);
        let mut acceptor = simulated(1, [None, None, Some(one)]);
        let started = Instant::now();
        acceptor.accept().await;
        assert!(started.elapsed() >= 2 * AFTER_ERROR);
    }
}
