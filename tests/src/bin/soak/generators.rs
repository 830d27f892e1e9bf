//! External generators, from ten to ten thousand in this process: their cost for the leader, the
//! time until a thousand that start at the same time all mint, and their reaction to killed
//! leaders.

use std::time::{Duration, Instant};

use seqd_client::Client;
use seqd_tests::checkers::Violation;
use seqd_tests::cluster::{Cluster, integer};
use seqd_tests::generators::{self, Fleet, Minted, Plan, create_layout, unique};
use seqd_tests::{http, wait};
use tokio::runtime::Runtime;

use crate::arguments::Arguments;

/// A layout with 14 worker bits, so that each of ten thousand generators has a worker; 256 IDs per
/// millisecond.
const LAYOUT: (&str, u8, u8) = ("soak", 14, 8);

/// The default window of a cluster. No generator may pause for this long.
const WINDOW: Duration = Duration::from_secs(30);

/// The time limit until all generators of a step have minted.
const ALL_MINT: Duration = Duration::from_secs(120);

/// The number of clients that the generators share. Each has its own connections.
const CLIENTS: usize = 12;

/// Ticks per second of the kernel's processor times, on every Linux on which this runs.
const TICKS: f64 = 100.0;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow(&["--least", "--generators", "--seconds", "--kill-every"]);
    let least: usize = arguments.value("--least", 10);
    let most: usize = arguments.value("--generators", 10_000);
    let measured = Duration::from_secs(arguments.value("--seconds", 30));
    let kill_every = Duration::from_secs(arguments.value("--kill-every", 20));
    let mut cluster = Cluster::started(3);
    let runtime = generators::runtime();
    let addresses = cluster.addresses();
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|at| generators::rotated(&addresses, at))
        .collect();
    runtime.block_on(create_layout(&clients[0], LAYOUT.0, LAYOUT.1, LAYOUT.2));
    let mut all = of_nodes(&cluster);
    println!(
        "generators  all mint  leader CPU  log entries/s  longest idle  leases lost  kills  refused"
    );
    let mut loads = Vec::new();
    for count in [10, 100, 1000, 10_000] {
        if (least..=most).contains(&count) {
            let step = Step {
                count,
                measured,
                kill_every,
            };
            let (load, ids) = step.run(&mut cluster, &runtime, &clients)?;
            loads.push((count, load));
            all.extend(ids);
        }
    }
    plot(&loads);
    if most >= 1000 {
        all.extend(at_one_moment(&runtime, &clients)?);
    }
    all.extend(of_nodes(&cluster));
    println!("{} IDs, duplicates: 0", unique(all)?);
    Ok(())
}

/// Prints the leader's load as bars, with one line per number of generators.
fn plot(loads: &[(usize, f64)]) {
    const WIDTH: f64 = 60.0;
    let most = loads.iter().map(|(_, load)| *load).fold(0.0, f64::max);
    println!("leader's processor, % of a core");
    for (count, load) in loads {
        let bar = "#".repeat((load / most * WIDTH).ceil() as usize);
        println!("{count:10} {:6.1} {bar}", load * 100.0);
    }
}

/// The parameters for one number of generators.
struct Step {
    count: usize,
    measured: Duration,
    kill_every: Duration,
}

impl Step {
    fn run(
        &self,
        cluster: &mut Cluster,
        runtime: &Runtime,
        clients: &[Client],
    ) -> Result<(f64, Vec<u64>), Violation> {
        let count = self.count;
        let plan = Plan {
            layout: LAYOUT.0.to_owned(),
            generators: count,
            batch: 1,
            pause: Duration::from_millis(if count > 100 { 1000 } else { 100 }),
            over: Duration::from_millis(2 * count as u64),
        };
        let began = Instant::now();
        let fleet = Fleet::start(runtime, clients, &plan);
        let all_mint = began.elapsed() + wait_for_all(&fleet, count)?;
        let (cpu, entries) = self.measure(cluster);
        let kills = self.kill_leaders(cluster);
        let minted = fleet.stop(runtime);
        let idle = minted.iter().map(|one| one.longest_idle).max();
        let idle = idle.unwrap_or_default();
        let refused: u64 = minted.iter().flat_map(|one| one.refused.values()).sum();
        let lost: u64 = minted.iter().map(|one| one.leases.saturating_sub(1)).sum();
        println!(
            "{count:10}  {:7.1}s  {:9.1}%  {entries:13.1}  {:11.2}s  {lost:11}  {kills:5}  \
             {refused:7}",
            all_mint.as_secs_f64(),
            cpu * 100.0,
            idle.as_secs_f64(),
        );
        show_refusals(&minted);
        if idle >= WINDOW {
            let detail = format!("one of {count} generators minted nothing for {idle:?}");
            return Err(Violation::new("idle below the window", detail));
        }
        let ids = minted.into_iter().flat_map(|one| one.ids);
        Ok((cpu, ids.collect()))
    }

