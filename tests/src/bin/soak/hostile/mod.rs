//! A hostile hour, or a part of one. One node of three, the leader, is attacked at both of its
//! ports. A health checker polls it ten times a second, each time on a new connection, and clients
//! of the other two nodes allocate values and IDs.
//!
//! The attackers run in a separate process with idle priority: on other machines they would not
//! take processor time from the node either.

mod attacks;
mod watch;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::load::{Figures, Pace, Target, run as load};
use seqd_tests::wait;
use serde_json::json;

use crate::arguments::Arguments;

pub(crate) use attacks::{attack, until_closed};

/// The largest memory of the attacked node, in bytes.
const MOST_MEMORY: u64 = 250_000_000;

/// The longest latency of `/livez`.
const MOST_HEALTH: Duration = Duration::from_millis(100);

/// The time within which full speed is back, and the share of the rate before that counts as full
/// speed.
const RECOVERY: Duration = Duration::from_secs(5);
const FULL_SPEED: f64 = 0.8;

/// The requests per second of the clients of the other nodes, and the number of their connections.
const RATE: f64 = 100.0;
const CONNECTIONS: usize = 4;

/// The number of clients that measure the full speed, and the length of the measurement.
const CLIENTS: usize = 16;
const SLICE: Duration = Duration::from_millis(500);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow(&["--seconds", "--descriptors"]);
    let length = Duration::from_secs(arguments.value("--seconds", 60));
    let all = match arguments.value("--descriptors", 0_u64) {
        0 => vec![1024, 65_536],
        one => vec![one],
    };
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    for descriptors in &all {
        if *descriptors > hard {
            println!("{descriptors} open files: this system allows {hard}");
        }
        attacked((*descriptors).min(hard), length)?;
    }
    Ok(())
}

/// Three nodes with this limit of open files each.
fn cluster(descriptors: u64) -> Cluster {
    let mut cluster = Cluster::planned(3);
    let limit = format!("ulimit -n {descriptors} && exec \"$@\"");
    for node in 0..3 {
        let launcher = ["sh", "-c", &limit, "sh"];
        cluster.node_mut(node).set_launcher(&launcher);
    }
    let cluster = cluster.ready();
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    cluster.create_sequence(0, "range", &json!({}));
    cluster
}

fn attacked(descriptors: u64, length: Duration) -> Result<(), Violation> {
    let cluster = cluster(descriptors);
    let node = cluster.leader();
    let others: Vec<usize> = (0..3).filter(|other| *other != node).collect();
    let term = term_of(&cluster, others[0]);
    let full = full_speed(&cluster, node);

    let ports = [cluster.address(node), cluster.node(node).peer_address()];
    let places = usize::try_from(descriptors).unwrap_or(usize::MAX);
    let mut attackers = attackers(&ports, length, places);
    let begin = Instant::now();
    let ask = |method: &'static str, path: &str| {
        let addresses = others.iter().map(|other| cluster.address(*other));
        let target = Target {
            addresses: addresses.collect(),
            method,
            path: path.to_owned(),
            cacert: None,
        };
        move || load(&target, CONNECTIONS, Pace::Open(RATE), length)
    };
    let (strict, ids) = (
        std::thread::spawn(ask("POST", "/v1/sequences/order/next")),
        std::thread::spawn(ask("GET", "/v1/id")),
    );
    let watched = watch::watch(&cluster, node, length);
    let figures = [("strict values", strict), ("IDs", ids)]
        .map(|(what, load)| (what, load.join().expect("figures")));
    let attack = attackers.wait().expect("the end of the attackers");
    let recovered = wait::within(RECOVERY, || {
        (full_speed(&cluster, node) >= full * FULL_SPEED).then(|| begin.elapsed() - length)
    });

    println!(
        "{descriptors} open files, {length:.0?} of attacks on n{}",
        node + 1
    );
    println!("  {watched}");
    for (what, figures) in &figures {
        println!("  other nodes: {what}: {}", summary(figures));
    }
    let rate = full_speed(&cluster, node);
    println!("  one ID at a time, {CLIENTS} clients: {full:.0}/s before, {rate:.0}/s after");
    let violation = |what: &'static str, detail: String| Err(Violation::new(what, detail));
    if !attack.success() {
        return violation("an attack that bites", format!("{attack}"));
    }
    if watched.most_memory > MOST_MEMORY {
        return violation("bounded memory", format!("{watched}"));
    }
    if watched.unanswered > 0 || watched.longest > MOST_HEALTH {
        return violation("health is answered", format!("{watched}"));
    }
    if let Some((what, figures)) = figures.iter().find(|(_, one)| one.failures > 0) {
        let detail = format!("{what}: {}", summary(figures));
        return violation("other nodes' clients are unharmed", detail);
    }
    let after = term_of(&cluster, others[0]);
    if after != term || cluster.leader() != node {
        return violation("no election", format!("term {term}, then {after}"));
    }
    if recovered.is_none() {
        let detail = format!("{full:.0} IDs/s before, {rate:.0} after {RECOVERY:?}");
        return violation("full speed afterwards", detail);
    }
    cluster.wait_same_state(&[0, 1, 2]);
    Ok(())
}

fn summary(figures: &Figures) -> String {
    let (answers, failures) = (figures.answers, figures.failures);
    let [median, slow, most] = [0.5, 0.99, 1.0].map(|share| figures.quantile(share));
    format!(
        "{answers} answers, {failures} failures, p50 {median:.1?}, p99 {slow:.1?}, most {most:.1?}"
    )
}

fn term_of(cluster: &Cluster, node: usize) -> u64 {
    let view = cluster.get(node, "/v1/cluster").ok().json();
    view["term"].as_u64().expect("a term")
}

/// IDs per second, one per request.
fn full_speed(cluster: &Cluster, node: usize) -> f64 {
    let target = Target {
        addresses: vec![cluster.address(node)],
        method: "GET",
        path: "/v1/id".to_owned(),
        cacert: None,
    };
    load(&target, CLIENTS, Pace::Closed, SLICE).rate()
}

fn attackers(ports: &[String; 2], length: Duration, places: usize) -> std::process::Child {
    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new("chrt");
    command.args(["--idle", "0"]).arg(own).arg("hostile-attack");
    for (name, value) in [
        ("--clients", ports[0].clone()),
        ("--peers", ports[1].clone()),
        ("--seconds", length.as_secs().to_string()),
        ("--places", places.to_string()),
    ] {
        command.arg(name).arg(value);
    }
    command.stdin(Stdio::null());
    command.spawn().expect("the attackers")
}
