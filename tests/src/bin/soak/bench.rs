//! Rates, each as a ratio to a baseline that is measured in the same run.

use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::load::{Figures, Pace, Target, run as load};
use serde_json::json;

use crate::bare::{BareAxum, fdatasyncs_per_second};

/// The client counts of every table.
const CLIENTS: [usize; 4] = [1, 16, 64, 256];

/// The rates of three etcd nodes at the same client counts on two cores, in puts per second.
const ETCD: [f64; 4] = [1170.0, 4400.0, 7900.0, 11_900.0];

/// The share of the bare handler's rate that single-ID requests must reach.
const OF_BARE: f64 = 0.7;

/// The client count at which this ratio is judged: the machine is saturated, and no queue builds up
/// yet.
const JUDGED_AT: usize = 64;

/// The share of the closed loop's rate at which the open loop runs.
const OPEN_SHARE: f64 = 0.5;

pub(crate) fn run(seconds: u64) -> Result<(), Violation> {
    let length = Duration::from_secs(seconds);
    let mut misses = Vec::new();
    let cluster = Cluster::started(3);
    single_ids(&cluster, length, &mut misses);
    strict_values(&cluster, length, &mut misses);
    if misses.is_empty() {
        return Ok(());
    }
    Err(Violation::new("the figures", misses.join("; ")))
}

fn line(what: &str, clients: usize, figures: &Figures) -> String {
    assert_eq!(figures.failures, 0, "{what} at {clients} clients");
    format!(
        "{what:<26} {clients:>4} clients {:>9.0}/s  p50 {:>8.1?}  p99 {:>8.1?}",
        figures.rate(),
        figures.quantile(0.5),
        figures.quantile(0.99)
    )
}

fn single_ids(cluster: &Cluster, length: Duration, misses: &mut Vec<String>) {
    let bare = BareAxum::start();
    let get = |address: &str, path: &str| Target {
        addresses: vec![address.to_owned()],
        method: "GET",
        path: path.to_owned(),
        cacert: None,
    };
    let node = cluster.address(0);
    for clients in CLIENTS {
        let target = get(&bare.address, "/v1/id");
        let theirs = load(&target, clients, Pace::Closed, length);
        println!("{}", line("bare axum handler", clients, &theirs));
        let ours = load(&get(&node, "/v1/id"), clients, Pace::Closed, length);
        let ratio = ours.rate() / theirs.rate();
        println!("{}  ratio {ratio:.2}", line("GET /v1/id", clients, &ours));
        if clients == JUDGED_AT && ratio < OF_BARE {
            misses.push(format!("GET /v1/id at {ratio:.2} of the bare handler"));
        }
        if clients == JUDGED_AT {
            let rate = ours.rate() * OPEN_SHARE;
            let open = load(&get(&node, "/v1/id"), clients, Pace::Open(rate), length);
            println!("{}", line("GET /v1/id, open loop", clients, &open));
        }
    }
    for clients in [1, 4, 16] {
        let batches = load(
            &get(&node, "/v1/ids?count=1000"),
            clients,
            Pace::Closed,
            length,
        );
        let ids = batches.rate() * 1000.0;
        println!(
            "{}  {ids:.0} IDs/s",
            line("GET /v1/ids?count=1000", clients, &batches)
        );
    }
}

fn strict_values(cluster: &Cluster, length: Duration, misses: &mut Vec<String>) {
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let fsyncs = fdatasyncs_per_second(cluster.folder(), length.min(Duration::from_secs(2)));
    println!("bare fdatasync loop        {fsyncs:>22.0}/s");
    // The leader is first: a single client uses the leader, then a follower.
    let leader = cluster.leader();
    let nodes = (0..3).map(|i| (leader + i) % 3);
    let target = Target {
        addresses: nodes.map(|i| cluster.address(i)).collect(),
        method: "POST",
        path: "/v1/sequences/order/next".into(),
        cacert: None,
    };
    let follower = Target {
        addresses: vec![target.addresses[1].clone()],
        ..target.clone()
    };
    let figures = load(&follower, 1, Pace::Closed, length);
    println!("{}", line("strict next, a follower", 1, &figures));
    for (clients, etcd) in CLIENTS.into_iter().zip(ETCD) {
        let figures = load(&target, clients, Pace::Closed, length);
        let ratio = figures.rate() / fsyncs;
        let to_etcd = figures.rate() / etcd;
        println!(
            "{}  {ratio:.2} of the fdatasync loop, {to_etcd:.1} x etcd",
            line("strict next, three nodes", clients, &figures)
        );
        if to_etcd < 1.0 {
            misses.push(format!(
                "strict next at {clients} clients: {:.0}/s",
                figures.rate()
            ));
        }
    }
}
