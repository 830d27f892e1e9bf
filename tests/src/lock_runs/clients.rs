//! The clients of a run. Each acquires one lock after another, and releases it, renews it, sleeps
//! past its end and continues to write, or dies.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seqd_state::Nonce;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::holding::Holding;
use super::records::{Book, Fate, Held, LOCKS, Manner, TTL_MS, manner, name};
use crate::asker::{Answer, Asker, PATIENCE};
use crate::checkers::locks::{Answered, Asked};
use crate::cluster::integer;
use crate::history::{At, Timeline};
use crate::seed::Random;

/// The number of clients: five per lock.
pub(super) const CLIENTS: usize = 50;

/// The time beyond its wait after which a client abandons a request without a response.
pub(super) const GIVES_UP: Duration = Duration::from_secs(8);

/// The interval in which this process measures its own delay.
const BEAT: Duration = Duration::from_millis(20);

/// A delay above this counts as a stall of this process.
const HELD_UP: Duration = Duration::from_millis(100);

/// The plan of a client for one lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Some writes, then the release.
    Short,
    /// As long as some renewals take.
    Renewed,
    Paused,
    Dies,
    /// The client dies while it waits.
    DiesWaiting,
}

/// Blocks until `over` is set. Then all clients die at once.
pub(super) fn run(
    addresses: &[String],
    timeline: Timeline,
    mut random: Random,
    over: &AtomicBool,
) -> Book {
    let book = RefCell::new(Book::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime for the clients").block_on(async {
        let clients = (0..CLIENTS).map(|number| {
            let client = Client {
                number,
                life: 0,
                asks: 0,
                node: number % addresses.len(),
                nodes: addresses.len(),
                random: Random::seeded(random.next_u64()),
                asker: Asker::new(addresses),
                addresses,
                book: &book,
                timeline,
            };
            client.run()
        });
        let clients = futures_util::future::join_all(clients.collect::<Vec<_>>());
        tokio::select! {
            _ = clients => {}
            () = beats(&book, timeline, over) => {}
        }
    });
    let mut book = book.into_inner();
    let end = timeline.at();
    for asked in &mut book.asked {
        if asked.answered
            == (Answered::Gone {
                since: At(u64::MAX),
            })
        {
            asked.answered = Answered::Gone { since: end };
        }
    }
    for held in book.held.iter_mut().filter(|held| held.fate == Fate::Open) {
        held.over = end;
    }
    book.acknowledged.sort_unstable();
    book
}

/// Records the stalls of this process, until the run ends.
async fn beats(book: &RefCell<Book>, timeline: Timeline, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let before = timeline.at();
        sleep(BEAT).await;
        let late = timeline.at().since(before).saturating_sub(BEAT);
        if late > HELD_UP {
            book.borrow_mut().stalls.push((before, late));
        }
    }
}

pub(super) struct Client<'a> {
    number: usize,
    /// A client that died comes back with the next number.
    life: u64,
    asks: u64,
    node: usize,
    nodes: usize,
    pub(super) random: Random,
    asker: Asker,
    addresses: &'a [String],
    pub(super) book: &'a RefCell<Book>,
    pub(super) timeline: Timeline,
}

/// One acquisition, including its retries.
struct Claim {
    /// Its index in the book.
    place: usize,
    /// The time of its first request.
    first: At,
    body: Value,
    shared: bool,
    ttl_ms: u64,
    wait_ms: u64,
}

