//! Callers that race for keys. Eight callers begin each key at the same time on random nodes. They
//! lose responses, retry with the same nonce, die with a claim, complete too late, or complete in
//! time.
//!
//! All responses are recorded on one clock.

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

/// Callers per key.
pub const CALLERS: usize = 8;

/// Only callers with smaller numbers die, so that every key is completed in the end.
const MORTAL: u8 = 5;

/// The TTLs of a key that outlives the run, and of a key that does not, in ms.
const LONG_MS: u64 = 3_600_000;
const SHORT_MS: u64 = 3_000;

/// One key in this many is short-lived, and its last caller begins after it has expired.
const SHORT_EVERY: u64 = 20;

/// After this time, a short-lived key that was completed at once has usually expired.
const BEYOND_SHORT: Duration = Duration::from_millis(3_500);

/// The shortest and longest claim TTL, in ms. A stopped leader is stopped for longer than the
/// longest.
const CLAIM_MS: (u64, u64) = (400, 1_600);

/// The time after which a caller abandons a key and the run fails. All faults together are shorter.
const GIVES_UP: Duration = Duration::from_secs(120);

/// The pause after an inconclusive response.
const PAUSE: Duration = Duration::from_millis(60);

/// Returns whether a key may expire during the run.
pub fn is_short(key: u64) -> bool {
    key % SHORT_EVERY == SHORT_EVERY - 1
}

/// The number of keys, and the number of concurrent keys.
#[derive(Debug, Clone, Copy)]
pub struct KeyLoad {
    pub keys: u64,
    pub lanes: usize,
    pub seed: u64,
}

/// The actions of the callers and the responses to them.
#[derive(Debug, Default)]
pub struct KeyHistory {
    pub events: Vec<KeyEvent>,
    pub begins: u64,
    /// Begins and completions that were retried after no response or an inconclusive one.
    pub retries: u64,
    /// Requests without a response.
    pub unanswered: u64,
    pub deaths: u64,
    /// The number of responses by code.
    pub refusals: BTreeMap<String, u64>,
    /// Responses that no caller may receive.
    pub unexpected: Vec<String>,
}

/// Blocks until every key is completed.
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
    /// The index of the nonce that the caller uses, among its nonces.
    nonce: u32,
    random: Random,
    nodes: u64,
    asker: &'a mut Asker,
    history: &'a RefCell<KeyHistory>,
    timeline: Timeline,
}

/// The next step of a caller.
enum Next {
    /// Retries with the same nonce.
    Again,
    /// Sends a new request with a new nonce.
    Anew,
    /// The caller has completed its work on the key, or has died.
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

    /// Usually the normal timeout of a caller, and sometimes one so short that the response is
    /// lost.
    fn patience(&mut self) -> Duration {
        match self.random.below(10) {
            0 => Duration::from_micros(self.random.below(12_000)),
            _ => PATIENCE,
        }
    }

    /// Sends one request about the key to a random node. `read` classifies the response for the
    /// record.
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

    /// The caller received a claim.
    async fn go_on(&mut self, claim: (u64, &Value), claim_ms: u64) -> Next {
        sleep(Duration::from_millis(self.random.below(60))).await;
        match self.random.below(20) {
            0..3 if self.number < MORTAL => {
                self.history.borrow_mut().deaths += 1;
                Next::Ends
            }
            // The response was lost after it had arrived: the caller retries with the same nonce.
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
                // The caller changes its result. The first result stays.
                self.complete(claim, 0).await;
                self.complete(claim, 1).await
            }
            _ => self.complete(claim, 0).await,
        }
    }

    /// Completes the key, with retries until the response is conclusive. Afterwards it continues as
    /// any other caller.
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

/// Returns whether a response is inconclusive, so that a retry may get a different one.
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

/// Classifies the response to a completion or an abandonment: success, or a lost claim. The
/// response to an abandonment contains no result.
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
