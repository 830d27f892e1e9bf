//! Many clients wait for one lock at three nodes: a fifth of them die before their turn, the others
//! hold it and release it at once.
//!
//! They arrive in waves. Each wave waits for the lock before the next one arrives, so that the
//! order of the waves is known; the order within a wave is that of the log.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use seqd_state::Nonce;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::replay::Replayed;
use super::{WHOLE_LOG, replayed};
use crate::asker::Asker;
use crate::checkers::Violation;
use crate::checkers::lock_queue::in_order;
use crate::checkers::locks::{Hold, HoldEnd, ends, held_apart, tokens_rise};
use crate::cluster::{Cluster, integer};
use crate::connection::raise_open_files;
use crate::report::{Report, Times};
use crate::runtime::block_on;
use crate::seed::Random;

/// Waiters of one wave.
const WAVE: usize = 10;

/// The duration of a hold. Each is released at once; the hold of a dead client delays the others by
/// this time.
const TTL_MS: u64 = 2_000;

/// The duration of the first hold, which is not renewed: all waves arrive during it.
const FIRST_TTL_MS: u64 = 60_000;

/// The wait of each client: longer than all waves take to arrive and to be served, so that no wait
/// expires.
const WAIT_MS: u64 = 600_000;

/// The interval at which the number of waiters is read.
const LOOK: Duration = Duration::from_millis(5);

/// The time limits for one wave to wait for the lock, and for the last waiter to be served.
const WAITS: Duration = Duration::from_secs(30);
const ALL_SERVED: Duration = Duration::from_secs(300);

/// Of this many dead clients at most one may keep the lock until its end.
const UNNOTICED: usize = 20;

const LOCK: &str = "queue";

/// A client that received the response that it holds the lock.
#[derive(Debug, Clone, Copy)]
struct Turn {
    wave: usize,
    token: u64,
    answered: Instant,
    /// The time at which the client requested the release.
    released: Instant,
}

/// The data that all waiters share.
struct Scene {
    turns: RefCell<Vec<Turn>>,
    failures: RefCell<Vec<String>>,
    gone: Cell<usize>,
    served: watch::Sender<usize>,
}

/// Runs with this number of waiters for one lock.
pub fn judged(waiters: usize, mut random: Random) -> Result<(), Violation> {
    // Room for a connection of each waiter.
    raise_open_files();
    let planned = Cluster::planned(3).with("raft", "snapshot_every", WHOLE_LOG);
    let room = (waiters + 1).clamp(1024, 3072).to_string();
    let mut cluster = planned.with("limits", "lock_waiters", &room).ready();
    let scene = Scene {
        turns: RefCell::default(),
        failures: RefCell::default(),
        gone: Cell::new(0),
        served: watch::Sender::new(0),
    };
    let addresses = cluster.addresses();
    let took = block_on(drive(&scene, &addresses, waiters, &mut random));
    cluster.wait_same_state(&[0, 1, 2]);
    let found = replayed(&mut cluster, &[LOCK.to_owned()])?;
    let mut report = Report::default();
    println!("  {waiters} waiters in waves of {WAVE} at three nodes, all in {took:.2?}");
    scene.judge(waiters, &found, &mut report);
    report.verdict()
}

/// The number of waiters in the response of this client's node.
async fn waiting(look: &mut Asker) -> usize {
    let path = format!("/v1/locks/{LOCK}");
    let asked = look.ask(0, ("GET", &path, ""), "", WAITS).await;
    let shown = asked.expect("an answer").json();
    shown["waiting"].as_u64().expect("a number") as usize
}

