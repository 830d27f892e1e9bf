//! Compares two builds of the program, side by side. Each result is a ratio, which does not change
//! if the speed of the machine drifts.
//!
//! Also compares one build with TLS at both ports and without. The load generator then does its
//! part of the encryption on the same machine, which the ratios include.
//!
//! A cluster of each build runs; short slices of load alternate between them, and each slice is
//! compared with its neighbour. The median of these ratios is judged.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seqd_tests::certificates::{Certificates, Secures as _, days};
use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::load::{Figures, Target};
use seqd_tests::report::{Report, quantile};

use crate::arguments::Arguments;

/// Long enough that the connections and the first group commits do not matter.
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

/// A cluster, and the file with its CA if it speaks TLS.
struct Side {
    cluster: Cluster,
    cacert: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--with --tls --rounds");
    let rounds = arguments.value("--rounds", 30);
    let this = || started(None, false);
    match arguments.text("--with").map(Path::new) {
        Some(other) => compared(&this(), &started(Some(other), false), rounds).verdict(),
        // A comparison with and without TLS prints the cost, which is no violation.
        None if arguments.flag("--tls") => {
            compared(&started(None, true), &this(), rounds);
            Ok(())
        }
        None => panic!("--with BINARY or --tls is needed"),
    }
}

/// Prints each rate. A lower rate of the first side is a reason to fail.
fn compared(new: &Side, old: &Side, rounds: usize) -> Report {
    let mut report = Report::default();
    for row in &ROWS {
        let (targets, mut slices) = ([new, old].map(|side| target(row, side)), Vec::new());
        for round in 0..rounds {
            let slice = |side: usize| targets[side].closed(row.clients, SLICE);
            // The order alternates, so that the effect of the first slice on the second cancels
            // out.
            let pair = if round % 2 == 0 {
                let new = slice(0);
                (new, slice(1))
            } else {
                let old = slice(1);
                (slice(0), old)
            };
            slices.push(pair);
        }
        let ratios = slices.iter().map(|(new, old)| new.rate() / old.rate());
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let ratio = quantile(&ratios, 0.5);
        let (new, old): (Vec<_>, Vec<_>) = slices.into_iter().unzip();
        let (new, old) = (Figures::of_all(new), Figures::of_all(old));
        let (what, clients) = (row.what, row.clients);
        assert_eq!((new.failures, old.failures), (0, 0), "{what}");
        println!("{what:<26} {clients:>4} clients  ratio {ratio:.3}  {new} against {old}");
        let detail = format!("{what} at {clients} clients: {ratio:.3}");
        report.require(ratio >= SLOWER, "the other build's rates", detail);
    }
    report
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
    Side {
        cluster: cluster.ready().with_order(),
        cacert,
    }
}

fn target(row: &Row, side: &Side) -> Target {
    let mut nodes = side.cluster.leader_first();
    nodes.truncate(row.nodes);
    let mut target = match row.method {
        "GET" => Target::get(nodes, row.path),
        _ => Target::post(nodes, row.path),
    };
    target.cacert = side.cacert.clone();
    target
}
