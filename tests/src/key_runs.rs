//! Runs of keys, which a story makes in seconds and the `soak` binary at length: races for keys
//! while nodes are killed, stopped and cut off.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::checkers::Violation;
use crate::checkers::keys::check;
use crate::cluster::Cluster;
use crate::key_load::{self, KeyHistory, KeyLoad};
use crate::keyed_calls::KeyedLoad;
use crate::seed::Random;
use crate::strikes::{self, Counts, Strike, Strikes};
use crate::{keyed_calls, memory};

/// The range of the length of a fault, in ms. It is longer than any claim, so that claims are taken
/// over while the leader is stopped or isolated.
const BEYOND_CLAIMS_MS: (u64, u64) = (3_000, 3_000);

/// Usually the longest time between two faults, in ms.
const BETWEEN_MS: u64 = 1_500;

const TURNS: [(Strike, bool); 4] = [
    (Strike::Killed, true),
    (Strike::Stopped, true),
    (Strike::Killed, false),
    (Strike::Cut, true),
];

/// Eight callers begin each key at the same time while nodes are killed, stopped and cut off. The
/// responses must satisfy the checker.
pub fn keys_under_faults(
    load: KeyLoad,
    random: Random,
    may_have_links: bool,
) -> Result<(), Violation> {
    let (planned, has_links) = strikes::cluster(may_have_links);
    let mut cluster = planned.ready();
    let mut strikes = Strikes::new(random, has_links, BEYOND_CLAIMS_MS);
    let (addresses, begun) = (cluster.addresses(), Instant::now());
    let work = || key_load::run(load, &addresses);
    let history = strikes.during(&mut cluster, (&TURNS, BETWEEN_MS), work)?;
    show(&history, &strikes.counts, begun.elapsed());
    let counts = check(&history.events, key_load::is_short)?;
    println!(
        "{} keys, {} claims, {} of them take-overs, {} of keys that had ended; `first` told again \
         {} times",
        counts.keys, counts.grants, counts.takeovers, counts.anew, counts.repeated
    );
    if let Some(unexpected) = history.unexpected.first() {
        let detail = format!("{} times, as {unexpected}", history.unexpected.len());
        return Err(Violation::new("expected answers", detail));
    }
    if counts.takeovers == 0 || counts.anew == 0 || strikes.counts.is_empty() || history.deaths == 0
    {
        let detail = format!("{counts:?}, {} deaths", history.deaths);
        return Err(Violation::new("a run with take-overs and faults", detail));
    }
    cluster.wait_same_state(&[0, 1, 2]);
    println!("all nodes show the same digest");
    Ok(())
}

fn show(history: &KeyHistory, struck: &Counts, took: Duration) {
    println!(
        "{} begins in {took:.1?}, {} retries, {} requests without an answer, {} claimers died, {} \
         answers recorded",
        history.begins,
        history.retries,
        history.unanswered,
        history.deaths,
        history.events.len()
    );
    println!("refusals: {:?}", history.refusals);
    println!("faults that bit: {struck:?}");
}

/// While nodes are killed and stopped, every request with a key must return its own result, and the
/// same bytes when it is repeated. Each key is kept for the whole run.
pub fn keyed_calls_under_faults(load: KeyedLoad, random: Random) -> Result<(), Violation> {
    let limit = (load.calls + 1).max(1_000_000).to_string();
    let planned = Cluster::planned(3).with("limits", "keys", &limit);
    let mut cluster = planned.ready();
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    cluster.create_sequence(0, "ticket", &json!({}));
    let mut strikes = Strikes::new(random, false, BEYOND_CLAIMS_MS);
    // A long run has a few faults per minute, and a run of seconds has one or two.
    let between_ms = (load.calls / 50).clamp(500, 15_000);
    let (addresses, begun) = (cluster.addresses(), Instant::now());
    let work = || keyed_calls::run(load, &addresses);
    let history = strikes.during(&mut cluster, (&TURNS, between_ms), work)?;
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{} calls, each made twice, in {took:.1} s: {:.0}/s; {} requests, {} without an answer",
        load.calls,
        load.calls as f64 / took,
        history.requests,
        history.unanswered
    );
    println!("refusals: {:?}", history.refusals);
    println!("faults that bit: {:?}", strikes.counts);
    let strict = history.given[0].len() as i64;
    keyed_calls::check(history, load.calls)?;
    let (next, _) = cluster.next(0, "order", 1);
    println!("{strict} strict values, and {} gaps", next - 1 - strict);
    for node in 0..3 {
        let memory = memory::resident(cluster.node(node).pid()) >> 20;
        let keys = cluster.metric(node, "seqd_keys");
        println!("n{}: {keys} keys, {memory} MiB", node + 1);
    }
    if strikes.counts.is_empty() {
        let detail = "the calls were over before the first";
        return Err(Violation::new("a fault that never bit", detail));
    }
    cluster.wait_same_state(&[0, 1, 2]);
    println!("all nodes show the same digest");
    Ok(())
}
