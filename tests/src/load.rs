//! A load generator on raw keep-alive connections. Each has one request at a time, without
//! pipelining.
//!
//! Closed loop: a connection sends its next request once it has the response. Open loop: requests
//! are due at a fixed rate, and the latency counts from the due time, so that a stall of the server
//! counts for all requests that it delayed (coordinated omission: Gil Tene).
//!
//! It runs on one thread, so that a two-core machine keeps a core for the server.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::connection::{Connection, connector};
use crate::report::quantile;
use crate::runtime::block_on;

/// The longest time for which a refused request is sent again. An election takes far less.
const GIVES_UP: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
pub struct Target {
    /// `HOST:PORT` of each server; connections are spread over them.
    addresses: Vec<String>,
    method: &'static str,
    path: String,
    /// The file with the CA of servers with TLS.
    pub cacert: Option<PathBuf>,
}

#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Answers with status 200.
    pub answers: u64,
    /// Other answers, and connections that broke.
    pub failures: u64,
    pub elapsed: Duration,
    /// Every latency in microseconds, in order of size.
    latencies_us: Vec<u32>,
}

impl Figures {
    pub fn new(mut latencies_us: Vec<u32>, failures: u64, elapsed: Duration) -> Self {
        latencies_us.sort_unstable();
        Self {
            answers: latencies_us.len() as u64,
            failures,
            elapsed,
            latencies_us,
        }
    }

    pub fn rate(&self) -> f64 {
        self.answers as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency that `share` (0 to 1) of the answers did not exceed.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_micros(u64::from(quantile(&self.latencies_us, share)))
    }

    /// Combines the figures of several runs.
    pub fn of_all(runs: impl IntoIterator<Item = Figures>) -> Figures {
        let (mut latencies, mut failures, mut elapsed) = (Vec::new(), 0, Duration::ZERO);
        for run in runs {
            failures += run.failures;
            elapsed += run.elapsed;
            latencies.extend(run.latencies_us);
        }
        Self::new(latencies, failures, elapsed)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, slow, most] = [0.5, 0.99, 1.0].map(|share| self.quantile(share));
        let (rate, failures) = (self.rate(), self.failures);
        write!(
            out,
            "{rate:>9.0}/s  p50 {median:>8.1?}  p99 {slow:>8.1?}  most {most:>8.1?}"
        )?;
        match failures {
            0 => Ok(()),
            _ => write!(out, "  {failures} failures"),
        }
    }
}

impl Target {
    pub fn get(addresses: Vec<String>, path: &str) -> Self {
        Self::of("GET", addresses, path)
    }

    pub fn post(addresses: Vec<String>, path: &str) -> Self {
        Self::of("POST", addresses, path)
    }

    pub fn put(addresses: Vec<String>, path: &str) -> Self {
        Self::of("PUT", addresses, path)
    }

    /// The next value of the sequence `order`.
    pub fn order(addresses: Vec<String>) -> Self {
        Self::post(addresses, "/v1/sequences/order/next")
    }

    fn of(method: &'static str, addresses: Vec<String>, path: &str) -> Self {
        Self {
            addresses,
            method,
            path: path.to_owned(),
            cacert: None,
        }
    }

    /// Applies a closed-loop load for `length`; blocks until it has ended.
    pub fn closed(&self, connections: usize, length: Duration) -> Figures {
        block_on(self.load(connections, None, length))
    }

    /// Applies an open-loop load of `rate` requests per second in all.
    pub fn open(&self, connections: usize, rate: f64, length: Duration) -> Figures {
        block_on(self.load(connections, Some(rate), length))
    }

    async fn load(&self, connections: usize, rate: Option<f64>, length: Duration) -> Figures {
        let tls = self.cacert.clone().map(connector);
        let mut open = Vec::new();
        for index in 0..connections {
            let address = &self.addresses[index % self.addresses.len()];
            let connection = Connection::open(address, tls.clone()).await;
            open.push((address, connection.expect("a connection to the server")));
        }
        // Measured from here on: a TLS handshake is not part of a request.
        let begin = Instant::now();
        let tasks = open
            .into_iter()
            .enumerate()
            .map(|(index, (address, connection))| {
                let request = format!(
                    "{} {} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\n\r\n",
                    self.method, self.path
                );
                let schedule = rate.map(|rate| Schedule {
                    next: begin + Duration::from_secs_f64(index as f64 / rate),
                    step: Duration::from_secs_f64(connections as f64 / rate),
                });
                let asked = ask(connection, request.into_bytes(), schedule, begin + length);
                tokio::task::spawn_local(asked)
            });
        let tasks: Vec<_> = tasks.collect();
        let (mut latencies, mut failures) = (Vec::new(), 0);
        for task in tasks {
            let (of_one, failed) = task.await.expect("a connection's task ends");
            latencies.extend(of_one);
            failures += failed;
        }
        Figures::new(latencies, failures, begin.elapsed())
    }
}

/// Sends a request for each of these numbers once over keep-alive connections, spread over the
/// addresses, and blocks until all have a response with a 2xx status. `request` returns the method,
/// the path and a JSON body. A retryable refusal is retried for a while. Any other status panics.
pub fn each(
    addresses: &[String],
    connections: usize,
    numbers: Range<u64>,
    request: impl Fn(u64) -> (&'static str, String, String),
) {
    let (numbers, request) = (&RefCell::new(numbers), &request);
    block_on(async {
        let sent = (0..connections).map(|index| async move {
            let address = &addresses[index % addresses.len()];
            let mut connection = Connection::open(address, None).await.expect("a connection");
            loop {
                let Some(number) = numbers.borrow_mut().next() else {
                    return;
                };
                let (method, path, body) = request(number);
                let request = format!(
                    "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: \
                     application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                let begun = Instant::now();
                loop {
                    match connection
                        .once(request.as_bytes())
                        .await
                        .expect("an answer")
                    {
                        200..300 => break,
                        503 | 504 if begun.elapsed() < GIVES_UP => {
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                        status => panic!("{method} {path}: {status}"),
                    }
                }
            }
        });
        futures_util::future::join_all(sent).await;
    });
}

struct Schedule {
    next: Instant,
    step: Duration,
}

async fn ask(
    mut connection: Connection,
    request: Vec<u8>,
    mut schedule: Option<Schedule>,
    end: Instant,
) -> (Vec<u32>, u64) {
    let mut latencies = Vec::new();
    let mut failures = 0;
    loop {
        let due = match &mut schedule {
            None => Instant::now(),
            Some(schedule) => {
                let due = schedule.next;
                schedule.next += schedule.step;
                if due > Instant::now() {
                    tokio::time::sleep_until(due.into()).await;
                }
                due
            }
        };
        if due >= end {
            return (latencies, failures);
        }
        match connection.once(&request).await {
            Ok(200) => {
                let us = due.elapsed().as_micros();
                latencies.push(u32::try_from(us).unwrap_or(u32::MAX));
            }
            Ok(_) => failures += 1,
            Err(_) => return (latencies, failures + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_come_from_every_latency() {
        let second = Duration::from_secs(1);
        let figures = Figures::new((0..=100).rev().collect(), 0, second);
        assert_eq!(figures.quantile(0.5), Duration::from_micros(50));
        assert_eq!(figures.quantile(1.0), Duration::from_micros(100));
        let slow = Figures::new(vec![900; 101], 0, second);
        let both = Figures::of_all([slow, figures]);
        assert_eq!((both.answers, both.elapsed.as_secs()), (202, 2));
        assert_eq!(both.quantile(0.25), Duration::from_micros(50));
        assert_eq!(both.quantile(0.75), Duration::from_micros(900));
    }
}
