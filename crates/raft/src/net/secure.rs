//! TLS at a port and to peers: around whatever listens and dials.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seqd_tls::{Accept, Rotating, accept};
use tokio::time::Instant;

use super::listen::{Accepted, Accepting, Listen};

/// One line about an address in this time: whatever dials with a wrong certificate dials again.
const TOLD_FOR: Duration = Duration::from_secs(30);

/// Lines in this time, from however many addresses: a scan of ports is no reason to fill a disk.
const TOLD: usize = 16;

/// A port whose connections speak TLS, each with what is in force when it comes.
pub struct SecurePort<T> {
    inner: Box<dyn Listen>,
    tls: Arc<Rotating<T>>,
    /// What a request without TLS is answered.
    plain: Option<Arc<[u8]>>,
    told: Arc<Told>,
}

impl<T: Accept> SecurePort<T> {
    /// TLS on the connections of `inner`, which is the port for `whom`.
    #[must_use]
    pub fn new(inner: Box<dyn Listen>, tls: Arc<Rotating<T>>, whom: &'static str) -> Self {
        let told = Arc::new(Told {
            whom,
            lately: Mutex::default(),
        });
        Self {
            inner,
            tls,
            plain: None,
            told,
        }
    }

    /// The same; a request without TLS gets this answer.
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
            let told = Arc::clone(&self.told);
            let failed = move |error: &io::Error| told.refused(from, error);
            let secured = accept(&self.tls.get(), stream, self.plain.clone(), failed);
            Ok(Accepted {
                certified: Some(secured.certified()),
                stream: Box::new(secured),
                from,
            })
        })
    }
}

/// The addresses that were told of lately.
struct Told {
    whom: &'static str,
    lately: Mutex<VecDeque<(Option<IpAddr>, Instant)>>,
}

impl Told {
    fn refused(&self, from: Option<IpAddr>, error: &io::Error) {
        if self.is_due(from, Instant::now()) {
            let from = from.map_or_else(|| "a client".to_owned(), |from| from.to_string());
            tracing::warn!("{}: no TLS with {from}: {error}", self.whom);
        }
    }

    fn is_due(&self, from: Option<IpAddr>, now: Instant) -> bool {
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        lately.retain(|(_, at)| now.duration_since(*at) < TOLD_FOR);
        let is_due = lately.len() < TOLD && lately.iter().all(|(one, _)| *one != from);
        if is_due {
            lately.push_back((from, now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_is_told_of_once_in_a_while_and_few_are() {
        let told = Told {
            whom: "clients' port",
            lately: Mutex::default(),
        };
        let from = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        let now = Instant::now();
        assert!(told.is_due(from(1), now) && !told.is_due(from(1), now));
        let others = (2..=200).filter(|last| told.is_due(from(*last), now));
        assert_eq!(others.count(), TOLD - 1);
        assert!(told.is_due(from(1), now + TOLD_FOR));
    }
}
