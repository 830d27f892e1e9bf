//! How rates, memory and starts grow with the number of sequences, connections, nodes and threads.
//! Prints every figure, and writes it as a point of `growth.csv` and of one plot per quantity.

mod plots;

use std::path::Path;
use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::{Cluster, READY};
use seqd_tests::connection::raise_open_files;
use seqd_tests::load::Target;
use seqd_tests::memory;
use seqd_tests::report::Report;
use serde_json::{Value, json};

use self::plots::Plot;
use crate::arguments::Arguments;
use crate::scale::{create, with_room};

/// The numbers of sequences of a cluster, in ascending order.
const SEQUENCES: [u64; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];

/// The numbers of connections to all nodes of a cluster of three, each of which permits 4,096.
const CONNECTIONS: [usize; 5] = [1, 10, 100, 1_000, 10_000];

const NODES: [usize; 3] = [1, 3, 5];
const THREADS: [usize; 4] = [1, 2, 3, 4];

/// The clients of a load, unless the number of connections is the quantity that grows.
const CLIENTS: usize = 64;

/// The most memory that one further sequence may use on a node, bytes.
const OF_A_SEQUENCE: f64 = 500.0;

/// The figure of a plot for [`resident_mb`].
const MEMORY: &str = "memory of a node, MB";

/// Creates a target with requests to any of these addresses.
type Asked = fn(Vec<String>) -> Target;

/// The loads that are measured.
const LOADS: [(&str, Asked); 3] = [
    ("single IDs", |nodes| Target::get(nodes, "/v1/id")),
    ("segment values", |nodes| {
        Target::post(nodes, "/v1/sequences/parts/next")
    }),
    ("strict values", Target::order),
];

struct Growth {
    length: Duration,
    report: Report,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--out --seconds");
    let folder = Path::new(arguments.text("--out").unwrap_or("growth"));
    std::fs::create_dir_all(folder).expect("a folder for the plots");
    raise_open_files();
    let mut growth = Growth {
        length: Duration::from_secs(arguments.value("--seconds", 3)),
        report: Report::default(),
    };
    let plots = [
        growth.sequences(),
        growth.connections(),
        growth.nodes(),
        growth.threads(),
    ];
    let mut csv = "quantity,amount,figure,value\n".to_owned();
    for plot in plots {
        let file = folder.join(format!("{}.svg", plot.quantity));
        plot.draw(&file).expect("the plot is drawn");
        csv += &plot.rows();
    }
    std::fs::write(folder.join("growth.csv"), csv).expect("the points are written");
    println!("the plots are in {}", folder.display());
    growth.report.verdict()
}

impl Growth {
    /// Rates, memory and the time of a start.
    fn sequences(&mut self) -> Plot {
        let mut plot = Plot::new("sequences");
        let mut cluster = with_sequences(with_room(Cluster::planned(3)).ready());
        let (mut there, mut memory) = (2, Vec::new());
        for amount in SEQUENCES {
            create(&cluster, there..amount, plain);
            there = amount;
            let follower = cluster.follower();
            let node = cluster.node_mut(follower);
            node.stop();
            node.start();
            let started = cluster.wait_ready_of(&[follower], READY);
            let mb = resident_mb(&cluster, follower);
            memory.push((amount as f64, mb * 1e6));
            plot.add(amount, MEMORY, mb);
            plot.add(amount, "start, ms", started.as_secs_f64() * 1e3);
            self.loads(&mut plot, amount, &cluster, CLIENTS);
        }
        if let [first, .., last] = memory[..] {
            let each = (last.1 - first.1) / (last.0 - first.0);
            println!("{each:.0} bytes of memory per sequence");
            let invariant = "the memory of a sequence, bytes";
            self.report.at_most(invariant, each, OF_A_SEQUENCE);
        }
        plot
    }

    fn connections(&mut self) -> Plot {
        let mut plot = Plot::new("connections");
        let cluster = with_sequences(Cluster::started(3));
        for amount in CONNECTIONS {
            self.loads(&mut plot, amount as u64, &cluster, amount);
            plot.add(amount as u64, MEMORY, resident_mb(&cluster, 0));
        }
        plot
    }

    fn nodes(&mut self) -> Plot {
        let mut plot = Plot::new("nodes");
        for amount in NODES {
            let cluster = with_sequences(Cluster::started(amount));
            self.loads(&mut plot, amount as u64, &cluster, CLIENTS);
        }
        plot
    }

    fn threads(&mut self) -> Plot {
        let mut plot = Plot::new("threads");
        for amount in THREADS {
            let cluster = Cluster::planned(1).with("node", "threads", &amount.to_string());
            let cluster = with_sequences(cluster.ready());
            self.loads(&mut plot, amount as u64, &cluster, CLIENTS);
        }
        plot
    }

    /// Measures each load at all nodes.
    fn loads(&mut self, plot: &mut Plot, amount: u64, cluster: &Cluster, clients: usize) {
        for (what, asked) in LOADS {
            let figures = asked(cluster.leader_first()).closed(clients, self.length);
            let failures = format!(
                "{} of {what} at {amount} {}",
                figures.failures, plot.quantity
            );
            let succeeded = figures.failures == 0;
            self.report
                .require(succeeded, "requests of growth", failures);
            let p99 = figures.quantile(0.99).as_secs_f64() * 1e3;
            plot.add(amount, &format!("{what}, 1/s"), figures.rate());
            plot.add(amount, &format!("{what}, p99 in ms"), p99);
        }
    }
}

/// The resident memory of a node, in MB.
fn resident_mb(cluster: &Cluster, node: usize) -> f64 {
    memory::resident(cluster.node(node).pid()) as f64 / 1e6
}

fn plain(number: u64) -> (String, Value) {
    (format!("s.{number}"), json!({"mode": "segment"}))
}

fn with_sequences(cluster: Cluster) -> Cluster {
    cluster.create_sequence(0, "parts", &json!({"mode": "segment"}));
    cluster.with_order()
}
