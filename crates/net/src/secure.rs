//! TLS around a listener, and around TCP connections to peers.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::dial::{Dial, Dialing, TcpDial, WhoIsAt};
use crate::listen::{Accepted, Accepting, BoxStream, Listen};
use crate::tls::{Accept, PeerTls, Rotating, accept, dial};

/// An address is logged once within this time, because a node with a wrong certificate dials
/// repeatedly.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// The largest number of log lines within this time for all addresses, so that a port scan does not
/// fill the disk.
const MOST_LOGGED: usize = 16;

/// A port with TLS. Each connection uses the certificates in force at its beginning.
pub struct SecurePort<T> {
    inner: Box<dyn Listen>,
    tls: Arc<Rotating<T>>,
    /// The response to connections without TLS.
    plain: Option<Arc<[u8]>>,
    logged: Arc<LoggedAddresses>,
}

impl<T: Accept> SecurePort<T> {
    /// TLS on the connections of `inner`, the port for `whom`.
    #[must_use]
    pub fn new(inner: Box<dyn Listen>, tls: Arc<Rotating<T>>, whom: &'static str) -> Self {
        Self {
            inner,
            tls,
            plain: None,
            logged: LoggedAddresses::of(whom),
        }
    }

    /// Sets the response to connections without TLS.
    #[must_use]
    pub fn with_plain_answer(self, answer: Vec<u8>) -> Self {
        let plain = Some(answer.into());
        Self { plain, ..self }
    }
}

impl<T: Accept + Send + Sync + 'static> Listen for SecurePort<T> {
    fn open(&mut self) -> io::Result<SocketAddr> {
        self.inner.open()
    }

    fn most(&self) -> usize {
        self.inner.most()
    }

    fn accept(&mut self) -> Accepting<'_> {
        Box::pin(async move {
            let Accepted { stream, from, .. } = self.inner.accept().await?;
            let logged = Arc::clone(&self.logged);
            let failed = move |error: &io::Error| {
                let from = from.map_or_else(|| "a client".to_owned(), |from| from.to_string());
                logged.refused(&from, error);
            };
            let secured = accept(&self.tls.get(), stream, self.plain.clone(), failed);
            Ok(Accepted {
                certified: Some(secured.certified()),
                stream: Box::new(secured),
                from,
            })
        })
    }
}

/// TLS on TCP connections to peers. Each uses the certificates in force at its beginning.
pub struct SecureDial {
    tls: Arc<Rotating<PeerTls>>,
    who: OnceLock<WhoIsAt>,
    logged: Arc<LoggedAddresses>,
}

impl SecureDial {
    #[must_use]
    pub fn new(tls: Arc<Rotating<PeerTls>>) -> Self {
        Self {
            tls,
            who: OnceLock::new(),
            logged: LoggedAddresses::of("peers"),
        }
    }
}

impl Dial for SecureDial {
    fn dial<'a>(&'a self, addr: &'a str) -> Dialing<'a> {
        Box::pin(async move {
            let stream = TcpDial.dial(addr).await?;
            let expected = self.who.get().and_then(|who| who(addr));
            let (logged, at) = (Arc::clone(&self.logged), addr.to_owned());
            let failed = move |error: &io::Error| logged.refused(&at, error);
            let secured = dial(&self.tls.get(), expected, stream, failed).await?;
            Ok(Box::new(secured) as BoxStream)
        })
    }

    fn know(&self, who: WhoIsAt) {
        // Set once: a transport belongs to one node.
        let _ = self.who.set(who);
    }
}

/// The recently logged addresses.
struct LoggedAddresses {
    whom: &'static str,
    lately: Mutex<VecDeque<(String, Instant)>>,
}

impl LoggedAddresses {
    fn of(whom: &'static str) -> Arc<Self> {
        let lately = Mutex::default();
        Arc::new(Self { whom, lately })
    }

    fn refused(&self, address: &str, error: &io::Error) {
        if self.is_due(address, Instant::now()) {
            tracing::warn!(
                "{}: the TLS handshake with {address} failed: {error}",
                self.whom
            );
        }
    }

    fn is_due(&self, address: &str, now: Instant) -> bool {
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        lately.retain(|(_, at)| now.duration_since(*at) < LOG_INTERVAL);
        let is_due = lately.len() < MOST_LOGGED && lately.iter().all(|(one, _)| *one != address);
        if is_due {
            lately.push_back((address.to_owned(), now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_is_reported_rarely_and_the_number_of_addresses_is_bounded() {
        let logged = LoggedAddresses::of("clients' port");
        let from = |last: u8| format!("10.0.0.{last}");
        let now = Instant::now();
        assert!(logged.is_due(&from(1), now) && !logged.is_due(&from(1), now));
        let others = (2..=200).filter(|last| logged.is_due(&from(*last), now));
        assert_eq!(others.count(), MOST_LOGGED - 1);
        assert!(logged.is_due(&from(1), now + LOG_INTERVAL));
    }
}
