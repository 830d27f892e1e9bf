//! The actions of a client that holds a lock: it writes, renews, releases, or sleeps past its end.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::clients::{Client, GIVES_UP, Plan, ends, later};
use super::records::{Book, Fate, Held, manner};
use crate::asker::PATIENCE;
use crate::checkers::locks::Counted;
use crate::history::At;

/// The longest time that a sleeping holder sleeps beyond its end, and the interval in which it
/// checks whether another holder has written.
const OVERTAKEN: Duration = Duration::from_secs(4);
const LOOK: Duration = Duration::from_millis(20);

/// The index of a hold in the book, and the data for its renewal.
#[derive(Clone, Copy)]
pub(super) struct Holding {
    pub(super) at: usize,
    lock: usize,
    token: u64,
    lease: u128,
    shared: bool,
    ttl: Duration,
    /// The index of the period in which the client counts itself as the holder.
    counted: Option<usize>,
}

enum Renewed {
    Yes,
    Lost,
    Unanswered,
}

impl Client<'_> {
    pub(super) fn held(&self, held: Held, lease: u128, shared: bool) -> Holding {
        let mut book = self.book.borrow_mut();
        book.held.push(held);
        let mut holding = Holding {
            at: book.held.len() - 1,
            lock: held.lock,
            token: held.token,
            lease,
            shared,
            ttl: Duration::from_millis(held.ttl_ms),
            counted: None,
        };
        if !held.waited {
            holding.counts(&mut book, held.back, held.until);
        }
        holding
    }

    fn until(&self, holding: Holding) -> At {
        self.book.borrow().held[holding.at].until
    }

    fn write(&self, holding: Holding) {
        let counts_on_it = self.timeline.at() < self.until(holding);
        let mut book = self.book.borrow_mut();
        book.write(holding.lock, holding.token, counts_on_it);
    }

    /// Renews until a response states whether the client holds the lock.
    async fn renew(&mut self, holding: &mut Holding, late: Duration) -> Renewed {
        let begun = self.timeline.at();
        {
            let held = &mut self.book.borrow_mut().held[holding.at];
            held.late = held.late.max(late);
        }
        let body = json!({
            "lease": holding.lease.to_string(),
            "ttl_ms": holding.ttl.as_millis() as u64,
        });
        while self.timeline.at().since(begun) < GIVES_UP + holding.ttl {
            let call = self.timeline.at();
            let answer = self
                .ask(holding.lock, "renew", &body, holding.ttl / 3)
                .await;
            let Some(answer) = answer else {
                let took = self.timeline.at().since(call);
                {
                    let held = &mut self.book.borrow_mut().held[holding.at];
                    held.unanswered = held.unanswered.max(took);
                }
                sleep(holding.ttl / 50).await;
                continue;
            };
            if !answer.is_ok() {
                return Renewed::Lost;
            }
            let (back, until) = (self.timeline.at(), ends(call, &answer.json()));
            let mut book = self.book.borrow_mut();
            book.renewals += 1;
            let held = &mut book.held[holding.at];
            (held.renewed, held.until) = (call, until);
            held.unanswered = Duration::ZERO;
            holding.counts(&mut book, back, until);
            return Renewed::Yes;
        }
        Renewed::Unanswered
    }

    pub(super) async fn work(&mut self, mut holding: Holding, plan: Plan) -> Fate {
        let length = if plan == Plan::Renewed {
            holding.ttl * 3 / 2 + self.below(2_000)
        } else {
            Duration::from_millis(5) + self.below(60)
        };
        let (begun, waited) = {
            let held = self.book.borrow().held[holding.at];
            (held.back, held.waited)
        };
        // After a wait, the latency of the response is unknown.
        let mut next = if waited { begun } else { At(0) };
        loop {
            let now = self.timeline.at();
            let renewed = self.book.borrow().held[holding.at].renewed;
            if next == At(0) {
                next = later(renewed, holding.ttl / 3);
            }
            if now >= next {
                match self.renew(&mut holding, now.since(next)).await {
                    Renewed::Yes => next = At(0),
                    Renewed::Lost => return Fate::Lost,
                    Renewed::Unanswered => return Fate::Unanswered,
                }
                continue;
            }
            if now.since(begun) >= length {
                return self.release(holding).await;
            }
            self.write(holding);
            let rest = Duration::from_millis(2) + self.below(30);
            sleep(rest.min(next.since(now))).await;
        }
    }

    /// Writes, sleeps past the end of the hold until another holder has written, and writes again
    /// without a check.
    pub(super) async fn pause(&mut self, holding: Holding) -> Fate {
        self.write(holding);
        let beyond = Duration::from_millis(100) + self.below(1_500);
        sleep(holding.ttl + beyond).await;
        let slept = self.timeline.at();
        while !self.book.borrow().has_newer(holding.lock, holding.token)
            && self.timeline.at().since(slept) < OVERTAKEN
        {
            sleep(LOOK).await;
        }
        self.write(holding);
        self.release(holding).await;
        Fate::Paused
    }

    async fn release(&mut self, holding: Holding) -> Fate {
        let body = json!({"lease": holding.lease.to_string()});
        let begun = self.timeline.at();
        if let Some(at) = holding.counted {
            let counted = &mut self.book.borrow_mut().counted[at];
            counted.to = counted.to.min(begun);
        }
        while self.timeline.at().since(begun) < GIVES_UP {
            let call = self.timeline.at();
            let answer = self.ask(holding.lock, "release", &body, PATIENCE).await;
            let Some(answer) = answer else {
                let rest = self.below(80);
                sleep(rest).await;
                continue;
            };
            if answer.is_ok() {
                let back = self.timeline.at();
                self.book.borrow_mut().held[holding.at].released = Some((call, back));
            }
            return Fate::Released;
        }
        Fate::Unanswered
    }
}

impl Holding {
    /// Records that the client counts itself as the holder from `from` to `until`.
    fn counts(&mut self, book: &mut Book, from: At, until: At) {
        if let Some(at) = self.counted
            && book.counted[at].to >= from
        {
            let to = &mut book.counted[at].to;
            *to = until.max(*to);
            return;
        }
        self.counted = Some(book.counted.len());
        book.counted.push(Counted {
            lock: self.lock,
            token: self.token,
            permits: manner(self.lock).permits,
            shared: self.shared,
            from,
            to: until.max(from),
        });
    }
}
