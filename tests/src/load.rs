//! A load generator on raw keep-alive connections. Each connection sends one request at a time,
//! without pipelining.
//!
//! Closed loop: a connection sends its next request when the previous response has arrived. Open
//! loop: requests are due at a fixed rate, and a latency is measured from the time at which the
//! request was due. A stall of the server therefore shows in all requests that it delayed
//! (coordinated omission: Gil Tene).
//!
//! The generator runs on one thread, so that a two-core machine keeps a core for the server.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::connection::{Connection, connector};

#[derive(Debug, Clone, Default)]
pub struct Target {
    /// `HOST:PORT` of each server. The connections are spread over them.
    pub addresses: Vec<String>,
    pub method: &'static str,
    pub path: String,
    /// The file with the CA of servers that use TLS.
    pub cacert: Option<PathBuf>,
}

#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Responses with status 200.
    pub answers: u64,
    /// Other responses, and connections that broke.
    pub failures: u64,
    pub elapsed: Duration,
    /// All latencies in microseconds, sorted.
    latencies_us: Vec<u32>,
}

impl Figures {
    pub fn rate(&self) -> f64 {
        self.answers as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency that `share` (0 to 1) of the responses did not exceed.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_micros(u64::from(quantile(&self.latencies_us, share)))
    }

    /// Combines the measurements of several runs.
    pub fn of_all(runs: impl IntoIterator<Item = Figures>) -> Figures {
        let mut all = Figures::default();
        for run in runs {
            all.answers += run.answers;
            all.failures += run.failures;
            all.elapsed += run.elapsed;
            all.latencies_us.extend(run.latencies_us);
        }
        all.latencies_us.sort_unstable();
        all
    }
}

/// The value that `share` (0 to 1) of these sorted values do not exceed. The default value if there
/// are none.
pub fn quantile<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let last = sorted.len().saturating_sub(1);
    let index = (share * last as f64).round() as usize;
    sorted.get(index).copied().unwrap_or_default()
}

/// The order of the requests in time.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    /// The next request follows the response.
    Closed,
    /// This many requests per second in total.
    Open(f64),
}

/// Runs the load and blocks until it ends.
pub fn run(target: &Target, connections: usize, pace: Pace, length: Duration) -> Figures {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime for the load").block_on(async {
        let mut tasks = Vec::new();
        let tls = target.cacert.clone().map(connector);
        let mut open = Vec::new();
        for index in 0..connections {
            let address = &target.addresses[index % target.addresses.len()];
            let connection = Connection::open(address, tls.clone()).await;
            open.push((address, connection.expect("a connection to the server")));
        }
        // The measurement begins here, because a TLS handshake is not part of a request.
        let begin = Instant::now();
        for (index, (address, connection)) in open.into_iter().enumerate() {
            let request = format!(
                "{} {} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\n\r\n",
                target.method, target.path
            );
            let schedule = match pace {
                Pace::Closed => None,
                Pace::Open(rate) => Some(Schedule {
                    next: begin + Duration::from_secs_f64(index as f64 / rate),
                    step: Duration::from_secs_f64(connections as f64 / rate),
                }),
            };
            let end = begin + length;
            tasks.push(tokio::spawn(ask(
                connection,
                request.into_bytes(),
                schedule,
                end,
            )));
        }
        let mut figures = Figures::default();
        for task in tasks {
            let (latencies, failures) = task.await.expect("a connection's task ends");
            figures.answers += latencies.len() as u64;
            figures.failures += failures;
            figures.latencies_us.extend(latencies);
        }
        figures.elapsed = begin.elapsed();
        figures.latencies_us.sort_unstable();
        figures
    })
}

/// Sends each of these requests once over keep-alive connections, spread over the addresses, and
/// blocks until all are answered. `next` returns method, path and a JSON body, and `None` at the
/// end. A request that is refused as retryable is sent again. Returns the number of responses with
/// a 2xx status.
pub fn each(
    addresses: &[String],
    connections: usize,
    next: impl Fn() -> Option<(&'static str, String, String)>,
) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let next = &next;
    runtime.expect("a runtime for the load").block_on(async {
        let sent = (0..connections).map(|index| async move {
            let address = &addresses[index % addresses.len()];
            let mut connection = Connection::open(address, None).await.expect("a connection");
            let mut answered = 0;
            while let Some((method, path, body)) = next() {
                let request = format!(
                    "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: \
                     application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                loop {
                    match connection
                        .once(request.as_bytes())
                        .await
                        .expect("an answer")
                    {
                        200..300 => break,
                        503 | 504 => tokio::time::sleep(Duration::from_millis(20)).await,
                        status => panic!("{method} {path}: {status}"),
                    }
                }
                answered += 1;
            }
            answered
        });
        futures_util::future::join_all(sent).await.into_iter().sum()
    })
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
        let figures = Figures {
            answers: 101,
            failures: 0,
            elapsed: Duration::from_secs(1),
            latencies_us: (0..=100).collect(),
        };
        assert_eq!(figures.quantile(0.5), Duration::from_micros(50));
        assert_eq!(figures.quantile(1.0), Duration::from_micros(100));
        let slow = Figures {
            latencies_us: vec![900; 101],
            ..figures.clone()
        };
        let both = Figures::of_all([slow, figures]);
        assert_eq!((both.answers, both.elapsed.as_secs()), (202, 2));
        assert_eq!(both.quantile(0.25), Duration::from_micros(50));
        assert_eq!(both.quantile(0.75), Duration::from_micros(900));
    }
}
