//! Cycles of acquiring and releasing locks over HTTP and over the Redis protocol, first with a lock
//! for each client, then with sixteen clients on one lock. The same run measures three etcd nodes
//! and one Redis that syncs each write.

mod client;

use std::time::{Duration, Instant};

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::load::{Figures, Target};
use seqd_tests::ports::Port;
use seqd_tests::report::Report;
use seqd_tests::resp::with_redis;
use seqd_tests::runtime::block_on;

use self::client::{Client, Kind};
use crate::bare::BareAxum;
use crate::servers::{Etcd, Log, Redis};

/// The client counts, each client on a lock of its own.
const CLIENTS: [usize; 3] = [1, 16, 64];

/// Clients that share one lock.
const RIVALS: usize = 16;

/// The least ratio of the rate to etcd's, with each client on a lock of its own.
const OF_ETCD: f64 = 4.0;

/// The least hand-overs per second of a lock with sixteen clients.
const HAND_OVERS: f64 = 2_000.0;

/// The largest permitted ratio of the holds of the most successful rival to those of the least
/// successful one.
const UNFAIR: f64 = 1.5;

pub(crate) fn run(seconds: u64) -> Result<(), Violation> {
    let length = Duration::from_secs(seconds);
    let (cluster, ports) = with_redis(Cluster::planned(3));
    let (cluster, etcd, redis) = (cluster.ready(), Etcd::start(), Redis::start(Log::Always));
    let mut over_redis: Vec<String> = ports.iter().map(Port::address).collect();
    over_redis.rotate_left(cluster.leader());
    let servers = [
        (Kind::Seqd, cluster.leader_first()),
        (Kind::Etcd, etcd.addresses()),
        (Kind::Redis, vec![redis.port().address()]),
        (Kind::SeqdAsRedis, over_redis),
    ];
    let mut report = Report::default();
    for clients in CLIENTS {
        let bare = BareAxum::start();
        let target = Target::get(vec![bare.address.clone()], "/v1/id");
        let pairs = target
            .closed(clients, length.min(Duration::from_secs(2)))
            .rate()
            / 2.0;
        println!("bare axum, two requests {clients:>2} clients {pairs:>8.0}/s");
        let rates = servers.each_ref().map(|(kind, addresses)| {
            let (figures, _) = cycles(*kind, addresses, clients, false, length);
            println!("{kind:?} {clients:>3} clients {figures}");
            figures.rate()
        });
        let (of_etcd, of_redis) = (rates[0] / rates[1], rates[0] / rates[2]);
        let line = format!("{clients} clients: {of_etcd:.1} times etcd, {of_redis:.2} of Redis");
        println!("  {line}");
        let is_fast = of_etcd >= OF_ETCD && (clients != 64 || of_redis >= 1.0);
        report.require(is_fast, "cycles on locks of one's own", line);
    }
    println!("one lock:");
    for (kind, addresses) in &servers {
        let (figures, unfairness) = cycles(*kind, addresses, RIVALS, true, length);
        let line = format!("{kind:?} {figures}  the luckiest {unfairness:.2} times the unluckiest");
        println!("  {line}");
        let holds = figures.rate() >= HAND_OVERS && unfairness <= UNFAIR;
        report.require(*kind != Kind::Seqd || holds, "hand-overs of one lock", line);
    }
    report.verdict()
}

/// Each client acquires and releases a lock until the time has passed. A cycle counts from before
/// the request for the lock until after the response to the release. Also returns the ratio of the
/// holds of the most successful client to those of the least successful one.
fn cycles(
    kind: Kind,
    addresses: &[String],
    clients: usize,
    share: bool,
    length: Duration,
) -> (Figures, f64) {
    block_on(async {
        let mut open = Vec::new();
        for at in 0..clients {
            let address = &addresses[at % addresses.len()];
            let lock = if share { clients } else { at };
            open.push(Client::open(kind, address, lock, at).await);
        }
        let (begin, end) = (Instant::now(), Instant::now() + length);
        let cycles = open.into_iter().map(|mut client| async move {
            let mut latencies = Vec::new();
            while Instant::now() < end {
                let asked = Instant::now();
                client.cycle().await.expect("the server answers");
                latencies.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
            latencies
        });
        let each = futures_util::future::join_all(cycles).await;
        let counts = each.iter().map(Vec::len);
        let (least, most) = (counts.clone().min(), counts.max());
        let unfairness = most.unwrap_or(0) as f64 / least.unwrap_or(0).max(1) as f64;
        (Figures::new(each.concat(), 0, begin.elapsed()), unfairness)
    })
}
