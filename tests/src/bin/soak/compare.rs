//! Compares two builds of the program. Each rate is a ratio, which does not change if the speed of
//! the machine drifts.
//!
//! Alternatively compares one build with TLS at both ports and without TLS. The load generator then
//! encrypts on the same machine, which is part of the ratios.
//!
//! A cluster of each build runs. Short slices of load alternate between them, and each slice is
//! compared with the next one. The median of these ratios is judged.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seqd_tests::certificates::{Certificates, Secures as _, days};
use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::load::{Figures, Pace, Target, quantile, run as load};
use serde_json::json;

/// Long enough for connection setup and the first group commits to have no influence.
const SLICE: Duration = Duration::from_millis(500);

/// A build is slower if the median ratio of a rate is below this.
const SLOWER: f64 = 0.97;

struct Row {
    what: &'static str,
    method: &'static str,
    path: &'static str,
    clients: usize,
    /// The number of nodes that receive requests, the leader first.
    nodes: usize,
}

const fn row(what: &'static str, path: &'static str, clients: usize) -> Row {
    Row {
        what,
        method: "GET",
        path,
        clients,
        nodes: 1,
    }
}

const fn strict(what: &'static str, clients: usize, nodes: usize) -> Row {
    Row {
        what,
        method: "POST",
        path: "/v1/sequences/order/next",
        clients,
        nodes,
    }
}

const ROWS: [Row; 9] = [
    row("GET /v1/id", "/v1/id", 1),
    row("GET /v1/id", "/v1/id", 16),
    row("GET /v1/id", "/v1/id", 64),
    row("GET /v1/ids?count=1000", "/v1/ids?count=1000", 1),
    strict("strict next, the leader", 1, 1),
    strict("strict next, three nodes", 1, 3),
    strict("strict next, three nodes", 16, 3),
    strict("strict next, three nodes", 64, 3),
    strict("strict next, three nodes", 256, 3),
];

/// A cluster, and the file with its CA if it uses TLS.
struct Side {
    cluster: Cluster,
    cacert: Option<PathBuf>,
}

pub(crate) fn run(other: &Path, rounds: usize) -> Result<(), Violation> {
    let slower = slower(&started(None, false), &started(Some(other), false), rounds);
    if slower.is_empty() {
        return Ok(());
    }
    Err(Violation::new("the other build's rates", slower.join("; ")))
}

/// Compares TLS with no TLS. The cost is printed and is no violation.
pub(crate) fn run_tls(rounds: usize) {
    slower(&started(None, true), &started(None, false), rounds);
}

/// Prints each rate, and returns the rates that are lower on the first side.
fn slower(new: &Side, old: &Side, rounds: usize) -> Vec<String> {
    let mut slower = Vec::new();
    for row in &ROWS {
        let (targets, mut slices) = ([new, old].map(|side| target(row, side)), Vec::new());
        for round in 0..rounds {
            let slice = |side: usize| load(&targets[side], row.clients, Pace::Closed, SLICE);
            // The first side alternates, so that effects of the first slice on the second one
            // cancel out.
            let pair = if round % 2 == 0 {
                let new = slice(0);
                (new, slice(1))
            } else {
                let old = slice(1);
                (slice(0), old)
            };
            slices.push(pair);
        }
        let ratio = median(slices.iter().map(|(new, old)| new.rate() / old.rate()));
        let (new, old): (Vec<_>, Vec<_>) = slices.into_iter().unzip();
        println!(
            "{}",
            line(row, ratio, &Figures::of_all(new), &Figures::of_all(old))
        );
        if ratio < SLOWER {
            slower.push(format!(
                "{} at {} clients: {ratio:.3}",
                row.what, row.clients
            ));
        }
    }
    slower
}

fn started(binary: Option<&Path>, with_tls: bool) -> Side {
    let mut cluster = Cluster::planned(3);
    for node in 0..3 {
        cluster.node_mut(node).set_binary(binary);
    }
    let cacert = with_tls.then(|| {
        let certificates = Certificates::new(cluster.folder(), "certificates");
        certificates.secure(&mut cluster, days(365));
        certificates.ca()
    });
    let cluster = cluster.ready();
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    Side { cluster, cacert }
}

fn target(row: &Row, side: &Side) -> Target {
    let cluster = &side.cluster;
    let leader = cluster.leader();
    let nodes = (0..row.nodes).map(|i| (leader + i) % 3);
    Target {
        addresses: nodes.map(|i| cluster.address(i)).collect(),
        method: row.method,
        path: row.path.to_owned(),
        cacert: side.cacert.clone(),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    quantile(&values, 0.5)
}

fn line(row: &Row, ratio: f64, new: &Figures, old: &Figures) -> String {
    assert_eq!((new.failures, old.failures), (0, 0), "{}", row.what);
    format!(
        "{:<26} {:>4} clients {:>9.0}/s against {:>9.0}/s  ratio {ratio:.3}  p50 {:>8.1?} against \
         {:>8.1?}  p99 {:>8.1?} against {:>8.1?}",
        row.what,
        row.clients,
        new.rate(),
        old.rate(),
        new.quantile(0.5),
        old.quantile(0.5),
        new.quantile(0.99),
        old.quantile(0.99)
    )
}
