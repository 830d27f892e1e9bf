//! Callers that race for keys. Eight callers at the same time begin each key on random nodes. They
//! lose answers, retry with the same nonce, die with a claim, complete too late, or complete.
//!
//! All responses are recorded on one clock.

use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::asker::{Asker, PATIENCE, Tally};
use crate::checkers::Violation;
use crate::checkers::keys::{KeyEvent, KeyResult, KeyTold, check};
use crate::cluster::{Cluster, integer};
use crate::history::Timeline;
use crate::http::Reply;
use crate::loads::{Load, under_faults};
use crate::report::Report;
use crate::runtime::block_on;
use crate::seed::Random;
use crate::strikes::{self, Plan, Strike, Strikes};

/// Callers of each key.
const CALLERS: usize = 8;

/// Only callers below this number die, so that every key is done in the end.
const MORTAL: u8 = 5;

/// The life of a key that outlives the run, and of a key that expires during it.
const LONG_MS: u64 = 3_600_000;
const SHORT_MS: u64 = 3_000;

/// One key in this many is short-lived. The last caller of such a key arrives after it expired.
const SHORT_EVERY: u64 = 20;

/// After this time, most short-lived keys that were done at once have expired.
const BEYOND_SHORT: Duration = Duration::from_millis(3_500);

/// The duration of a claim. A stopped leader is stopped for longer than the longest.
const CLAIM_MS: (u64, u64) = (400, 1_600);

/// After this time a caller gives up a key, and the run fails: all faults together are shorter.
const GIVES_UP: Duration = Duration::from_secs(120);

/// The pause after a response without a result.
const PAUSE: Duration = Duration::from_millis(60);

/// Returns whether a key may expire during the run.
fn is_short(key: u64) -> bool {
    key % SHORT_EVERY == SHORT_EVERY - 1
}

/// Leaders are stopped for longer than any claim, so that their claims are taken over.
pub const KEY_PLAN: Plan = Plan {
    turns: &[
        (Strike::Killed, true),
        (Strike::Stopped, true),
        (Strike::Killed, false),
        (Strike::Cut, true),
    ],
    is_shuffled: false,
    pause_ms: (300, 1_800),
    away_ms: (3_000, 3_000),
};

/// The number of keys, and the number of concurrent ones.
#[derive(Debug, Clone, Copy)]
pub struct KeyLoad {
    pub keys: u64,
    pub lanes: usize,
    pub seed: u64,
}

/// The record of all callers.
#[derive(Debug, Default)]
pub struct KeyBook {
    events: Vec<KeyEvent>,
    /// Begins and completions that were repeated after no response, or after one without a result.
    retries: u64,
    deaths: u64,
    tally: Tally,
}

impl KeyLoad {
    /// Eight callers at the same time begin every key while nodes are killed, stopped and cut off.
    /// The checker judges all responses.
    pub fn under_faults(self, random: Random, may_have_links: bool) -> Result<(), Violation> {
        let (planned, has_links) = strikes::cluster(may_have_links);
        let strikes = Strikes::new(KEY_PLAN, random, has_links, None);
        under_faults(&self, planned.ready(), strikes, None)
    }
}

impl Load for KeyLoad {
    type Book = KeyBook;

    fn run(&self, addresses: &[String], timeline: Timeline, _: &AtomicBool) -> KeyBook {
        let (book, next) = (RefCell::new(KeyBook::default()), Cell::new(0));
        let lane = || async {
            let mut askers: Vec<Asker> = (0..CALLERS).map(|_| Asker::new(addresses)).collect();
            while next.get() < self.keys {
                let key = next.replace(next.get() + 1);
                let callers = (0u8..).zip(&mut askers).map(|(number, asker)| Caller {
                    key,
                    number,
                    nonce: 0,
                    random: Random::seeded(self.seed ^ (key << 8 | u64::from(number))),
                    nodes: addresses.len() as u64,
                    asker,
                    book: &book,
                    timeline,
                });
                join_all(callers.map(Caller::run)).await;
            }
        };
        block_on(join_all((0..self.lanes).map(|_| lane())));
        book.take()
    }

    fn judge(&self, book: KeyBook, _: &mut Cluster, _: &Strikes, report: &mut Report) {
        book.tally.judge(report);
        let (retries, deaths) = (book.retries, book.deaths);
        println!("  {retries} retries, {deaths} claimers died");
        if let Some(counts) = report.checked(check(&book.events, is_short)) {
            println!("  {counts:?}");
            let bites = counts.takeovers > 0 && counts.anew > 0 && deaths > 0;
            report.require(
                bites,
                "a run with take-overs and ends",
                format!("{counts:?}"),
            );
        }
    }
}

struct Caller<'a> {
    key: u64,
    number: u8,
    /// The index of the nonce of the caller's next request.
    nonce: u32,
    random: Random,
    nodes: u64,
    asker: &'a mut Asker,
    book: &'a RefCell<KeyBook>,
    timeline: Timeline,
}

/// The next step of a caller.
enum Next {
    /// Repeats the request with the same nonce.
    Again,
    /// Sends a new request, with another nonce.
    Anew,
    /// Ends: it is done with the key, or has died.
    Ends,
}

