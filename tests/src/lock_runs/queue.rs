//! Many that wait for one lock at three nodes: a fifth of them are gone before their turn, the
//! others hold it and release it at once.
//!
//! They come in waves, each of which waits before the next one comes, so that the order of the
//! waves is known; the order within a wave is that of the log.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seqd_state::Nonce;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::replay::Replayed;
use super::{WHOLE_LOG, replayed};
use crate::checkers::Violation;
use crate::checkers::lock_queue::{Served, in_order};
use crate::checkers::locks::{HoldEnd, ends, held_apart, tokens_rise};
use crate::cluster::{Cluster, integer};
use crate::connection::Connection;
use crate::report::quantile;
use crate::seed::Random;

/// Waiters of one wave.
const WAVE: usize = 10;

/// The time of a hold: each is released at once, and one whose client is gone delays the others by
/// it.
const TTL_MS: u64 = 2_000;

/// The time of the first hold, which is not renewed: all waves come while it lasts.
const FIRST_TTL_MS: u64 = 60_000;

/// How long each waits: longer than all waves take to come and to be served, so that no wait ends.
const WAIT_MS: u64 = 600_000;

/// Between two looks at how many wait.
const LOOK: Duration = Duration::from_millis(5);

/// How long one wave may take to wait, and how long the last waiter may take to be served.
const WAITS: Duration = Duration::from_secs(30);
const ALL_SERVED: Duration = Duration::from_secs(300);

/// Of so many that are gone at most one may keep the lock until its time.
const UNNOTICED: usize = 20;

/// The name of the lock.
const LOCK: &str = "queue";

/// What a run measured.
#[derive(Debug, Default)]
pub struct QueueFigures {
    pub waiters: usize,
    /// How many were gone before the first release, and later.
    pub gone: (usize, usize),
    pub served: Served,
    pub answered: usize,
    /// Grants to clients that were gone: given back by their node, and not before their time.
    pub in_vain: (usize, usize),
    /// From a release to the answer of the next, where the next token was answered.
    pub hand_overs: Vec<Duration>,
    /// And where one or more that were gone lay between.
    pub beyond_gone: Vec<Duration>,
    pub took: Duration,
}

/// One that was answered that it holds the lock.
#[derive(Debug, Clone, Copy)]
struct Turn {
    wave: usize,
    token: u64,
    answered: Instant,
    /// When it asked for the release.
    released: Instant,
}

/// What all waiters share.
struct Scene {
    turns: RefCell<Vec<Turn>>,
    failures: RefCell<Vec<String>>,
    gone: Cell<usize>,
    served: watch::Sender<usize>,
}

