//! How rates, memory and starts grow with the number of sequences, connections, nodes and threads.
//! Prints every figure, and writes it as a point of `growth.csv` and of one plot per quantity.

mod plots;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::connection::raise_open_files;
use seqd_tests::load::{self, Figures, Target};
use seqd_tests::memory;
use seqd_tests::report::Report;
use serde_json::json;

use self::plots::Plot;
use crate::arguments::Arguments;
use crate::scale::with_room;

/// The sequences of a cluster, in order.
const SEQUENCES: [u64; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];

/// The connections to all nodes of a cluster of three, each of which permits 4,096.
const CONNECTIONS: [usize; 5] = [1, 10, 100, 1_000, 10_000];

const NODES: [usize; 3] = [1, 3, 5];
const THREADS: [usize; 4] = [1, 2, 3, 4];

/// The clients of a load whose number of connections is not the quantity that grows.
const CLIENTS: usize = 64;

/// Connections that create the sequences.
const CREATORS: usize = 256;

/// The most memory that one further sequence may use on a node, bytes.
const OF_A_SEQUENCE: f64 = 500.0;

/// The loads that are measured: a name, and a request.
const LOADS: [(&str, &str, &str); 3] = [
    ("single IDs", "GET", "/v1/id"),
    ("segment values", "POST", "/v1/sequences/parts/next"),
    ("strict values", "POST", "/v1/sequences/order/next"),
];

/// What one run measures.
struct Growth<'a> {
    folder: &'a Path,
    length: Duration,
    csv: String,
    report: Report,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--out --seconds --sequences");
    let folder = Path::new(arguments.text("--out").unwrap_or("growth"));
    std::fs::create_dir_all(folder).expect("a folder for the plots");
    raise_open_files();
    let mut growth = Growth {
        folder,
        length: Duration::from_secs(arguments.value("--seconds", 3)),
        csv: "quantity,amount,figure,value\n".to_owned(),
        report: Report::default(),
    };
    growth.sequences(arguments.value("--sequences", 1_000_000));
    growth.connections();
    growth.nodes();
    growth.threads();
    std::fs::write(folder.join("growth.csv"), &growth.csv).expect("the points are written");
    println!("the plots are in {}", folder.display());
    growth.report.verdict()
}

impl Growth<'_> {
    /// Rates, memory and the time of a start with up to `most` sequences.
    fn sequences(&mut self, most: u64) {
        let mut plot = Plot::new("sequences");
        let mut cluster = with_sequences(with_room(Cluster::planned(3)).ready());
        let (mut there, mut memory) = (2, Vec::new());
        for amount in SEQUENCES.into_iter().filter(|amount| *amount <= most) {
            create(&cluster, there..amount);
            there = amount;
            let follower = cluster.follower();
            let node = cluster.node_mut(follower);
            node.stop();
            node.start();
            let started = cluster.wait_ready_of(&[follower], READY);
            let bytes = memory::resident(cluster.node(follower).pid());
            memory.push((amount as f64, bytes as f64));
            self.point(
                &mut plot,
                amount,
                "memory of a node, MB",
                bytes as f64 / 1e6,
            );
            self.point(&mut plot, amount, "start, ms", started.as_secs_f64() * 1e3);
            self.loads(&mut plot, amount, &cluster, CLIENTS);
        }
        if let [first, .., last] = memory[..] {
            let each = (last.1 - first.1) / (last.0 - first.0);
            println!("{each:.0} bytes of memory per sequence");
            let invariant = "the memory of a sequence, bytes";
            self.report.at_most(invariant, each, OF_A_SEQUENCE);
        }
        self.draw(&plot);
    }

    fn connections(&mut self) {
        let mut plot = Plot::new("connections");
        let cluster = with_sequences(Cluster::started(3));
        for amount in CONNECTIONS {
            self.loads(&mut plot, amount as u64, &cluster, amount);
            let bytes = memory::resident(cluster.node(0).pid());
            let mb = bytes as f64 / 1e6;
            self.point(&mut plot, amount as u64, "memory of a node, MB", mb);
        }
        self.draw(&plot);
    }

    fn nodes(&mut self) {
        let mut plot = Plot::new("nodes");
        for amount in NODES {
            let cluster = with_sequences(Cluster::started(amount));
            self.loads(&mut plot, amount as u64, &cluster, CLIENTS);
        }
        self.draw(&plot);
    }

    fn threads(&mut self) {
        let mut plot = Plot::new("threads");
        for amount in THREADS {
            let cluster = Cluster::planned(1).with("node", "threads", &amount.to_string());
            let cluster = with_sequences(cluster.ready());
            self.loads(&mut plot, amount as u64, &cluster, CLIENTS);
        }
        self.draw(&plot);
    }

    /// Measures each load at all nodes.
    fn loads(&mut self, plot: &mut Plot, amount: u64, cluster: &Cluster, clients: usize) {
        for (what, method, path) in LOADS {
            let target = match method {
                "GET" => Target::get(cluster.leader_first(), path),
                _ => Target::post(cluster.leader_first(), path),
            };
            let figures: Figures = target.closed(clients, self.length);
            let failures = format!(
                "{} of {what} at {amount} {}",
                figures.failures, plot.quantity
            );
            let succeeded = figures.failures == 0;
            self.report
                .require(succeeded, "requests of growth", failures);
            let p99 = figures.quantile(0.99).as_secs_f64() * 1e3;
            self.point(plot, amount, &format!("{what}, 1/s"), figures.rate());
            self.point(plot, amount, &format!("{what}, p99 in ms"), p99);
        }
    }

    fn point(&mut self, plot: &mut Plot, amount: u64, figure: &str, value: f64) {
        let quantity = plot.quantity;
        println!("{quantity:<12} {amount:>8}  {figure:<26} {value:>12.2}");
        let _ = writeln!(self.csv, "{quantity},{amount},{figure:?},{value}");
        plot.add(figure, amount as f64, value);
    }

    fn draw(&self, plot: &Plot) {
        let file = self.folder.join(format!("{}.svg", plot.quantity));
        plot.draw(&file).expect("the plot is drawn");
    }
}

fn with_sequences(cluster: Cluster) -> Cluster {
    cluster.create_sequence(0, "parts", &json!({"mode": "segment"}));
    cluster.with_order()
}

/// Creates sequences until the cluster has this many.
fn create(cluster: &Cluster, numbers: std::ops::Range<u64>) {
    let (next, end) = (AtomicU64::new(numbers.start), numbers.end);
    let requests = move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let body = json!({"mode": "segment"}).to_string();
        (number < end).then(|| ("PUT", format!("/v1/sequences/s.{number}"), body))
    };
    let created = load::each(&cluster.addresses(), CREATORS, requests);
    assert_eq!(
        created,
        numbers.end - numbers.start,
        "sequences that were created"
    );
}
