//! Rates, each as a ratio to a baseline that is measured in the same run.

use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::load::{Figures, Target};
use seqd_tests::report::Report;

use crate::bare::{BareAxum, fdatasyncs_per_second};

/// The client counts of every table.
const CLIENTS: [usize; 4] = [1, 16, 64, 256];

/// Three etcd nodes at the same client counts on two cores, in puts per second.
const ETCD: [f64; 4] = [1170.0, 4400.0, 7900.0, 11_900.0];

/// The share of the bare handler's rate that single-ID requests must reach.
const OF_BARE: f64 = 0.7;

/// The client count at which that ratio is judged: the machine is saturated, but no queue has
/// formed.
const JUDGED_AT: usize = 64;

/// The share of the closed loop's rate at which the open loop is run.
const OPEN_SHARE: f64 = 0.5;

pub(crate) fn run(seconds: u64) -> Result<(), Violation> {
    let length = Duration::from_secs(seconds);
    let mut report = Report::default();
    let cluster = Cluster::started(3).with_order();
    single_ids(&cluster, length, &mut report);
    strict_values(&cluster, length, &mut report);
    report.verdict()
}

/// Prints the figures of a table's line, and returns the rate.
fn line(what: &str, clients: usize, figures: &Figures) -> f64 {
    assert_eq!(figures.failures, 0, "{what} at {clients} clients");
    println!("{what:<26} {clients:>4} clients {figures}");
    figures.rate()
}

fn single_ids(cluster: &Cluster, length: Duration, report: &mut Report) {
    let bare = BareAxum::start();
    let bare = Target::get(vec![bare.address.clone()], "/v1/id");
    let ours = Target::get(vec![cluster.address(0)], "/v1/id");
    for clients in CLIENTS {
        let theirs = line("bare axum handler", clients, &bare.closed(clients, length));
        let rate = line("GET /v1/id", clients, &ours.closed(clients, length));
        let ratio = rate / theirs;
        println!("  ratio {ratio:.2}");
        if clients == JUDGED_AT {
            report.require(
                ratio >= OF_BARE,
                "GET /v1/id of the bare handler",
                ratio.to_string(),
            );
            let open = ours.open(clients, rate * OPEN_SHARE, length);
            line("GET /v1/id, open loop", clients, &open);
        }
    }
    let batches = Target::get(vec![cluster.address(0)], "/v1/ids?count=1000");
    for clients in [1, 4, 16] {
        let rate = line(
            "GET /v1/ids?count=1000",
            clients,
            &batches.closed(clients, length),
        );
        println!("  {:.0} IDs/s", rate * 1000.0);
    }
}

fn strict_values(cluster: &Cluster, length: Duration, report: &mut Report) {
    let fsyncs = fdatasyncs_per_second(cluster.folder(), length.min(Duration::from_secs(2)));
    println!("bare fdatasync loop        {fsyncs:>22.0}/s");
    // The leader first: a single client is measured at the leader, then at a follower.
    let nodes = cluster.leader_first();
    let follower = Target::order(vec![nodes[1].clone()]);
    line("strict next, a follower", 1, &follower.closed(1, length));
    let all = Target::order(nodes);
    for (clients, etcd) in CLIENTS.into_iter().zip(ETCD) {
        let rate = line(
            "strict next, three nodes",
            clients,
            &all.closed(clients, length),
        );
        let (of_loop, of_etcd) = (rate / fsyncs, rate / etcd);
        println!("  {of_loop:.2} of the fdatasync loop, {of_etcd:.1} x etcd");
        let detail = format!("{rate:.0}/s at {clients} clients");
        report.require(of_etcd >= 1.0, "strict next of etcd's rate", detail);
    }
}
