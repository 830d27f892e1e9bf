//! A hostile hour, or a part of one. One node of three, the leader, is attacked at both of its
//! ports. Meanwhile a health checker sends it ten requests per second, each on a new connection,
//! and clients of the other two nodes request values and IDs.
//!
//! The attackers run in a separate process with the scheduling class `idle`, so that they take no
//! processor time from the nodes: real attackers would run on other machines.

mod attacks;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::load::Target;
use seqd_tests::report::{Report, Times};
use seqd_tests::{node_peaks, wait};
use serde_json::json;

use crate::arguments::Arguments;
use crate::attackers::Process;

pub(crate) use attacks::attack;

/// The memory limit of the attacked node, in bytes.
const MOST_MEMORY: u64 = 250_000_000;

/// The interval of health checks, and the longest time that `/livez` may take.
const EVERY: Duration = Duration::from_millis(100);
const MOST_HEALTH: Duration = Duration::from_millis(100);

/// The time limit of a health check.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time limit until full speed returns, and the share of the rate before that counts as full
/// speed.
const RECOVERY: Duration = Duration::from_secs(5);
const FULL_SPEED: f64 = 0.8;

/// The requests per second of the clients of the other nodes, and their connections.
const RATE: f64 = 100.0;
const CONNECTIONS: usize = 4;

/// The clients that measure the full speed, and the length of a measurement.
const CLIENTS: usize = 16;
const SLICE: Duration = Duration::from_millis(500);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--seconds --descriptors");
    let length = Duration::from_secs(arguments.value("--seconds", 60));
    let all = match arguments.value("--descriptors", 0_u64) {
        0 => vec![1024, 65_536],
        one => vec![one],
    };
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    for descriptors in all {
        if descriptors > hard {
            println!("{descriptors} open files: this system allows {hard}");
        }
        attacked(descriptors.min(hard), length)?;
    }
    Ok(())
}

/// Three nodes, each with this limit of open files.
fn cluster(descriptors: u64) -> Cluster {
    let mut cluster = Cluster::planned(3);
    let limit = format!("ulimit -n {descriptors} && exec \"$@\"");
    for node in 0..3 {
        let launcher = ["sh", "-c", &limit, "sh"];
        cluster.node_mut(node).set_launcher(&launcher);
    }
    let cluster = cluster.ready().with_order();
    cluster.create_sequence(0, "range", &json!({}));
    cluster
}

fn attacked(descriptors: u64, length: Duration) -> Result<(), Violation> {
    let cluster = cluster(descriptors);
    let (node, term) = (cluster.leader(), cluster.term());
    let speed = Target::get(vec![cluster.address(node)], "/v1/id");
    let full = speed.closed(CLIENTS, SLICE).rate();
    let others = cluster.leader_first()[1..].to_vec();
    let targets = [Target::order(others.clone()), Target::get(others, "/v1/id")];
    let loads = targets.map(|target| move || target.open(CONNECTIONS, RATE, length));

    println!(
        "{descriptors} open files, {length:.0?} of attacks on n{}",
        node + 1
    );
    let attackers = attackers(&cluster, node, length, descriptors);
    let loads = loads.map(std::thread::spawn);
    let watch = || health(&cluster.address(node), length);
    let ((checks, unanswered), mut peaks) = node_peaks::during(&cluster, watch);
    let loads = loads.map(|load| load.join().expect("figures"));
    let failure = attackers.ended();
    let mut rate = 0.0;
    let recovered = wait::within(RECOVERY, || {
        rate = speed.closed(CLIENTS, SLICE).rate();
        (rate >= full * FULL_SPEED).then_some(())
    });

    let mut report = Report::default();
    report.none("an attack that bites", failure.as_slice());
    peaks.swap(0, node);
    node_peaks::judge(&peaks[..1], MOST_MEMORY, &mut report);
    println!("  /livez: {checks}, {unanswered} unanswered");
    report.at_most("health is answered", checks.most(), MOST_HEALTH);
    report.at_most("health is answered", unanswered, 0);
    for (what, load) in ["strict values", "IDs"].iter().zip(loads) {
        let line = format!("other nodes: {what}: {load}");
        println!("  {line}");
        report.require(
            load.failures == 0,
            "other nodes' clients are unharmed",
            line,
        );
    }
    let after = cluster.term();
    let is_leader = after == term && cluster.leader() == node;
    report.require(
        is_leader,
        "no election",
        format!("term {term}, then {after}"),
    );
    let line =
        format!("one ID at a time, {CLIENTS} clients: {full:.0}/s before, {rate:.0}/s after");
    println!("  {line}");
    report.require(recovered.is_some(), "full speed afterwards", line);
    report.verdict()?;
    cluster.wait_same_state(&[0, 1, 2]);
    Ok(())
}

/// Checks the node for `length`. Returns the times of the checks, and the number of unanswered
/// ones.
fn health(address: &str, length: Duration) -> (Times, u64) {
    let (begin, mut times, mut unanswered) = (Instant::now(), Vec::new(), 0);
    while begin.elapsed() < length {
        let asked = Instant::now();
        match check(address) {
            Some(()) => times.push(asked.elapsed()),
            None => unanswered += 1,
        }
        std::thread::sleep(EVERY.saturating_sub(asked.elapsed()));
    }
    (Times::of(times), unanswered)
}

/// Sends one check on a connection of its own. Returns `None` if the response is not 200.
fn check(address: &str) -> Option<()> {
    let mut stream = TcpStream::connect_timeout(&address.parse().ok()?, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_nodelay(true).ok()?;
    let request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).ok()?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).ok()?;
    (answer == *b"HTTP/1.1 200").then_some(())
}

fn attackers(cluster: &Cluster, node: usize, length: Duration, places: u64) -> Process {
    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new("chrt");
    command.args(["--idle", "0"]).arg(own).arg("hostile-attack");
    command.args(["--clients", &cluster.address(node)]);
    command.args(["--peers", &cluster.node(node).peer_address()]);
    command.args(["--seconds", &length.as_secs().to_string()]);
    command.args(["--places", &places.to_string()]);
    Process::start(&mut command)
}
