//! Clients on threads: each repeats an operation until the end and records the results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Dropping them ends the clients, without a wait for their last operations.
#[derive(Debug)]
pub struct Clients<R> {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<R>>>,
}

impl<R: Send + 'static> Clients<R> {
    /// Starts the clients. Each call of a client is one operation, and returns its record and the
    /// pause after it.
    pub fn start<C>(clients: impl IntoIterator<Item = C>) -> Self
    where
        C: FnMut() -> (R, Duration) + Send + 'static,
    {
        let over = Arc::new(AtomicBool::new(false));
        let threads = clients.into_iter().map(|mut client| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                let mut records = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let (record, pause) = client();
                    records.push(record);
                    if !pause.is_zero() {
                        std::thread::sleep(pause);
                    }
                }
                records
            })
        });
        Self {
            threads: threads.collect(),
            over,
        }
    }

    /// Waits until each client has finished its operation. Returns all records.
    pub fn finish(mut self) -> Vec<R> {
        self.over.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        threads
            .into_iter()
            .flat_map(|client| client.join().expect("a client that ends"))
            .collect()
    }
}

impl<R> Drop for Clients<R> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use super::*;

    #[test]
    fn clients_that_are_dropped_end() {
        let (held, ended) = channel::<()>();
        let client = move || {
            let _ = &held;
            ((), Duration::from_millis(1))
        };
        drop(Clients::start([client]));
        let ended = ended.recv_timeout(Duration::from_secs(10));
        assert_eq!(ended, Err(RecvTimeoutError::Disconnected));
    }
}