/// So many wait for one lock.
pub fn judged(waiters: usize, mut random: Random) -> (QueueFigures, Result<(), Violation>) {
    raise_open_files();
    let planned = Cluster::planned(3).with("raft", "snapshot_every", WHOLE_LOG);
    let room = (waiters + 1).clamp(1024, 3072).to_string();
    let mut cluster = planned.with("limits", "lock_waiters", &room).ready();
    let mut figures = QueueFigures {
        waiters,
        ..QueueFigures::default()
    };
    let scene = Scene {
        turns: RefCell::default(),
        failures: RefCell::default(),
        gone: Cell::new(0),
        served: watch::Sender::new(0),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime for the waiters");
    let addresses = cluster.addresses();
    runtime.block_on(drive(
        &scene,
        &addresses,
        (waiters, &mut random),
        &mut figures,
    ));
    let verdict =
        replayed(&mut cluster, &[LOCK.to_owned()]).and_then(|found| figures.check(&scene, &found));
    (figures, verdict)
}

/// How many wait, by this connection's node.
async fn waiting(connection: &mut Connection) -> usize {
    let request = format!("GET /v1/locks/{LOCK} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let status = connection.once(request.as_bytes()).await;
    assert_eq!(status.expect("an answer"), 200);
    let shown: Value = serde_json::from_slice(connection.body()).expect("a lock");
    shown["waiting"].as_u64().expect("a number") as usize
}

async fn drive(
    scene: &Scene,
    addresses: &[String],
    (waiters, random): (usize, &mut Random),
    figures: &mut QueueFigures,
) {
    let mut first = Connection::plain(&addresses[0]).await.expect("a node");
    let held = acquire(&mut first, "first", 0).await;
    let lease = held.expect("a free lock")["lease"].clone();
    // After so many were served it is gone; `None` stays.
    let mut look = Connection::plain(&addresses[0]).await.expect("a node");
    let dies: Vec<Option<usize>> = (0..waiters).map(|place| dies(place, random)).collect();
    let (go, _) = watch::channel(false);
    let mut all = FuturesUnordered::new();
    for (wave, places) in (0..waiters).collect::<Vec<_>>().chunks(WAVE).enumerate() {
        for &place in places {
            let address = addresses[place % addresses.len()].clone();
            all.push(waiter(
                scene,
                address,
                (place, wave),
                dies[place],
                go.subscribe(),
            ));
        }
        let come = (wave * WAVE + places.len()).min(waiters);
        let begun = Instant::now();
        while waiting(&mut look).await < come {
            let failures = scene.failures.borrow().clone();
            assert!(begun.elapsed() < WAITS, "{come} wait: {failures:?}");
            // The waiters go on meanwhile.
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = all.next() => {}
            }
        }
    }
    go.send_replace(true);
    let gone = dies.iter().filter(|dies| **dies == Some(0)).count();
    while scene.gone.get() < gone {
        let _ = all.next().await;
    }
    figures.gone.0 = scene.gone.get();
    let begun = Instant::now();
    release(&mut first, "first", &lease).await;
    let rest = async { while all.next().await.is_some() {} };
    if tokio::time::timeout(ALL_SERVED, rest).await.is_err() {
        let mut failures = scene.failures.borrow_mut();
        failures.push(format!("not all were served within {ALL_SERVED:?}"));
    }
    figures.took = begun.elapsed();
    figures.gone.1 = scene.gone.get() - figures.gone.0;
}

/// After how many turns of others a waiter is gone: `None` stays. Some are gone about when their
/// own turn comes, since a fifth of those before them are gone.
fn dies(place: usize, random: &mut Random) -> Option<usize> {
    let turn = place * 8 / 10;
    match random.below(20) {
        0 | 1 => Some(0),
        2 => Some(random.below(turn as u64 + 1) as usize),
        3 => Some((turn + 10).saturating_sub(random.below(20) as usize)),
        _ => None,
    }
}

/// One that waits: it is served, or gone once so many others were.
async fn waiter(
    scene: &Scene,
    address: String,
    (place, wave): (usize, usize),
    dies: Option<usize>,
    mut go: watch::Receiver<bool>,
) {
    let owner = format!("waiter-{place}");
    let mut served = scene.served.subscribe();
    let gone = async {
        let Some(after) = dies else {
            return std::future::pending().await;
        };
        let _ = go.wait_for(|go| *go).await;
        let _ = served.wait_for(|served| *served >= after).await;
    };
    let mut connection = match Connection::plain(&address).await {
        Ok(connection) => connection,
        Err(error) => {
            let failure = format!("{owner}: {error}");
            scene.failures.borrow_mut().push(failure);
            return;
        }
    };
    let held = tokio::select! {
        held = acquire(&mut connection, &owner, WAIT_MS) => held,
        () = gone => {
            scene.gone.set(scene.gone.get() + 1);
            return;
        }
    };
    let answered = Instant::now();
    match held {
        Ok(held) => {
            let token = integer(&held["token"]);
            scene.turns.borrow_mut().push(Turn {
                wave,
                token: token as u64,
                answered,
                released: Instant::now(),
            });
            release(&mut connection, &owner, &held["lease"]).await;
            scene.served.send_modify(|served| *served += 1);
        }
        Err(failure) => scene
            .failures
            .borrow_mut()
            .push(format!("{owner}: {failure}")),
    }
}

async fn acquire(connection: &mut Connection, owner: &str, wait_ms: u64) -> Result<Value, String> {
    let ttl_ms = if wait_ms == 0 { FIRST_TTL_MS } else { TTL_MS };
    let body = json!({"owner": owner, "nonce": owner, "ttl_ms": ttl_ms, "wait_ms": wait_ms});
    let path = format!("/v1/locks/{LOCK}/acquire");
    let answer = connection.post(&path, &body.to_string()).await;
    let (status, body) = answer.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(body).into_owned();
    if status != 200 {
        return Err(format!("{status} {text}"));
    }
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

async fn release(connection: &mut Connection, owner: &str, lease: &Value) {
    let body = json!({"lease": lease});
    let path = format!("/v1/locks/{LOCK}/release");
    let answer = connection.post(&path, &body.to_string()).await;
    assert_eq!(answer.expect("an answer").0, 200, "{owner}");
}

impl QueueFigures {
    fn check(&mut self, scene: &Scene, found: &Replayed) -> Result<(), Violation> {
        held_apart(&found.holds)?;
        tokens_rise(&found.holds)?;
        ends(&found.holds)?;
        self.served = in_order(&found.arrivals[0], &found.holds)?;
        if let Some(failure) = scene.failures.borrow().first() {
            return Err(Violation::new("who waits is served", failure.clone()));
        }
        let mut turns = scene.turns.borrow().clone();
        self.answered = turns.len();
        if self.served.waited != self.waiters
            || self.answered + self.gone.0 + self.gone.1 != self.waiters
        {
            let detail = format!(
                "{:?}, {} answered, {:?} gone",
                self.served, self.answered, self.gone
            );
            return Err(Violation::new("who waits is served", detail));
        }
        turns.sort_by_key(|turn| turn.token);
        if !turns.is_sorted_by_key(|turn| turn.wave) {
            let waves: Vec<_> = turns.iter().map(|turn| turn.wave).collect();
            let detail = format!("the waves were served as {waves:?}");
            return Err(Violation::new("who came first is served first", detail));
        }
        let answered: std::collections::BTreeSet<u64> =
            turns.iter().map(|turn| turn.token).collect();
        let first = Nonce::of("first", "first").0;
        for hold in &found.holds {
            if !answered.contains(&hold.token) && hold.nonce != first {
                self.in_vain.0 += usize::from(hold.end != HoldEnd::RanOut);
                self.in_vain.1 += usize::from(hold.end == HoldEnd::RanOut);
            }
        }
        for pair in turns.windows(2) {
            let took = pair[1].answered.saturating_duration_since(pair[0].released);
            if pair[1].token == pair[0].token + 1 {
                self.hand_overs.push(took);
            } else {
                self.beyond_gone.push(took);
            }
        }
        self.hand_overs.sort_unstable();
        self.beyond_gone.sort_unstable();
        // One that is gone just as its answer is under way is a holder that died.
        if self.in_vain.1 * UNNOTICED > self.gone.0 + self.gone.1 {
            let detail = format!("{:?} were granted to clients that were gone", self.in_vain);
            return Err(Violation::new(
                "a node that serves withdraws who is gone",
                detail,
            ));
        }
        Ok(())
    }
}

impl fmt::Display for QueueFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |times: &[Duration], share| {
            if times.is_empty() {
                Duration::ZERO
            } else {
                quantile(times, share)
            }
        };
        write!(
            f,
            "{} waiters in waves of {WAVE} at three nodes: {} gone before the first release, {} later; {} \
             granted, {} answered; {} grants in vain, given back by their nodes, and {} that ran out\n\
             a hand-over p50 {:.2?} p99 {:.2?} at most {:.2?}; over {} places of one that was gone p50 \
             {:.2?} at most {:.2?}; all in {:.2?}",
            self.waiters,
            self.gone.0,
            self.gone.1,
            self.served.granted,
            self.answered,
            self.in_vain.0,
            self.in_vain.1,
            of(&self.hand_overs, 0.5),
            of(&self.hand_overs, 0.99),
            of(&self.hand_overs, 1.0),
            self.beyond_gone.len(),
            of(&self.beyond_gone, 0.5),
            of(&self.beyond_gone, 1.0),
            self.took
        )
    }
}

/// Room for a connection of each waiter.
fn raise_open_files() {
    let limits = getrlimit(Resource::Nofile);
    let current = limits.maximum;
    let raised = setrlimit(Resource::Nofile, Rlimit { current, ..limits });
    raised.expect("a soft limit of open files as high as the hard one");
}
