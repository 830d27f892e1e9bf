//! Callers that race for keys: each key is begun by eight at once on random nodes, who lose answers,
//! ask again with the same nonce, die with a claim, come too late with their result, or complete.
//!
//! Everything that each of them was told is recorded on one clock.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::asker::{Answer, Asker, PATIENCE, Unanswered};
use crate::checkers::keys::{KeyEvent, KeyResult, KeyTold};
use crate::cluster::integer;
use crate::history::Timeline;
use crate::seed::Random;

/// Callers of each key.
pub const CALLERS: usize = 8;

/// Of the callers only these die, so that every key is done in the end.
const MORTAL: u8 = 5;

/// The life of a key that outlives the run, and of one that does not.
const LONG_MS: u64 = 3_600_000;
const SHORT_MS: u64 = 3_000;

/// One key in so many is short-lived, and the last of its callers comes once it is over.
const SHORT_EVERY: u64 = 20;

/// After this a short-lived key that was done at once is over, mostly.
const BEYOND_SHORT: Duration = Duration::from_millis(3_500);

/// A claim's time: a stopped leader is stopped for longer than the longest.
const CLAIM_MS: (u64, u64) = (400, 1_600);

/// When a caller gives a key up, and the run fails: all faults together are shorter.
const GIVES_UP: Duration = Duration::from_secs(120);

/// The pause after an answer that tells nothing.
const PAUSE: Duration = Duration::from_millis(60);

/// Whether a key of a run may end in it.
pub fn is_short(key: u64) -> bool {
    key % SHORT_EVERY == SHORT_EVERY - 1
}

/// How many keys, and how many of them at once.
#[derive(Debug, Clone, Copy)]
pub struct KeyLoad {
    pub keys: u64,
    pub lanes: usize,
    pub seed: u64,
}

/// What callers did and were told.
#[derive(Debug, Default)]
pub struct KeyHistory {
    pub events: Vec<KeyEvent>,
    pub begins: u64,
    /// Begins and completions that were sent again after no answer or one that tells nothing.
    pub retries: u64,
    /// Requests without an answer.
    pub unanswered: u64,
    pub deaths: u64,
    /// How often each code was answered.
    pub refusals: BTreeMap<String, u64>,
    /// Answers that no caller should be given.
    pub unexpected: Vec<String>,
}

/// Blocks until every key is done.
pub fn run(load: KeyLoad, addresses: &[String]) -> KeyHistory {
    let history = RefCell::new(KeyHistory::default());
    let (next, timeline) = (Cell::new(0), Timeline::begin());
    let (history, next) = (&history, &next);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime for the callers").block_on(async {
        let lanes = (0..load.lanes).map(|_| async move {
            let mut askers: Vec<Asker> = (0..CALLERS).map(|_| Asker::new(addresses)).collect();
            while next.get() < load.keys {
                let key = next.replace(next.get() + 1);
                let callers = (0u8..).zip(&mut askers).map(|(number, asker)| Caller {
                    key,
                    number,
                    nonce: 0,
                    random: Random::seeded(load.seed ^ (key << 8 | u64::from(number))),
                    nodes: addresses.len() as u64,
                    asker,
                    history,
                    timeline,
                });
                futures_util::future::join_all(callers.map(Caller::run)).await;
            }
        });
        futures_util::future::join_all(lanes).await;
    });
    history.take()
}

struct Caller<'a> {
    key: u64,
    number: u8,
    /// Of its nonces, the one that it asks with.
    nonce: u32,
    random: Random,
    nodes: u64,
    asker: &'a mut Asker,
    history: &'a RefCell<KeyHistory>,
    timeline: Timeline,
}

