//! Locks under everything at once: three real nodes, each with a clock of its own, clients that
//! renew, sleep past their ends, die and wait, while nodes are killed, stopped and cut off, leaders
//! moved and clocks set by a millisecond to an hour.
//!
//! What is judged:
//!
//! - by the log of a replica, which is applied again from its first entry: nobody holds a lock
//!   beside another, tokens rise, and a hold ends by its release, its withdrawal or its time
//!   ([`mod@replay`]);
//! - by what the clients were answered: who was answered *held* was granted the lock, no two count
//!   themselves as the holder of one, and who was refused or is gone holds it for its `ttl` at
//!   most;
//! - by their writes: no client that counts itself as the holder comes behind a larger token, so
//!   that a resource that checks tokens refuses no holder; holders that slept do, and such a
//!   resource refuses them where one that checks nothing is overwritten, or the run could not have
//!   seen anything;
//! - the cluster's time is never fast, so that no step ends a hold early; a holder that renews
//!   loses its hold only by a fault that kept it from that; each lock can be had soon after the
//!   last fault.
//!
//! From below: [`records`]; `clients` and `holding`, what they do; `striker`, the faults;
//! [`mod@replay`]; [`figures`], the verdict.

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

/// How soon after the last fault each lock can be had, beyond the life of a hold and its delay.
pub const HAD_WITHIN: Duration = Duration::from_secs(5);

/// Nothing is purged from the log of a run.
const WHOLE_LOG: &str = "100000000";

/// One run. A length of zero is that of a story.
#[derive(Debug, Clone, Copy)]
pub struct LockRun {
    pub length: Duration,
    pub may_have_links: bool,
}

impl LockRun {
    /// Runs it; `None` where no clock can be set.
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

/// How long after this moment each lock was had, by somebody new.
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

/// The locks of the log of a node, which is stopped for that; what it showed is what the log makes.
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

/// The longest that a lock may take after the last fault.
fn had_within(lock: usize) -> Duration {
    let delay = if manner(lock).delay_ms > 0 {
        DELAY_MS
    } else {
        0
    };
    HAD_WITHIN + Duration::from_millis(TTL_MS.1 + delay)
}
