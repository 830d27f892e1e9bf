//! Locks under many faults at once. Three real nodes have separate clocks. Clients renew, sleep
//! past their ends, die and wait, while nodes are killed, stopped and cut off, leaders are moved,
//! and clocks are set by a millisecond to an hour.
//!
//! The verdict covers:
//!
//! - the log of a replica, which is applied again from its first entry: no two holders hold a lock
//!   at the same time, tokens increase, and a hold ends by its release, its withdrawal or its
//!   deadline ([`mod@replay`]);
//! - the responses to the clients: a client that received *held* was granted the lock, no two
//!   clients count themselves as the holder of a lock, and a client that was refused or is gone
//!   holds it for at most its `ttl`;
//! - the writes of the clients: no client that counts itself as the holder writes after a larger
//!   token, so a resource that checks tokens refuses no holder. Holders that slept do write after
//!   one. A checking resource refuses them, and in one that does not check they overwrite newer
//!   writes; otherwise the run could not have detected anything;
//! - cluster time: it is never fast, so no step ends a hold early. A holder that renews loses its
//!   hold only because of a fault that prevented the renewal. Each lock can be acquired soon after
//!   the last fault.
//!
//! From the bottom up: [`records`]; `clients` and `holding`, the clients' actions; `striker`, the
//! faults; [`mod@replay`]; [`figures`], the verdict.

mod clients;
pub mod figures;
mod holding;
pub mod queue;
pub mod records;
pub mod replay;
mod striker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::checkers::Violation;
use crate::clock::ShiftedClock;
use crate::cluster::{Cluster, READY};
use crate::history::Timeline;
use crate::seed::Random;
use crate::{http, wait};
use figures::Figures;
use records::{DELAY_MS, LOCKS, TTL_MS, manner};
use replay::{Replayed, replay};
use striker::Striker;

/// The time after the last fault within which each lock can be acquired, beyond the TTL of a hold
/// and its delay.
pub const HAD_WITHIN: Duration = Duration::from_secs(5);

/// The snapshot interval, so large that nothing is purged from the log of a run.
const WHOLE_LOG: &str = "100000000";

/// One run. A length of zero is the length of a story.
#[derive(Debug, Clone, Copy)]
pub struct LockRun {
    pub length: Duration,
    pub may_have_links: bool,
}

impl LockRun {
    /// Runs the test. `None` if clocks cannot be set here.
    pub fn judged(self, mut random: Random) -> Option<(Figures, Result<(), Violation>)> {
        let (mut cluster, has_links) = crate::strikes::cluster(self.may_have_links);
        cluster = cluster.with("raft", "snapshot_every", WHOLE_LOG);
        let folder = cluster.folder().to_path_buf();
        let mut clocks = Vec::new();
        for node in 0..3 {
            clocks.push(ShiftedClock::for_node(cluster.node_mut(node), &folder)?);
        }
        let cluster = cluster.ready();
        let (timeline, over) = (Timeline::begin(), AtomicBool::new(false));
        let addresses = cluster.addresses();
        let load = Random::seeded(random.next_u64());
        let mut striker = Striker::new(cluster, clocks, (random, timeline), has_links);
        let (book, struck, had) = std::thread::scope(|scope| {
            let clients = scope.spawn(|| clients::run(&addresses, timeline, load, &over));
            let struck = striker.strike_for(self.length);
            let healed = Instant::now();
            over.store(true, Ordering::Relaxed);
            let book = clients.join().expect("the clients");
            let had = struck.is_ok().then(|| all_had(&striker.cluster, healed));
            (book, struck, had)
        });
        let replayed = struck.and_then(|()| replayed(&mut striker.cluster, &clients::names()));
        let figures = Figures::of(book, &striker, had.unwrap_or_default());
        Some(match replayed {
            Ok(replayed) => figures.judged(&replayed),
            Err(violation) => (figures, Err(violation)),
        })
    }
}

/// The time after `since` until a new client acquired each lock.
fn all_had(cluster: &Cluster, since: Instant) -> Vec<Duration> {
    std::thread::scope(|scope| {
        let probes = (0..LOCKS).map(|lock| scope.spawn(move || had(cluster, lock, since)));
        let probes: Vec<_> = probes.collect();
        let had = probes.into_iter().map(|probe| probe.join());
        had.map(|had| had.expect("a probe")).collect()
    })
}

fn had(cluster: &Cluster, lock: usize, since: Instant) -> Duration {
    let manner = manner(lock);
    let owner = format!("probe-{lock}");
    let body = json!({
        "owner": owner, "nonce": owner, "ttl_ms": TTL_MS.0, "wait_ms": 20_000,
        "permits": manner.permits, "lock_delay_ms": manner.delay_ms,
    });
    let mut node = lock;
    let held = wait::until("a lock is had after the last fault", READY, || {
        node += 1;
        let url = cluster.url(node % 3, &format!("/v1/locks/soak%2F{lock}/acquire"));
        let asked = http::post(&url).json(&body).patience(READY).send();
        let reply = asked.ok().filter(|reply| reply.status == 200);
        reply.map(|reply| (reply.json()["lease"].clone(), since.elapsed()))
    });
    let url = cluster.url(node % 3, &format!("/v1/locks/soak%2F{lock}/release"));
    let body = json!({"lease": held.0});
    let _ = http::post(&url).json(&body).send();
    held.1
}

/// The locks in the log of a node, which is stopped for this. The digest that the node reported
/// must follow from the log.
fn replayed(cluster: &mut Cluster, names: &[String]) -> Result<Replayed, Violation> {
    cluster.wait_same_state(&[0, 1, 2]);
    let view = cluster.node(0).cluster_view();
    let view = view.expect("a node that serves");
    let applied = view["applied"].as_u64().expect("an index");
    let status = cluster.node_mut(0).stop();
    assert_eq!(status.code(), Some(0), "{}", cluster.node(0).tail());
    let found = replay(&cluster.node(0).data(), applied, names)?;
    if view["digest"] != found.digest {
        let detail = format!(
            "{} by its log, {} by the node",
            found.digest, view["digest"]
        );
        return Err(Violation::new("a log makes its node's state", detail));
    }
    Ok(found)
}

/// The longest time to acquire a lock after the last fault.
fn had_within(lock: usize) -> Duration {
    let delay = if manner(lock).delay_ms > 0 {
        DELAY_MS
    } else {
        0
    };
    HAD_WITHIN + Duration::from_millis(TTL_MS.1 + delay)
}
