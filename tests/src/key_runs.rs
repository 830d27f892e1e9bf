//! Runs of keys that a story makes in seconds and the `soak` binary at length: races for keys while
//! nodes are killed, stopped and cut off.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::checkers::Violation;
use crate::checkers::keys::check;
use crate::cluster::Cluster;
use crate::faults::Paused;
use crate::key_load::{self, KeyHistory, KeyLoad};
use crate::keyed_calls::KeyedLoad;
use crate::link_faults::LinkFault;
use crate::seed::Random;
use crate::{keyed_calls, links, memory};

/// Longer than any claim, so that claims of a stopped or lonely leader are taken over.
const BEYOND_CLAIMS: Duration = Duration::from_secs(3);

/// The most time between two faults, mostly.
const BETWEEN_MS: u64 = 1_500;

/// From the last fault's end to ready on every node.
const RECOVERED: Duration = Duration::from_secs(20);

/// How often each fault was brought about.
pub type Struck = BTreeMap<&'static str, u64>;

const KINDS: [&str; 4] = [
    "leader killed",
    "leader stopped past claims",
    "follower killed",
    "leader cut off",
];

/// Faults one after another until `over`; the leader first, each kind in turn.
pub struct Striker {
    pub random: Random,
    pub has_links: bool,
    /// The most time between two faults.
    pub between_ms: u64,
    pub struck: Struck,
}

impl Striker {
    pub fn new(random: Random, has_links: bool) -> Self {
        Self {
            random,
            has_links,
            between_ms: BETWEEN_MS,
            struck: Struck::new(),
        }
    }

    pub fn strike_until(
        &mut self,
        cluster: &mut Cluster,
        over: &AtomicBool,
    ) -> Result<(), Violation> {
        let kinds = if self.has_links { 4 } else { 3 };
        for kind in KINDS[..kinds].iter().cycle() {
            if over.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(
                300 + self.random.below(self.between_ms),
            ));
            self.strike(cluster, kind)?;
            *self.struck.entry(kind).or_default() += 1;
        }
        Ok(())
    }

    fn strike(&mut self, cluster: &mut Cluster, kind: &'static str) -> Result<(), Violation> {
        let leader = cluster.leader();
        let never_bit = |detail: &str| Err(Violation::new("a fault that never bit", detail));
        match kind {
            "leader stopped past claims" => {
                let paused = Paused::new(cluster.node(leader));
                std::thread::sleep(BEYOND_CLAIMS);
                if !paused.stands() {
                    return never_bit(kind);
                }
            }
            "leader cut off" => {
                let alone = LinkFault::named("leader-alone").expect("a fault of the table");
                let in_force = alone.impose(cluster, leader);
                std::thread::sleep(BEYOND_CLAIMS);
                if !in_force.heal().1 {
                    return never_bit(kind);
                }
            }
            _ => {
                let other = 1 + self.random.below(2) as usize;
                let is_leader = kind == "leader killed";
                let victim = if is_leader {
                    leader
                } else {
                    (leader + other) % 3
                };
                cluster.node_mut(victim).kill();
                std::thread::sleep(Duration::from_millis(self.random.below(2_500)));
                cluster.node_mut(victim).start();
                cluster.wait_ready_of(&[victim], RECOVERED);
            }
        }
        Ok(())
    }
}

/// Three nodes, on links where those can be had.
pub fn cluster(may_have_links: bool) -> (Cluster, bool) {
    let has_links = may_have_links
        && links::unavailable()
            .inspect(|why| println!("nobody is cut off, since there are no links: {why}"))
            .is_none();
    let planned = if has_links {
        Cluster::on_links(3, 0)
    } else {
        Cluster::planned(3)
    };
    (planned, has_links)
}

/// Runs `work` while faults strike; both end with it.
pub fn under_faults<T: Send>(
    cluster: &mut Cluster,
    striker: &mut Striker,
    work: impl FnOnce() -> T + Send,
) -> Result<T, Violation> {
    let over = AtomicBool::new(false);
    let (worked, struck) = std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let worked = work();
            over.store(true, Ordering::Relaxed);
            worked
        });
        let struck = striker.strike_until(cluster, &over);
        (work.join().expect("what runs under faults"), struck)
    });
    struck?;
    cluster.wait_ready_of(&[0, 1, 2], RECOVERED);
    Ok(worked)
}

/// Every key is begun by eight callers at once while nodes are killed, stopped and cut off, and each
/// is told what the checker allows.
pub fn keys_under_faults(
    load: KeyLoad,
    random: Random,
    may_have_links: bool,
) -> Result<(), Violation> {
    let (planned, has_links) = cluster(may_have_links);
    let mut cluster = planned.ready();
    let mut striker = Striker::new(random, has_links);
    let (addresses, begun) = (cluster.addresses(), Instant::now());
    let work = || key_load::run(load, &addresses);
    let history = under_faults(&mut cluster, &mut striker, work)?;
    show(&history, &striker.struck, begun.elapsed());
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
    if counts.takeovers == 0 || counts.anew == 0 || striker.struck.is_empty() || history.deaths == 0
    {
        let detail = format!("{counts:?}, {} deaths", history.deaths);
        return Err(Violation::new("a run with take-overs and faults", detail));
    }
    cluster.wait_same_state(&[0, 1, 2]);
    println!("all nodes show the same digest");
    Ok(())
}

fn show(history: &KeyHistory, struck: &Struck, took: Duration) {
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

/// Every request with a key is answered with a result of its own, and again with the same bytes,
/// while nodes are killed and stopped. Each key is kept for as long as the run.
pub fn keyed_calls_under_faults(load: KeyedLoad, random: Random) -> Result<(), Violation> {
    let limit = (load.calls + 1).max(1_000_000).to_string();
    let planned = Cluster::planned(3).with("limits", "keys", &limit);
    let mut cluster = planned.ready();
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    cluster.create_sequence(0, "ticket", &json!({}));
    let mut striker = Striker::new(random, false);
    // A minute of a long run has a few faults; a run of seconds has one or two.
    striker.between_ms = (load.calls / 50).clamp(500, 15_000);
    let (addresses, begun) = (cluster.addresses(), Instant::now());
    let work = || keyed_calls::run(load, &addresses);
    let history = under_faults(&mut cluster, &mut striker, work)?;
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{} calls, each made twice, in {took:.1} s: {:.0}/s; {} requests, {} without an answer",
        load.calls,
        load.calls as f64 / took,
        history.requests,
        history.unanswered
    );
    println!("refusals: {:?}", history.refusals);
    println!("faults that bit: {:?}", striker.struck);
    let strict = history.given[0].len() as i64;
    keyed_calls::check(history, load.calls)?;
    let (next, _) = cluster.next(0, "order", 1);
    println!("{strict} strict values, and {} gaps", next - 1 - strict);
    for node in 0..3 {
        let memory = memory::resident(cluster.node(node).pid()) >> 20;
        let keys = cluster.metric(node, "seqd_keys");
        println!("n{}: {keys} keys, {memory} MiB", node + 1);
    }
    if striker.struck.is_empty() {
        let detail = "the calls were over before the first";
        return Err(Violation::new("a fault that never bit", detail));
    }
    cluster.wait_same_state(&[0, 1, 2]);
    println!("all nodes show the same digest");
    Ok(())
}
