//! The attacked node, observed by a health checker and by its host.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use seqd_tests::cluster::Cluster;
use seqd_tests::load::quantile;
use seqd_tests::{memory, wait};

/// The interval between the beginnings of two checks.
const EVERY: Duration = Duration::from_millis(100);

/// The time limit of a check.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The latencies of the checks, sorted.
    checks: Vec<Duration>,
    pub(super) longest: Duration,
    /// The time at which the longest check began, since the beginning of the attacks.
    longest_at: Duration,
    pub(super) unanswered: u64,
    pub(super) most_memory: u64,
}

impl fmt::Display for Watched {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, slow] = [0.5, 0.99].map(|share| quantile(&self.checks, share));
        write!(
            out,
            "/livez: {} checks, {} unanswered, p50 {median:.1?}, p99 {slow:.1?}, most {:.1?} (after \
             {:.0?}); {} MB of memory at most",
            self.checks.len(),
            self.unanswered,
            self.longest,
            self.longest_at,
            self.most_memory / 1_000_000
        )
    }
}

/// Checks the node for this long.
pub(super) fn watch(cluster: &Cluster, node: usize, length: Duration) -> Watched {
    let pid = cluster.node(node).pid();
    let sample = || {
        std::thread::sleep(EVERY);
        memory::resident(pid)
    };
    let (mut watched, memory) = wait::beside(sample, || check_for(&cluster.address(node), length));
    watched.most_memory = memory.into_iter().max().unwrap_or_default();
    watched.checks.sort_unstable();
    watched
}

fn check_for(address: &str, length: Duration) -> Watched {
    let mut watched = Watched::default();
    let begin = Instant::now();
    while begin.elapsed() < length {
        let asked = Instant::now();
        match check(address) {
            Some(()) => {
                let took = asked.elapsed();
                if took > watched.longest {
                    (watched.longest, watched.longest_at) = (took, asked - begin);
                }
                watched.checks.push(took);
            }
            None => watched.unanswered += 1,
        }
        std::thread::sleep(EVERY.saturating_sub(asked.elapsed()));
    }
    watched
}

/// One check on a separate connection. `None` if the response is not a 200.
fn check(address: &str) -> Option<()> {
    let address = address.parse().ok()?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_nodelay(true).ok()?;
    stream
        .write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .ok()?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).ok()?;
    (answer == *b"HTTP/1.1 200").then_some(())
}
