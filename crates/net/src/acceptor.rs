//! Accepts a limited number of connections. Other connections wait in the queue of the operating
//! system.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::listen::{Accepted, Listen};

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

    /// Returns the next connection, and its permit, which the caller drops when the connection ends.
    /// Waits while the limit is reached. The future may be dropped while it waits.
    pub async fn accept(&mut self) -> (Accepted, OwnedSemaphorePermit) {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            match (permit, self.listener.accept().await) {
                (Ok(permit), Ok(accepted)) => {
                    self.is_failing = false;
                    return (accepted, permit);
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
        let (mut first, permit) = acceptor.accept().await;
        far.write_all(b"ping").await.unwrap();
        let mut got = [0; 4];
        first.stream.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"ping");
        let wait = Duration::from_secs(1);
        assert!(timeout(wait, acceptor.accept()).await.is_err());
        drop(permit);
        assert!(timeout(wait, acceptor.accept()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_accept_that_fails_is_tried_again_after_a_pause() {
        let (one, _far) = duplex(64);
        let mut acceptor = simulated(1, [None, None, Some(one)]);
        let started = Instant::now();
        let (_accepted, _permit) = acceptor.accept().await;
        assert!(started.elapsed() >= 2 * AFTER_ERROR);
    }
}
