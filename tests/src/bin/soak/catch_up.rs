//! A follower that was down while much was written comes back behind a slow cable, under load: how
//! long until it is level with the leader, and what either side has in memory meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::link_runs::MOST_MEMORY;
use seqd_tests::load::{Pace, Target, each, run as load};
use seqd_tests::{links, memory, wait};
use serde_json::json;

use crate::arguments::Arguments;

/// The longest description of a sequence, bytes; what is written is little else.
const DESCRIPTION: usize = 1024;

/// Sequences that are there, 30 MB of state; what is written beyond is their creation again, which
/// is an entry of the log and changes nothing.
const SEQUENCES: u64 = 30_000;

/// Connections that write, and those of the load.
const WRITERS: usize = 64;
const CLIENTS: usize = 8;

/// A slice of the load; the next one follows at once.
const SLICE: Duration = Duration::from_secs(2);

/// So many entries behind counts as level: a second of the load.
const LEVEL: u64 = 500;

/// A node that is ready is less behind than this: some seconds of the load.
const READY_WITHIN: u64 = 5_000;

/// How long it may take at most.
const PATIENCE: Duration = Duration::from_secs(900);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow(&["--mib", "--mbit", "--rate"]);
    if let Some(why) = links::unavailable() {
        return Err(Violation::new("links", why));
    }
    let mib: u64 = arguments.value("--mib", 200);
    let rate: u64 = arguments.value("--rate", 500);
    let rates = match arguments.value("--mbit", 0) {
        0 => vec![100, 12],
        one => vec![one],
    };
    rates
        .into_iter()
        .try_for_each(|mbit| behind(mib, mbit, rate))
}

/// One follower behind a cable of `mbit`, after `mib` were written without it.
fn behind(mib: u64, mbit: u64, rate: u64) -> Result<(), Violation> {
    let mut cluster = Cluster::on_links(3, 0).ready();
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    let leader = cluster.leader();
    let behind = (leader + 1) % 3;
    cluster.node_mut(behind).kill();
    write(&cluster.address(leader), mib);
    let _slow = cluster.links().slow(&[behind], mbit as f64 * 1e6);
    let target = Target {
        addresses: vec![cluster.address(leader)],
        method: "POST",
        path: "/v1/sequences/order/next".to_owned(),
    };
    let slice = || load(&target, CLIENTS, Pace::Open(rate as f64), SLICE);
    cluster.node_mut(behind).start();
    let begin = Instant::now();
    let (early, deepest) = (AtomicU64::new(0), AtomicU64::new(0));
    let (level, (most, slices)) = {
        let cluster = &cluster;
        let wait_level = || {
            wait::within(PATIENCE, || {
                let lag = lag(cluster, leader, behind)?;
                deepest.fetch_max(lag, Ordering::Relaxed);
                if lag > LEVEL && cluster.node(behind).is_ready() {
                    early.fetch_max(lag, Ordering::Relaxed);
                }
                (lag <= LEVEL).then_some(())
            })
        };
        let watched = || wait::beside(|| most_memory(cluster), wait_level);
        let ((level, most), slices) = wait::beside(slice, watched);
        (level, (most, slices))
    };
    let took = begin.elapsed();
    let answers: u64 = slices.iter().map(|slice| slice.answers).sum();
    let loaded: Duration = slices.iter().map(|slice| slice.elapsed).sum();
    let most = most.into_iter().max().unwrap_or_default();
    println!(
        "{mib} MiB and {} entries behind, {mbit} Mbit/s: level after {took:.1?} under {:.0} values/s; {} MiB in a \
         node at most",
        deepest.into_inner(),
        answers as f64 / loaded.as_secs_f64(),
        most >> 20
    );
    if level.is_none() {
        let detail = format!("not level after {PATIENCE:?} at {mbit} Mbit/s");
        return Err(Violation::new("a follower catches up", detail));
    }
    if most > MOST_MEMORY {
        let detail = format!("{} MiB", most >> 20);
        return Err(Violation::new("bounded memory", detail));
    }
    let early = early.into_inner();
    if early > READY_WITHIN {
        let detail = format!("it was ready {early} entries behind");
        return Err(Violation::new("ready is level", detail));
    }
    cluster.wait_same_state(&[0, 1, 2]);
    Ok(())
}

/// Has so many MiB of descriptions written through the leader.
fn write(leader: &str, mib: u64) {
    let writes = (mib << 20) / DESCRIPTION as u64;
    let next = AtomicU64::new(0);
    let written = each(&[leader.to_owned()], WRITERS, || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let name = number % SEQUENCES;
        let path = format!("/v1/sequences/made{name}");
        let words = format!("{name:.<DESCRIPTION$}");
        let body = json!({"mode": "strict", "description": words});
        (number < writes).then(|| ("PUT", path, body.to_string()))
    });
    assert_eq!(written, writes, "of all writes");
}

/// How many entries it is behind, if both answer.
fn lag(cluster: &Cluster, leader: usize, behind: usize) -> Option<u64> {
    let applied = |node: usize| cluster.node(node).cluster_view()?["applied"].as_u64();
    let own = applied(behind)?;
    Some(applied(leader)?.saturating_sub(own))
}

fn most_memory(cluster: &Cluster) -> u64 {
    std::thread::sleep(Duration::from_millis(100));
    let nodes = 0..cluster.size();
    let bytes = nodes.map(|node| memory::resident(cluster.node(node).pid()));
    bytes.max().unwrap_or_default()
}