/// How a caller goes on.
enum Next {
    /// Asks again, with the same nonce.
    Again,
    /// Asks as a new request.
    Anew,
    /// It is done with the key, or has died.
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
                Next::Again => self.history.borrow_mut().retries += 1,
                Next::Anew => self.nonce += 1,
                Next::Ends => return,
            }
        }
    }

    /// Mostly as long as a caller waits, and sometimes so short that the answer is lost.
    fn patience(&mut self) -> Duration {
        match self.random.below(10) {
            0 => Duration::from_micros(self.random.below(12_000)),
            _ => PATIENCE,
        }
    }

    /// One request about the key to a random node; what is recorded is told apart by `read`.
    async fn ask(
        &mut self,
        what: &str,
        body: &Value,
        read: impl Fn(&Answer) -> Option<KeyTold>,
    ) -> Option<KeyTold> {
        let node = self.random.below(self.nodes) as usize;
        let path = format!("/v1/idempotency/pay%2F{}/{what}", self.key);
        let (patience, call) = (self.patience(), self.timeline.at());
        let body = body.to_string();
        let asked = self.asker.ask(node, ("POST", &path, ""), &body, patience);
        let answer = asked.await;
        let back = self.timeline.at();
        let mut history = self.history.borrow_mut();
        let answer = match answer {
            Ok(answer) => answer,
            Err(Unanswered::Unsent | Unanswered::Unknown) => {
                history.unanswered += 1;
                return None;
            }
        };
        let told = read(&answer);
        if !answer.is_ok() {
            *history.refusals.entry(answer.code()).or_default() += 1;
        }
        if told.is_none() && !is_passing(&answer) {
            history.unexpected.push(format!("{path}: {answer:?}"));
        }
        let told = told?;
        history.events.push(KeyEvent {
            key: self.key,
            nonce: (self.number, self.nonce),
            call,
            back,
            told: told.clone(),
        });
        Some(told)
    }

    async fn begin(&mut self) -> Next {
        self.history.borrow_mut().begins += 1;
        let claim_ms = CLAIM_MS.0 + self.random.below(CLAIM_MS.1 - CLAIM_MS.0);
        let body = json!({
            "ttl_ms": if is_short(self.key) { SHORT_MS } else { LONG_MS },
            "claim_ttl_ms": claim_ms,
            "fingerprint": format!("pay {}", self.key),
            "nonce": format!("{}.{}.{}", self.key, self.number, self.nonce),
        });
        let sealed = RefCell::new(Value::Null);
        let read = |answer: &Answer| {
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

    /// It was told to go on.
    async fn go_on(&mut self, claim: (u64, &Value), claim_ms: u64) -> Next {
        sleep(Duration::from_millis(self.random.below(60))).await;
        match self.random.below(20) {
            0..3 if self.number < MORTAL => {
                self.history.borrow_mut().deaths += 1;
                Next::Ends
            }
            // Its answer was lost after it had come: it asks again with the same nonce.
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
                // A caller that has changed its mind: the first result stays.
                self.complete(claim, 0).await;
                self.complete(claim, 1).await
            }
            _ => self.complete(claim, 0).await,
        }
    }

    /// Completes the key, again until it is told what came of it; then asks as any other caller.
    async fn complete(&mut self, (claim, sealed): (u64, &Value), variant: u64) -> Next {
        let result = KeyResult { claim, variant };
        let body = json!({"claim": sealed, "result": format!("{claim}/{variant}")});
        let read = |answer: &Answer| match ended(answer)? {
            KeyTold::Completed(_) => Some(KeyTold::Completed(result)),
            other => Some(other),
        };
        let begun = Instant::now();
        while self.ask("complete", &body, read).await.is_none() && begun.elapsed() < GIVES_UP {
            self.history.borrow_mut().retries += 1;
            sleep(PAUSE).await;
        }
        Next::Anew
    }
}

/// Whether an answer tells nothing, and the same request may be told more.
fn is_passing(answer: &Answer) -> bool {
    matches!(answer.status, 429 | 503 | 504)
}

fn begun(answer: &Answer) -> Option<KeyTold> {
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

/// Of a completion and an abandonment: that it is so, or that the claim is lost. An abandonment says
/// nothing about a result.
fn ended(answer: &Answer) -> Option<KeyTold> {
    match (answer.status, answer.code().as_str()) {
        (200, _) if answer.json()["state"] == "done" => {
            let (claim, variant) = (0, 0);
            Some(KeyTold::Completed(KeyResult { claim, variant }))
        }
        (200, _) | (409, "lease-lost") => Some(KeyTold::Lost),
        _ => None,
    }
}
