//! Locks under all faults together: three real nodes, each with a clock of its own. Clients renew,
//! sleep past their ends, die and wait, while nodes are killed, stopped and cut off, leaders moved,
//! and clocks set by a millisecond to an hour.
//!
//! The checks are:
//!
//! - The log of a replica is applied again from its first entry ([`mod@replay`]): holds of a lock
//!   never overlap, tokens increase, and a hold ends by its release, its withdrawal or its time.
//! - The responses to the clients: a client that received *held* was granted the lock, no two
//!   clients count themselves as the holder of one lock, and a client that was refused or has died
//!   holds it for its `ttl` at most.
//! - The clients' writes: a client that counts itself as the holder never writes after a larger
//!   token, so a resource that checks tokens refuses no holder. Holders that slept past their ends
//!   do write after a larger token. Such a resource refuses them, and a resource without a check is
//!   overwritten; otherwise the run could not have detected anything.
//! - The cluster's time is never fast, so no clock step ends a hold early. A holder that renews
//!   loses its hold only if a fault kept it from renewing. Each lock can be acquired soon after the
//!   last fault.
//!
//! From the lowest layer: [`records`]; `clients` and `holding`, their actions; [`mod@replay`];
//! `judge`.

mod clients;
mod holding;
mod judge;
pub mod queue;
pub mod records;
pub mod replay;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::checkers::{Violation, require};
use crate::clock::Clocks;
use crate::cluster::{Cluster, READY};
use crate::history::Timeline;
use crate::loads::{Load, under_faults};
use crate::report::Report;
use crate::seed::Random;
use crate::strikes::{Plan, Strike, Strikes};
use crate::{http, wait};
use judge::Judge;
use records::{Book, LOCKS, TTL_MS, manner, name};
use replay::{Replayed, replay};

/// The time limit to acquire each lock after the last fault, in addition to the ttl of a hold and
/// its delay.
const HAD_WITHIN: Duration = Duration::from_secs(5);

/// Large enough that nothing is purged from the log of a run.
const WHOLE_LOG: &str = "100000000";

/// A node is away for longer than the longest hold.
const PLAN: Plan = Plan {
    turns: &[
        (Strike::Killed, true),
        (Strike::Killed, false),
        (Strike::Stopped, true),
        (Strike::Stopped, false),
        (Strike::Cut, true),
        (Strike::Cut, false),
        (Strike::Silent, true),
        (Strike::Silent, false),
        (Strike::Moved, true),
        (Strike::Moved, true),
        (Strike::ClockSet, true),
        (Strike::ClockSet, false),
        (Strike::ClockSet, false),
        (Strike::ClocksSet, false),
    ],
    is_shuffled: true,
    pause_ms: (200, 1_500),
    away_ms: (3_300, 4_500),
};

/// The faults of a short story.
const SHORT_PLAN: Plan = Plan {
    turns: &[
        (Strike::Killed, true),
        (Strike::ClockSet, true),
        (Strike::Stopped, true),
        (Strike::Moved, true),
        (Strike::ClocksSet, false),
    ],
    ..PLAN
};

/// Fifty clients on ten locks.
struct LockLoad {
    seed: u64,
}

/// Runs the load under every fault for this time, or as a short story without a length. Returns
/// `None` if clocks cannot be set here.
pub fn locks_under_faults(
    length: Option<Duration>,
    may_have_links: bool,
    mut random: Random,
) -> Option<Result<(), Violation>> {
    let (planned, has_links) = crate::strikes::cluster(may_have_links);
    let mut cluster = planned.with("raft", "snapshot_every", WHOLE_LOG);
    let clocks = Clocks::of(&mut cluster)?;
    let plan = if length.is_some() { PLAN } else { SHORT_PLAN };
    let seed = random.next_u64();
    let strikes = Strikes::new(plan, random, has_links, Some(clocks));
    let length = Some(length.unwrap_or_default());
    Some(under_faults(
        &LockLoad { seed },
        cluster.ready(),
        strikes,
        length,
    ))
}

impl Load for LockLoad {
    type Book = Book;

    fn run(&self, addresses: &[String], timeline: Timeline, over: &AtomicBool) -> Book {
        clients::run(addresses, timeline, Random::seeded(self.seed), over)
    }

    fn judge(&self, book: Book, cluster: &mut Cluster, strikes: &Strikes, report: &mut Report) {
        all_had(cluster, report);
        cluster.wait_same_state(&[0, 1, 2]);
        let names: Vec<String> = (0..LOCKS).map(name).collect();
        let replayed = report.checked(replayed(cluster, &names));
        let struck = &strikes.struck;
        if let Some(replayed) = replayed {
            Judge { book, struck }.judge(&replayed, report);
        }
    }
}

/// Checks that a new owner can acquire each lock at this time.
fn all_had(cluster: &Cluster, report: &mut Report) {
    let since = Instant::now();
    let had: Vec<Duration> = std::thread::scope(|scope| {
        let probe = |lock| scope.spawn(move || had(cluster, lock, since));
        let probes: Vec<_> = (0..LOCKS).map(probe).collect();
        let had = probes
            .into_iter()
            .map(|probe| probe.join().expect("a probe"));
        had.collect()
    });
    let longest = had.iter().max();
    println!("  after the last fault each lock was had within {longest:.2?}");
    for (lock, had) in had.into_iter().enumerate() {
        let most = HAD_WITHIN + Duration::from_millis(TTL_MS.1 + manner(lock).delay_ms);
        report.at_most("a lock can be had after the last fault", had, most);
    }
}

fn had(cluster: &Cluster, lock: usize, since: Instant) -> Duration {
    let manner = manner(lock);
    let owner = format!("probe-{lock}");
    let body = json!({
        "owner": owner, "nonce": owner, "ttl_ms": TTL_MS.0, "wait_ms": 20_000,
        "permits": manner.permits, "lock_delay_ms": manner.delay_ms,
    });
    let mut node = lock;
    let (lease, had) = wait::until("a lock is had after the last fault", READY, || {
        node += 1;
        let url = cluster.url(node % 3, &format!("/v1/locks/soak%2F{lock}/acquire"));
        let asked = http::post(&url).json(&body).patience(READY).send();
        let reply = asked.ok().filter(|reply| reply.status == 200);
        reply.map(|reply| (reply.json()["lease"].clone(), since.elapsed()))
    });
    let url = cluster.url(node % 3, &format!("/v1/locks/soak%2F{lock}/release"));
    let _ = http::post(&url).json(&json!({"lease": lease})).send();
    had
}

/// Stops a node and replays its log. The state of the replay must be the state that the node
/// showed.
fn replayed(cluster: &mut Cluster, names: &[String]) -> Result<Replayed, Violation> {
    let view = cluster.node(0).cluster_view().expect("a node that serves");
    let applied = view["applied"].as_u64().expect("an index");
    let status = cluster.node_mut(0).stop();
    assert_eq!(status.code(), Some(0), "{}", cluster.node(0).tail());
    let found = replay(&cluster.node(0).data(), applied, names)?;
    let digest = &view["digest"];
    let detail = format!("{} by its log, {digest} by the node", found.digest);
    require(
        *digest == found.digest,
        "a log makes its node's state",
        detail,
    )?;
    Ok(found)
}
