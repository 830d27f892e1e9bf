//! Rates of the Redis protocol, measured by `redis-benchmark` in alternated rounds: strict values
//! of three nodes and of one node, compared with a Redis that syncs each write and a Redis that
//! syncs every second; and IDs, compared with a Redis without a log.

use std::process::Command;

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::ports::Port;
use seqd_tests::report::Report;
use seqd_tests::resp::with_redis;

use crate::servers::{Log, Redis};

/// Clients, requests in flight of each, and requests of a round, which are a few seconds of the
/// slowest server.
const LOADS: [(u32, u32, u32); 5] = [
    (1, 1, 5_000),
    (16, 1, 50_000),
    (64, 1, 100_000),
    (256, 1, 150_000),
    (16, 16, 800_000),
];

/// The arguments of redis-benchmark for a value of a sequence, and for an ID.
const VALUE: &[&str] = &["-t", "incr"];
const ID: &[&str] = &["SEQD.ID"];

pub(crate) fn run(rounds: u64) -> Result<(), Violation> {
    let ((three, three_ports), (one, one_ports)) = (seqd(3), seqd(1));
    let redis = [Log::Always, Log::EverySecond, Log::Never].map(Redis::start);
    let leader = &three_ports[three.leader()];
    let [always, every_second, never] = redis.each_ref().map(Redis::port);
    let columns: [(&str, &[&str], &Port); 7] = [
        ("INCR, seqd, three nodes", VALUE, leader),
        ("INCR, seqd, one node", VALUE, &one_ports[0]),
        ("INCR, Redis, always", VALUE, always),
        ("INCR, Redis, everysec", VALUE, every_second),
        ("SEQD.ID, a node of three", ID, leader),
        ("SEQD.ID, one node", ID, &one_ports[0]),
        ("INCR, Redis without a log", VALUE, never),
    ];
    let mut report = Report::default();
    for (clients, in_flight, requests) in LOADS {
        println!("{clients} clients, {in_flight} in flight each, requests/s in {rounds} rounds:");
        let mut rates: [Vec<f64>; 7] = Default::default();
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..columns.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let (_, command, port) = columns[at];
                rates[at].push(rate(port, (clients, in_flight, requests), command));
            }
        }
        for ((name, ..), rates) in columns.iter().zip(&rates) {
            println!("  {name:<26} {rates:>8.0?}");
            let is_served = rates.iter().all(|rate| *rate > 0.0);
            report.require(is_served, "requests served", *name);
        }
    }
    drop((three, one));
    report.verdict()
}

/// A cluster whose nodes speak the Redis protocol, with the ports.
fn seqd(nodes: usize) -> (Cluster, Vec<Port>) {
    let (cluster, ports) = with_redis(Cluster::planned(nodes));
    (cluster.ready(), ports)
}

/// Requests per second; 0 if redis-benchmark does not report them.
fn rate(port: &Port, (clients, in_flight, requests): (u32, u32, u32), command: &[&str]) -> f64 {
    let port = port.number();
    let words = format!("--csv -p {port} -c {clients} -P {in_flight} -n {requests}");
    let mut benchmark = Command::new("redis-benchmark");
    benchmark.args(words.split(' ')).args(command);
    let output = benchmark
        .output()
        .expect("redis-benchmark (is it installed?)");
    let text = String::from_utf8_lossy(&output.stdout);
    let reported = text.lines().last().and_then(|line| line.split('"').nth(3));
    reported.and_then(|rate| rate.parse().ok()).unwrap_or(0.0)
}