/// Runs from the first release to the last response.
async fn drive(
    scene: &Scene,
    addresses: &[String],
    waiters: usize,
    random: &mut Random,
) -> Duration {
    let client = |at: usize| Asker::new(&addresses[at % addresses.len()..][..1]);
    let mut first = client(0);
    let held = acquire(&mut first, "first", 0).await;
    let lease = held.expect("a free lock")["lease"].clone();
    let mut look = client(0);
    // The number of served clients after which each waiter dies; `None` stays.
    let dies: Vec<Option<usize>> = (0..waiters).map(|place| dies(place, random)).collect();
    let (go, _) = watch::channel(false);
    let mut all = FuturesUnordered::new();
    for (wave, places) in (0..waiters).collect::<Vec<_>>().chunks(WAVE).enumerate() {
        for &place in places {
            let dies = dies[place];
            all.push(waiter(
                scene,
                client(place),
                (place, wave),
                dies,
                go.subscribe(),
            ));
        }
        let come = (wave * WAVE + places.len()).min(waiters);
        let begun = Instant::now();
        while waiting(&mut look).await < come {
            let failures = scene.failures.borrow().clone();
            assert!(begun.elapsed() < WAITS, "{come} wait: {failures:?}");
            // The waiters continue meanwhile.
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
    let begun = Instant::now();
    release(&mut first, "first", &lease).await;
    let rest = async { while all.next().await.is_some() {} };
    if tokio::time::timeout(ALL_SERVED, rest).await.is_err() {
        let mut failures = scene.failures.borrow_mut();
        failures.push(format!("not all were served within {ALL_SERVED:?}"));
    }
    begun.elapsed()
}

/// The number of other turns after which a waiter dies: `None` stays. Some die at about their own
/// turn, which comes early since a fifth of the waiters before them have died.
fn dies(place: usize, random: &mut Random) -> Option<usize> {
    let turn = place * 8 / 10;
    match random.below(20) {
        0 | 1 => Some(0),
        2 => Some(random.below(turn as u64 + 1) as usize),
        3 => Some((turn + 10).saturating_sub(random.below(20) as usize)),
        _ => None,
    }
}

/// One waiter: it is served, or dies once this many others were served.
async fn waiter(
    scene: &Scene,
    mut asker: Asker,
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
    let held = tokio::select! {
        held = acquire(&mut asker, &owner, WAIT_MS) => held,
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
            release(&mut asker, &owner, &held["lease"]).await;
            scene.served.send_modify(|served| *served += 1);
        }
        Err(failure) => scene
            .failures
            .borrow_mut()
            .push(format!("{owner}: {failure}")),
    }
}

async fn acquire(asker: &mut Asker, owner: &str, wait_ms: u64) -> Result<Value, String> {
    let ttl_ms = if wait_ms == 0 { FIRST_TTL_MS } else { TTL_MS };
    let body = json!({"owner": owner, "nonce": owner, "ttl_ms": ttl_ms, "wait_ms": wait_ms});
    let (path, body) = (format!("/v1/locks/{LOCK}/acquire"), body.to_string());
    let patience = WAITS + Duration::from_millis(wait_ms);
    match asker.ask(0, ("POST", &path, ""), &body, patience).await {
        Ok(answer) if answer.is_ok() => Ok(answer.json()),
        other => Err(format!("{other:?}")),
    }
}

async fn release(asker: &mut Asker, owner: &str, lease: &Value) {
    let (path, body) = (format!("/v1/locks/{LOCK}/release"), json!({"lease": lease}));
    let asked = asker
        .ask(0, ("POST", &path, ""), &body.to_string(), WAITS)
        .await;
    assert!(asked.is_ok_and(|answer| answer.is_ok()), "{owner}");
}

impl Scene {
    fn judge(&self, waiters: usize, found: &Replayed, report: &mut Report) {
        report.checked(held_apart(&found.holds));
        report.checked(tokens_rise(&found.holds));
        report.checked(ends(&found.holds));
        let served = report.checked(in_order(&found.arrivals[0], &found.holds));
        report.none("who waits is served", &self.failures.borrow());
        let mut turns = self.turns.borrow().clone();
        turns.sort_by_key(|turn| turn.token);
        let (answered, gone) = (turns.len(), self.gone.get());
        let line = format!("{served:?}, {answered} answered, {gone} gone");
        println!("  {line}");
        let all_waited = served.is_none_or(|served| served.waited == waiters);
        let all_served = all_waited && answered + gone == waiters;
        report.require(all_served, "who waits is served", line);
        let waves: Vec<usize> = turns.iter().map(|turn| turn.wave).collect();
        let is_in_order = waves.is_sorted();
        report.require(
            is_in_order,
            "who came first is served first",
            format!("{waves:?}"),
        );

        // Grants to dead clients: released by their node, and not before their time.
        let tokens: BTreeSet<u64> = turns.iter().map(|turn| turn.token).collect();
        let first = Nonce::of("first", "first").0;
        let is_vain = |hold: &&Hold| !tokens.contains(&hold.token) && hold.nonce != first;
        let in_vain = found.holds.iter().filter(is_vain);
        let ran_out = in_vain.clone().filter(|hold| hold.end == HoldEnd::RanOut);
        let (in_vain, ran_out) = (in_vain.count(), ran_out.count());
        println!("  {in_vain} grants in vain, {ran_out} of them ran out");
        // A client that dies while its response is on the way is a holder that died.
        report.at_most(
            "a node that serves withdraws who is gone",
            ran_out * UNNOTICED,
            gone,
        );

        // The time from a release to the next response, with or without dead clients in between.
        let (next, beyond): (Vec<_>, Vec<_>) = turns
            .windows(2)
            .partition(|pair| pair[1].token == pair[0].token + 1);
        let took = |pairs: Vec<&[Turn]>| {
            let took = |pair: &[Turn]| pair[1].answered.saturating_duration_since(pair[0].released);
            Times::of(pairs.into_iter().map(took))
        };
        println!("  hand-overs {}", took(next));
        println!("  over places of clients that were gone {}", took(beyond));
    }
}