    /// The share of a core that the leader uses, and the log entries per second.
    fn measure(&self, cluster: &Cluster) -> (f64, f64) {
        let leader = cluster.leader();
        let sample = || {
            let view = cluster
                .node(leader)
                .cluster_view()
                .expect("the leader answers");
            (
                processor(cluster, leader),
                integer(&view["applied"]) as f64,
                Instant::now(),
            )
        };
        let (cpu, applied, began) = sample();
        std::thread::sleep(self.measured);
        let (cpu_after, applied_after, ended) = sample();
        let seconds = (ended - began).as_secs_f64();
        (
            (cpu_after - cpu) / seconds,
            (applied_after - applied) / seconds,
        )
    }

    /// Kills the leader at this interval. Returns the number of kills.
    fn kill_leaders(&self, cluster: &mut Cluster) -> u32 {
        let (began, mut kills) = (Instant::now(), 0);
        while began.elapsed() < self.measured {
            let leader = cluster.leader();
            cluster.node_mut(leader).kill();
            kills += 1;
            std::thread::sleep(self.kill_every / 2);
            cluster.node_mut(leader).start();
            cluster.wait_ready();
            std::thread::sleep(self.kill_every / 2);
        }
        kills
    }
}

/// The processor seconds of a node, user and system.
fn processor(cluster: &Cluster, node: usize) -> f64 {
    let path = format!("/proc/{}/stat", cluster.node(node).pid().as_raw_nonzero());
    let stat = std::fs::read_to_string(path).expect("the node runs");
    // The fields after the name, which is in parentheses. The first one is the state.
    let rest = stat.rsplit_once(") ").expect("a name").1;
    let field = |at: usize| {
        rest.split_whitespace()
            .nth(at)
            .and_then(|text| text.parse::<f64>().ok())
    };
    (field(11).expect("user time") + field(12).expect("system time")) / TICKS
}

fn wait_for_all(fleet: &Fleet, count: usize) -> Result<Duration, Violation> {
    let began = Instant::now();
    let all = wait::within(ALL_MINT, || (fleet.minting() == count as u64).then_some(()));
    all.map(|()| began.elapsed()).ok_or_else(|| {
        let detail = format!("{} of {count} after {ALL_MINT:?}", fleet.minting());
        Violation::new("all mint", detail)
    })
}

/// Starts a thousand generators at the same time on a healthy cluster.
fn at_one_moment(runtime: &Runtime, clients: &[Client]) -> Result<Vec<u64>, Violation> {
    let plan = Plan {
        layout: LAYOUT.0.to_owned(),
        generators: 1000,
        batch: 1,
        pause: Duration::from_secs(1),
        over: Duration::ZERO,
    };
    let fleet = Fleet::start(runtime, clients, &plan);
    wait_for_all(&fleet, plan.generators)?;
    let minted = fleet.stop(runtime);
    let mut first: Vec<Duration> = minted.iter().map(|one| one.first).collect();
    first.sort_unstable();
    println!(
        "1000 that start at one moment: the first mints after {:?}, half after {:?}, all after \
         {:?}",
        first[0], first[500], first[999]
    );
    show_refusals(&minted);
    Ok(minted.into_iter().flat_map(|one| one.ids).collect())
}

/// Prints the most frequent refusals, without the times in them.
fn show_refusals(minted: &[Minted]) {
    let mut words = std::collections::BTreeMap::new();
    for (text, count) in minted.iter().flat_map(|one| &one.refused) {
        let text: String = text.chars().take(100).collect();
        *words.entry(text).or_insert(0) += count;
    }
    let mut words: Vec<(String, u64)> = words.into_iter().collect();
    words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (text, count) in words.iter().take(3) {
        println!("    {count} times: {text}");
    }
}

/// IDs of the same layout from each node.
fn of_nodes(cluster: &Cluster) -> Vec<u64> {
    let mut all = Vec::new();
    for node in 0..3 {
        let path = format!("/v1/ids?count=10000&layout={}", LAYOUT.0);
        let reply = http::get(&cluster.url(node, &path))
            .accept_json()
            .reply()
            .ok()
            .json();
        let ids = reply["ids"].as_array().expect("IDs").iter();
        all.extend(ids.map(|id| id.as_str().expect("text").parse::<u64>().expect("a number")));
    }
    all
}
