//! A million live keys that expire at the same time: their effect on a strict next, on the memory
//! of the nodes and on a snapshot, before, with, and after them.

use std::time::{Duration, Instant};

use seqd_tests::checkers::{Violation, require};
use seqd_tests::cluster::Cluster;
use seqd_tests::load::{self, Figures, Target};
use seqd_tests::report::Report;
use seqd_tests::{http, memory, wait};
use serde_json::json;

use crate::arguments::Arguments;

/// The number of connections that begin the keys.
const BEGINNERS: usize = 256;

/// The rate of concurrent strict values per second, and their connections: a load that does not
/// hide a pause.
const RATE: f64 = 200.0;
const CONNECTIONS: usize = 8;

/// The length of the load without keys, and with all of them.
const STEADY: Duration = Duration::from_secs(10);

/// The keys live for the time that it takes to begin them at this rate, plus the time of the
/// measurements.
const FILL_RATE: u64 = 2_500;
const MEASURED_MS: u64 = 40_000;

/// The time after the keys' expiry within which all rows must be dropped: 256 per entry, 50 entries
/// per second.
const DROPPED: Duration = Duration::from_secs(120);

/// The longest latency of a strict value while the keys expire.
const LONGEST: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--keys --rate --idle");
    let keys = arguments.value("--keys", 1_000_000);
    let limit = (keys + 1).to_string();
    let cluster = Cluster::planned(3).patient().with("limits", "keys", &limit);
    // All keys are of one tenant.
    let cluster = cluster.with("limits", "tenant_share", "\"100%\"");
    let cluster = cluster.ready().with_order();
    let target = Target::order(cluster.addresses());
    let steady = |when: &str| {
        let figures = target.open(CONNECTIONS, RATE, STEADY);
        println!("strict next, {when}: {figures}");
        sizes(&cluster, when);
    };
    steady("without keys");
    let life_ms = keys * 1_000 / arguments.value("--rate", FILL_RATE) + MEASURED_MS;
    let end = Instant::now() + Duration::from_millis(life_ms);
    begin(&cluster, keys, end);
    steady("with all keys");
    let left = end.saturating_duration_since(Instant::now());
    let live = all_keys(&cluster);
    let detail = format!("{live} of {keys} when all were begun");
    let all_live = !left.is_zero() && live >= keys as f64;
    require(all_live, "all keys live at once", detail)?;
    std::thread::sleep(left.saturating_sub(Duration::from_secs(1)));
    let load = || match arguments.flag("--idle") {
        true => Figures::default(),
        false => target.open(CONNECTIONS, RATE, 3 * STEADY),
    };
    let (gone, figures) = std::thread::scope(|scope| {
        let load = scope.spawn(load);
        (dropped(&cluster, end), load.join().expect("figures"))
    });
    gone?;
    println!("strict next, while all keys end: {figures}");
    steady("after all keys");
    cluster.wait_same_state(&[0, 1, 2]);
    let mut report = Report::default();
    report.at_most("no pause while keys end", figures.quantile(1.0), LONGEST);
    report.verdict()
}

/// Begins this many keys, which all expire at the same time.
fn begin(cluster: &Cluster, keys: u64, end: Instant) {
    let begun = Instant::now();
    load::each(&cluster.addresses(), BEGINNERS, 0..keys, |key| {
        let left = end.saturating_duration_since(Instant::now()).as_millis();
        let ttl_ms = left.max(1_000);
        let fingerprint = format!("order {key}, 19.90");
        let body = json!({
            "ttl_ms": u64::try_from(ttl_ms).unwrap_or(u64::MAX),
            "claim_ttl_ms": 1_000,
            "fingerprint": fingerprint,
            "nonce": key.to_string(),
        });
        let path = format!("/v1/idempotency/pay-order-{key}/begin");
        ("POST", path, body.to_string())
    });
    let took = begun.elapsed();
    let rate = keys as f64 / took.as_secs_f64();
    println!("{keys} keys begun in {took:.1?} ({rate:.0}/s)");
}

fn all_keys(cluster: &Cluster) -> f64 {
    cluster.metric(0, "seqd_keys")
}

/// Waits until no row of a key remains.
fn dropped(cluster: &Cluster, end: Instant) -> Result<(), Violation> {
    let gone = wait::within(DROPPED, || {
        (all_keys(cluster) == 0.0).then(|| end.elapsed())
    });
    println!("all rows are dropped after the keys' end: {gone:.1?}");
    let detail = format!("{} are left after {DROPPED:?}", all_keys(cluster));
    require(gone.is_some(), "rows of ended keys are dropped", detail)
}

fn sizes(cluster: &Cluster, when: &str) {
    let of = |node: usize| memory::resident(cluster.node(node).pid()) >> 20;
    let memory: Vec<u64> = (0..3).map(of).collect();
    let begun = Instant::now();
    let url = cluster.url(0, "/v1/cluster/snapshot");
    let bytes = http::get(&url).patience(Duration::from_secs(120)).length();
    println!(
        "{when}: memory {memory:?} MiB, a snapshot has {:.1} MiB ({:.1?})",
        bytes as f64 / f64::from(1 << 20),
        begun.elapsed()
    );
}
