//! Generators outside the cluster, from ten to ten thousand in this process. Measures their cost
//! for the leader, the time until a thousand that start at the same moment have minted, and the
//! effect of killed leaders.

use std::time::{Duration, Instant};

use seqd_client::Client;
use seqd_tests::checkers::{Violation, require};
use seqd_tests::cluster::{Cluster, integer};
use seqd_tests::generators::{self, Fleet, Minted, Plan, create_layout, of_nodes, unique};
use seqd_tests::report::{Counts, Times};
use seqd_tests::wait;
use tokio::runtime::Runtime;

use crate::arguments::Arguments;

/// Workers of 14 bits, so that ten thousand generators have one each; 256 IDs a millisecond.
const LAYOUT: (&str, u8, u8) = ("soak", 14, 8);

/// The default window of a cluster: no generator may pause for so long.
const WINDOW: Duration = Duration::from_secs(30);

/// The time limit until each generator of a step has minted.
const ALL_MINT: Duration = Duration::from_secs(120);

/// The clients that the generators share; each has its own connections.
const CLIENTS: usize = 12;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--least --generators --seconds --kill-every");
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
    let mut all = of_nodes(&cluster, LAYOUT.0, 3, 10_000);
    println!(
        "generators  all mint  leader CPU  log entries/s  longest idle  leases lost  kills  refused"
    );
    for count in [10, 100, 1000, 10_000] {
        if (least..=most).contains(&count) {
            let step = Step {
                count,
                measured,
                kill_every,
            };
            all.extend(step.run(&mut cluster, &runtime, &clients)?);
        }
    }
    if most >= 1000 {
        all.extend(at_one_moment(&runtime, &clients)?);
    }
    all.extend(of_nodes(&cluster, LAYOUT.0, 3, 10_000));
    println!("{} IDs, duplicates: 0", unique(all)?);
    Ok(())
}

/// One step of the run, with its number of generators.
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
    ) -> Result<Vec<u64>, Violation> {
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
        let detail = format!("one of {count} generators minted nothing for {idle:?}");
        require(idle < WINDOW, "idle below the window", detail)?;
        let ids = minted.into_iter().flat_map(|one| one.ids);
        Ok(ids.collect())
    }

    /// The share of a core that the leader uses, and the log entries per second.
    fn measure(&self, cluster: &Cluster) -> (f64, f64) {
        let leader = cluster.leader();
        let sample = || {
            let view = cluster.node(leader).cluster_view();
            let applied = integer(&view.expect("the leader answers")["applied"]) as f64;
            let cpu = cluster.metric(leader, "process_cpu_seconds_total");
            (cpu, applied, Instant::now())
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

    /// Kills the leader at each interval. Returns the number of kills.
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

fn wait_for_all(fleet: &Fleet, count: usize) -> Result<Duration, Violation> {
    let began = Instant::now();
    let all = wait::within(ALL_MINT, || (fleet.minting() == count as u64).then_some(()));
    all.map(|()| began.elapsed()).ok_or_else(|| {
        let detail = format!("{} of {count} after {ALL_MINT:?}", fleet.minting());
        Violation::new("all mint", detail)
    })
}

/// Starts a thousand generators at the same moment, on a healthy cluster.
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
    let first = Times::of(minted.iter().map(|one| one.first));
    println!("1000 that start at one moment mint for the first time after {first}");
    show_refusals(&minted);
    Ok(minted.into_iter().flat_map(|one| one.ids).collect())
}

/// Prints the count of each refusal.
fn show_refusals(minted: &[Minted]) {
    let mut words = Counts::new();
    for (text, times) in minted.iter().flat_map(|one| &one.refused) {
        *words.entry(text.chars().take(100).collect()).or_default() += times;
    }
    println!("    refused: {words:?}");
}