impl Caller<'_> {
    async fn run(mut self) {
        if is_short(self.key) && usize::from(self.number) == CALLERS - 1 {
            sleep(BEYOND_SHORT).await;
        }
        let begun = Instant::now();
        while begun.elapsed() < GIVES_UP {
            match self.begin().await {
                Next::Again => self.book.borrow_mut().retries += 1,
                Next::Anew => self.nonce += 1,
                Next::Ends => return,
            }
        }
    }

    /// The timeout of a request: mostly the usual one, sometimes so short that the answer is lost.
    fn patience(&mut self) -> Duration {
        match self.random.below(10) {
            0 => Duration::from_micros(self.random.below(12_000)),
            _ => PATIENCE,
        }
    }

    /// Sends one request about the key to a random node. `read` returns the result to record.
    async fn ask(
        &mut self,
        what: &str,
        body: &Value,
        read: impl Fn(&Reply) -> Option<KeyTold>,
    ) -> Option<KeyTold> {
        let node = self.random.below(self.nodes) as usize;
        let path = format!("/v1/idempotency/pay%2F{}/{what}", self.key);
        let (patience, call) = (self.patience(), self.timeline.at());
        let body = body.to_string();
        let asked = self.asker.ask(node, ("POST", &path, ""), &body, patience);
        let answer = asked.await;
        let back = self.timeline.at();
        let mut book = self.book.borrow_mut();
        let answer = book
            .tally
            .take(&path, answer, &["in-progress", "lease-lost"])?;
        let told = read(&answer);
        if told.is_none() {
            book.tally.unexpected.push(format!("{path}: {answer:?}"));
        }
        let told = told?;
        book.events.push(KeyEvent {
            key: self.key,
            nonce: (self.number, self.nonce),
            call,
            back,
            told: told.clone(),
        });
        Some(told)
    }

    async fn begin(&mut self) -> Next {
        let claim_ms = CLAIM_MS.0 + self.random.below(CLAIM_MS.1 - CLAIM_MS.0);
        let body = json!({
            "ttl_ms": if is_short(self.key) { SHORT_MS } else { LONG_MS },
            "claim_ttl_ms": claim_ms,
            "fingerprint": format!("pay {}", self.key),
            "nonce": format!("{}.{}.{}", self.key, self.number, self.nonce),
        });
        let sealed = RefCell::new(Value::Null);
        let read = |answer: &Reply| {
            *sealed.borrow_mut() = answer.json()["claim"].clone();
            begun(answer)
        };
        let told = self.ask("begin", &body, read).await;
        let sealed = sealed.into_inner();
        match told {
            Some(KeyTold::First { claim, .. }) => self.go_on((claim, &sealed), claim_ms).await,
            Some(KeyTold::Done { .. }) => Next::Ends,
            Some(_) | None => {
                sleep(PAUSE + Duration::from_millis(self.random.below(100))).await;
                Next::Again
            }
        }
    }

    /// Continues as the caller that holds the claim.
    async fn go_on(&mut self, claim: (u64, &Value), claim_ms: u64) -> Next {
        sleep(Duration::from_millis(self.random.below(60))).await;
        match self.random.below(20) {
            0..3 if self.number < MORTAL => {
                self.book.borrow_mut().deaths += 1;
                Next::Ends
            }
            // The answer counts as lost, and the caller repeats the request with the same nonce.
            3 | 4 => Next::Again,
            5 => {
                let body = json!({"claim": claim.1});
                self.ask("abandon", &body, ended).await;
                Next::Anew
            }
            6 => {
                sleep(Duration::from_millis(claim_ms + self.random.below(400))).await;
                self.complete(claim, 0).await
            }
            7 => {
                // The caller sends a second, different result: the first one must stay.
                self.complete(claim, 0).await;
                self.complete(claim, 1).await
            }
            _ => self.complete(claim, 0).await,
        }
    }

    /// Completes the key, and retries until there is a response. Then continues like any other
    /// caller.
    async fn complete(&mut self, (claim, sealed): (u64, &Value), variant: u64) -> Next {
        let result = KeyResult { claim, variant };
        let body = json!({"claim": sealed, "result": format!("{claim}/{variant}")});
        let read = |answer: &Reply| match ended(answer)? {
            KeyTold::Completed(_) => Some(KeyTold::Completed(result)),
            other => Some(other),
        };
        let begun = Instant::now();
        while self.ask("complete", &body, read).await.is_none() && begun.elapsed() < GIVES_UP {
            self.book.borrow_mut().retries += 1;
            sleep(PAUSE).await;
        }
        Next::Anew
    }
}

fn begun(answer: &Reply) -> Option<KeyTold> {
    let body = answer.json();
    let number = |name: &str| body[name].as_u64();
    match (answer.status, body["state"].as_str()?) {
        (200, "first") => Some(KeyTold::First {
            claim: integer(&body["token"]) as u64,
            attempt: number("attempt")?,
        }),
        (200, "done") => Some(KeyTold::Done {
            attempt: number("attempt")?,
            result: result_of(body["result"].as_str()?)?,
            expires_in_ms: number("expires_in_ms")?,
        }),
        (409, "in-progress") => Some(KeyTold::InProgress),
        _ => None,
    }
}

fn result_of(text: &str) -> Option<KeyResult> {
    let (claim, variant) = text.split_once('/')?;
    Some(KeyResult {
        claim: claim.parse().ok()?,
        variant: variant.parse().ok()?,
    })
}

/// The result of a completion or an abandonment: it succeeded, or the claim is lost. An abandonment
/// states nothing about a result.
fn ended(answer: &Reply) -> Option<KeyTold> {
    match (answer.status, answer.code().as_str()) {
        (200, _) if answer.json()["state"] == "done" => {
            let (claim, variant) = (0, 0);
            Some(KeyTold::Completed(KeyResult { claim, variant }))
        }
        (200, _) | (409, "lease-lost") => Some(KeyTold::Lost),
        _ => None,
    }
}