impl Client<'_> {
    async fn run(mut self) {
        loop {
            self.turn().await;
            let rest = self.random.below(60);
            sleep(Duration::from_millis(rest)).await;
        }
    }

    pub(super) fn owner(&self) -> String {
        format!("client-{}.{}", self.number, self.life)
    }

    pub(super) fn below(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.random.below(bound))
    }

    /// The client dies, and another one takes its place.
    fn dies(&mut self) {
        self.asker = Asker::new(self.addresses);
        self.life += 1;
    }

    fn plan(&mut self, manner: Manner) -> Plan {
        let drawn = self.random.below(if manner.is_busy { 400 } else { 100 });
        match drawn {
            0..7 => Plan::Renewed,
            7..13 => Plan::Paused,
            13..16 => Plan::Dies,
            16..18 => Plan::DiesWaiting,
            _ => Plan::Short,
        }
    }

    /// Sends one request to the client's node. After no response, the client uses the next node.
    pub(super) async fn ask(
        &mut self,
        lock: usize,
        what: &str,
        body: &Value,
        patience: Duration,
    ) -> Option<Answer> {
        let path = format!("/v1/locks/soak%2F{lock}/{what}");
        let (request, body) = (("POST", path.as_str(), ""), body.to_string());
        let asked = self.asker.ask(self.node, request, &body, patience);
        let answer = asked.await.ok();
        let back = self.timeline.at();
        let mut book = self.book.borrow_mut();
        let Some(answer) = answer else {
            *book.codes.entry("no answer".to_owned()).or_default() += 1;
            self.node = (self.node + 1) % self.nodes;
            return None;
        };
        let code = answer.code();
        if answer.is_ok() {
            book.acknowledged.push(back);
        } else {
            *book.codes.entry(code.clone()).or_default() += 1;
        }
        if matches!(answer.status, 429 | 503 | 504) {
            self.node = (self.node + 1) % self.nodes;
            return None;
        }
        if !answer.is_ok() && !matches!(code.as_str(), "lock-held" | "lease-lost") {
            book.unexpected.push(format!("{path} {body}: {answer:?}"));
            return None;
        }
        Some(answer)
    }

    async fn turn(&mut self) {
        let lock = self.random.below(LOCKS as u64) as usize;
        let plan = self.plan(manner(lock));
        if self.random.below(4) == 0 {
            self.node = self.random.below(self.nodes as u64) as usize;
        }
        let Some(holding) = self.acquire(lock, plan).await else {
            return;
        };
        let fate = match plan {
            Plan::Paused => self.pause(holding).await,
            Plan::Renewed | Plan::Short => self.work(holding, plan).await,
            Plan::Dies | Plan::DiesWaiting => {
                self.dies();
                Fate::Died
            }
        };
        let mut book = self.book.borrow_mut();
        let held = &mut book.held[holding.at];
        (held.fate, held.over) = (fate, self.timeline.at());
    }

    /// Draws the parameters of an acquisition.
    fn claim(&mut self, lock: usize, plan: Plan) -> Claim {
        let manner = manner(lock);
        let shared = manner.may_share && self.random.below(2) == 0;
        let ttl_ms = TTL_MS.0 + self.random.below(TTL_MS.1 - TTL_MS.0 + 1);
        let waits = plan == Plan::DiesWaiting || self.random.below(5) > 0;
        let wait_ms = if waits {
            500 + self.random.below(5_500)
        } else {
            0
        };
        self.asks += 1;
        let (owner, nonce) = (self.owner(), format!("{}-{}", self.number, self.asks));
        let body = json!({
            "owner": owner, "nonce": nonce, "ttl_ms": ttl_ms, "wait_ms": wait_ms, "shared": shared,
            "permits": manner.permits, "lock_delay_ms": manner.delay_ms,
        });
        let first = self.timeline.at();
        let mut book = self.book.borrow_mut();
        book.asked.push(Asked {
            lock,
            nonce: Nonce::of(&owner, &nonce).0,
            owner,
            call: first,
            answered: Answered::Gone {
                since: At(u64::MAX),
            },
        });
        Claim {
            place: book.asked.len() - 1,
            first,
            body,
            shared,
            ttl_ms,
            wait_ms,
        }
    }

    /// Requests the lock until it is held, refused or abandoned.
    async fn acquire(&mut self, lock: usize, plan: Plan) -> Option<Holding> {
        let Claim {
            place,
            first,
            body,
            shared,
            ttl_ms,
            wait_ms,
        } = self.claim(lock, plan);
        let deadline = GIVES_UP + Duration::from_millis(wait_ms);
        loop {
            let patience = match (plan, self.random.below(20)) {
                (Plan::DiesWaiting, _) => self.below(wait_ms),
                // The response is lost in some cases.
                (_, 0) => self.below(30),
                _ => Duration::from_millis(wait_ms) + PATIENCE,
            };
            let call = self.timeline.at();
            let answer = self.ask(lock, "acquire", &body, patience).await;
            let back = self.timeline.at();
            match answer {
                Some(answer) if answer.is_ok() => {
                    let shown = answer.json();
                    let token = integer(&shown["token"]) as u64;
                    self.note_answer(place, Answered::Held { token, back });
                    let ttl = Duration::from_millis(ttl_ms);
                    let until = if wait_ms == 0 {
                        ends(call, &shown)
                    } else {
                        call
                    };
                    let held = Held {
                        lock,
                        token,
                        ttl_ms,
                        call: first,
                        back,
                        waited: wait_ms > 0,
                        fate: Fate::Open,
                        over: back,
                        renewed: call,
                        until,
                        late: Duration::ZERO,
                        unanswered: Duration::ZERO,
                        released: None,
                    };
                    let lease = shown["lease"].as_str()?.parse().ok()?;
                    return Some(self.held(held, lease, shared, ttl));
                }
                Some(_) => {
                    self.note_answer(place, Answered::Refused { back });
                    return None;
                }
                None if plan == Plan::DiesWaiting || back.since(first) > deadline => {
                    self.note_answer(place, Answered::Gone { since: back });
                    self.dies();
                    return None;
                }
                None => {
                    let rest = self.below(80);
                    sleep(rest).await;
                }
            }
        }
    }

    fn note_answer(&self, place: usize, answered: Answered) {
        self.book.borrow_mut().asked[place].answered = answered;
    }
}

/// The end of a hold, measured from the time at which the request was sent.
pub(super) fn ends(call: At, shown: &Value) -> At {
    let ms = shown["expires_in_ms"].as_u64().unwrap_or_default();
    later(call, Duration::from_millis(ms))
}

pub(super) fn later(at: At, by: Duration) -> At {
    At(at.0.saturating_add(by.as_nanos() as u64))
}

/// The names of all locks.
pub(super) fn names() -> Vec<String> {
    (0..LOCKS).map(name).collect()
}
