//! The clients of a run. Each takes one lock after another and releases it, renews it, sleeps past
//! its end and continues to write, or dies.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seqd_state::Nonce;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::holding::Holding;
use super::records::{Book, Fate, Held, LOCKS, Manner, TTL_MS, manner};
use crate::asker::{Asker, PATIENCE};
use crate::checkers::locks::{Answered, Asked};
use crate::cluster::integer;
use crate::history::{At, Timeline};
use crate::http::Reply;
use crate::runtime::block_on;
use crate::seed::Random;

/// The number of clients: five for each lock.
pub(super) const CLIENTS: usize = 50;

/// The time for which a client retries a request without a response, in addition to its wait.
pub(super) const GIVES_UP: Duration = Duration::from_secs(8);

/// The interval at which this process measures its own delays.
const BEAT: Duration = Duration::from_millis(20);

/// A larger delay means that this process was held up.
const HELD_UP: Duration = Duration::from_millis(100);

/// The state of a claim that is neither answered nor given up.
const UNANSWERED: Answered = Answered::Gone {
    since: At(u64::MAX),
};

/// The actions of a client with one lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// The client writes a few times, and releases the lock.
    Short,
    /// The client renews its hold a few times.
    Renewed,
    Paused,
    Dies,
    /// The client dies while it waits.
    DiesWaiting,
}

/// Blocks until `over`; then all clients die at once.
pub(super) fn run(
    addresses: &[String],
    timeline: Timeline,
    mut random: Random,
    over: &AtomicBool,
) -> Book {
    let book = RefCell::new(Book::default());
    block_on(async {
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
    let is_open = |asked: &&mut Asked| asked.answered == UNANSWERED;
    for asked in book.asked.iter_mut().filter(is_open) {
        asked.answered = Answered::Gone { since: end };
    }
    for held in book.held.iter_mut().filter(|held| held.fate == Fate::Open) {
        held.over = end;
    }
    book.acknowledged.sort_unstable();
    book
}

/// Records the times at which this process was held up, until the end of the run.
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
    /// The number of lives of this client: after a death it continues as another client.
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

/// One acquisition, with all its retries.
struct Claim {
    /// The index of the claim in the book.
    place: usize,
    body: Value,
    wait: Duration,
    shared: bool,
    /// The hold that a grant begins. Its `call` is that of the first request.
    held: Held,
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

    /// Sends one request to its node; without a response it switches to the next node.
    pub(super) async fn ask(
        &mut self,
        lock: usize,
        what: &str,
        body: &Value,
        patience: Duration,
    ) -> Option<Reply> {
        let path = format!("/v1/locks/soak%2F{lock}/{what}");
        let (request, body) = (("POST", path.as_str(), ""), body.to_string());
        let asked = self.asker.ask(self.node, request, &body, patience);
        let asked = asked.await;
        let back = self.timeline.at();
        let mut book = self.book.borrow_mut();
        let answer = book.tally.take(&path, asked, &["lock-held", "lease-lost"]);
        match &answer {
            Some(answer) if answer.is_ok() => book.acknowledged.push(back),
            Some(_) => {}
            None => self.node = (self.node + 1) % self.nodes,
        }
        answer
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

    /// Draws the parameters of a claim.
    fn claim(&mut self, lock: usize, plan: Plan) -> Claim {
        let manner = manner(lock);
        let shared = manner.may_share && self.random.below(2) == 0;
        let ttl_ms = self.random.between(TTL_MS).as_millis() as u64;
        let waits = plan == Plan::DiesWaiting || self.random.below(5) > 0;
        let wait_ms = u64::from(waits) * (500 + self.random.below(5_500));
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
            answered: UNANSWERED,
        });
        let held = Held {
            lock,
            token: 0,
            ttl_ms,
            call: first,
            back: first,
            waited: waits,
            fate: Fate::Open,
            over: first,
            renewed: first,
            until: first,
            late: Duration::ZERO,
            unanswered: Duration::ZERO,
            released: None,
        };
        Claim {
            place: book.asked.len() - 1,
            body,
            wait: Duration::from_millis(wait_ms),
            shared,
            held,
        }
    }

    /// Requests the lock until it is held, refused or given up.
    async fn acquire(&mut self, lock: usize, plan: Plan) -> Option<Holding> {
        let claim = self.claim(lock, plan);
        let (wait, first) = (claim.wait, claim.held.call);
        loop {
            let patience = match (plan, self.random.below(20)) {
                (Plan::DiesWaiting, _) => self.below(wait.as_millis() as u64),
                // The answer is sometimes lost.
                (_, 0) => self.below(30),
                _ => wait + PATIENCE,
            };
            let call = self.timeline.at();
            let answer = self.ask(lock, "acquire", &claim.body, patience).await;
            let back = self.timeline.at();
            match answer {
                Some(answer) if answer.is_ok() => {
                    let shown = answer.json();
                    let token = integer(&shown["token"]) as u64;
                    self.note_answer(claim.place, Answered::Held { token, back });
                    // After a wait, the latency of the response is unknown.
                    let until = if wait.is_zero() {
                        ends(call, &shown)
                    } else {
                        call
                    };
                    let held = Held {
                        token,
                        back,
                        over: back,
                        renewed: call,
                        until,
                        ..claim.held
                    };
                    let lease = shown["lease"].as_str()?.parse().ok()?;
                    return Some(self.held(held, lease, claim.shared));
                }
                Some(_) => {
                    self.note_answer(claim.place, Answered::Refused { back });
                    return None;
                }
                None if plan == Plan::DiesWaiting || back.since(first) > GIVES_UP + wait => {
                    self.note_answer(claim.place, Answered::Gone { since: back });
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

/// The end of a hold, counted from when the request was sent.
pub(super) fn ends(call: At, shown: &Value) -> At {
    let ms = shown["expires_in_ms"].as_u64().unwrap_or_default();
    later(call, Duration::from_millis(ms))
}

pub(super) fn later(at: At, by: Duration) -> At {
    At(at.0.saturating_add(by.as_nanos() as u64))
}
