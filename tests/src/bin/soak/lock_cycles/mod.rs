//! Locks acquired and released, in one run with those of three etcd nodes and of one Redis that
//! syncs each write: first each client on its own lock, then sixteen clients on one lock.

mod client;
mod servers;

use std::time::{Duration, Instant};

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::load::{Pace, Target, quantile, run as load};
use tokio::runtime::{Builder, Runtime};

use self::client::{Client, Kind};
use self::servers::{Etcd, Redis};
use crate::bare::BareAxum;

/// The client counts for separate locks.
const CLIENTS: [usize; 3] = [1, 16, 64];

/// The number of clients that share one lock.
const RIVALS: usize = 16;

/// The multiple of etcd's rate that the rate on separate locks must reach.
const OF_ETCD: f64 = 4.0;

/// The required hand-overs per second of the shared lock.
const HAND_OVERS: f64 = 2_000.0;

/// The largest permitted ratio between the turns of the most and the least successful rival.
const UNFAIR: f64 = 1.5;

struct Cycles {
    /// The number of finished cycles, by client.
    each: Vec<u64>,
    elapsed: Duration,
    latencies_us: Vec<u32>,
}

impl Cycles {
    fn rate(&self) -> f64 {
        self.each.iter().sum::<u64>() as f64 / self.elapsed.as_secs_f64()
    }

    fn line(&self, what: &str) -> String {
        let of = |share| Duration::from_micros(u64::from(quantile(&self.latencies_us, share)));
        format!(
            "{what:<22} {:>3} clients {:>8.0}/s  p50 {:>8.1?}  p99 {:>8.1?}",
            self.each.len(),
            self.rate(),
            of(0.5),
            of(0.99)
        )
    }

    /// The ratio between the turns of the most and the least successful client.
    fn unfairness(&self) -> f64 {
        let least = self.each.iter().min().copied().unwrap_or_default();
        let most = self.each.iter().max().copied().unwrap_or_default();
        most as f64 / (least.max(1)) as f64
    }
}

pub(crate) fn run(seconds: u64) -> Result<(), Violation> {
    let length = Duration::from_secs(seconds);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime for the clients");
    let (cluster, etcd, redis) = (Cluster::started(3), Etcd::start(), Redis::start());
    let leader = cluster.leader();
    let seqd = (0..3).map(|at| cluster.address((leader + at) % 3));
    let servers = [
        (Kind::Seqd, seqd.collect::<Vec<_>>()),
        (Kind::Etcd, etcd.addresses()),
        (Kind::Redis, vec![redis.address()]),
    ];
    let mut misses = Vec::new();
    for clients in CLIENTS {
        println!("{}", bare(clients, length));
        let mut rates = Vec::new();
        for (kind, addresses) in &servers {
            let cycles = cycles(&runtime, *kind, addresses, clients, false, length);
            println!("{}", cycles.line(kind.name()));
            rates.push(cycles.rate());
        }
        let (of_etcd, of_redis) = (rates[0] / rates[1], rates[0] / rates[2]);
        println!("{clients} clients: {of_etcd:.1} times etcd, {of_redis:.2} of Redis\n");
        if of_etcd < OF_ETCD {
            misses.push(format!("{of_etcd:.1} times etcd at {clients} clients"));
        }
        if clients == 64 && of_redis < 1.0 {
            misses.push(format!("{of_redis:.2} of Redis at {clients} clients"));
        }
    }
    println!("one lock:");
    for (kind, addresses) in &servers {
        let cycles = cycles(&runtime, *kind, addresses, RIVALS, true, length);
        let unfairness = cycles.unfairness();
        let line = cycles.line(kind.name());
        println!("{line}  the luckiest {unfairness:.2} times the unluckiest");
        if *kind == Kind::Seqd && (cycles.rate() < HAND_OVERS || unfairness > UNFAIR) {
            misses.push(format!(
                "{:.0} hand-overs/s, {unfairness:.2}",
                cycles.rate()
            ));
        }
    }
    if misses.is_empty() {
        return Ok(());
    }
    Err(Violation::new("the figures", misses.join("; ")))
}

/// The rate of the bare handler with two requests per cycle.
fn bare(clients: usize, length: Duration) -> String {
    let bare = BareAxum::start();
    let target = Target {
        addresses: vec![bare.address.clone()],
        method: "GET",
        path: "/v1/id".to_owned(),
        cacert: None,
    };
    let figures = load(
        &target,
        clients,
        Pace::Closed,
        length.min(Duration::from_secs(2)),
    );
    let pairs = figures.rate() / 2.0;
    format!("bare axum, two requests {clients:>2} clients {pairs:>8.0}/s")
}

/// Each client acquires and releases a lock until the time has passed. A cycle is measured from the
/// request for the lock to the response to the release.
fn cycles(
    runtime: &Runtime,
    kind: Kind,
    addresses: &[String],
    clients: usize,
    share: bool,
    length: Duration,
) -> Cycles {
    runtime.block_on(async {
        let mut open = Vec::new();
        for at in 0..clients {
            let address = &addresses[at % addresses.len()];
            let lock = format!("bench-{}", if share { clients } else { at });
            open.push(Client::open(kind, address, &lock, at).await);
        }
        let (begin, end) = (Instant::now(), Instant::now() + length);
        let tasks = open.into_iter().map(|mut client| {
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while Instant::now() < end {
                    let asked = Instant::now();
                    client.cycle().await.expect("the server answers");
                    latencies.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
                }
                latencies
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let (mut each, mut latencies_us) = (Vec::new(), Vec::new());
        for task in tasks {
            let latencies = task.await.expect("a client's task ends");
            each.push(latencies.len() as u64);
            latencies_us.extend(latencies);
        }
        let elapsed = begin.elapsed();
        latencies_us.sort_unstable();
        Cycles {
            each,
            elapsed,
            latencies_us,
        }
    })
}
