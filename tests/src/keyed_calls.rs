//! Requests with an `Idempotency-Key`. Each is sent until there is a response, and then repeated at
//! another node: there must be as many results as keys, and the second response must have the same
//! bytes.

use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::sleep;

use crate::asker::{Asker, PATIENCE, Tally};
use crate::checkers::Violation;
use crate::cluster::{Cluster, integer};
use crate::history::Timeline;
use crate::http::Reply;
use crate::key_load::KEY_PLAN;
use crate::loads::{Load, under_faults};
use crate::memory;
use crate::report::Report;
use crate::runtime::block_on;
use crate::seed::Random;
use crate::strikes::{Plan, Strikes};

/// The requests in turn: a strict sequence, a segment sequence, an ID.
const KINDS: [(&str, &str); 3] = [
    ("POST", "/v1/sequences/order/next"),
    ("POST", "/v1/sequences/ticket/next"),
    ("GET", "/v1/ids"),
];

/// One request in this many is given up before its response can have arrived.
const LOST_EVERY: u64 = 50;

/// The pause after a response without a result.
const PAUSE: Duration = Duration::from_millis(30);

/// The run fails after this many attempts at one request: all faults together are shorter.
const MOST_TRIES: usize = 2_000;

/// The number of calls, and the number of concurrent ones.
#[derive(Debug, Clone, Copy)]
pub struct KeyedLoad {
    pub calls: u64,
    pub connections: usize,
    pub seed: u64,
}

#[derive(Debug, Default)]
pub struct KeyedBook {
    /// The results by kind of request.
    given: [Vec<i64>; 3],
    /// Second responses with other bytes, or without the header of a replay.
    differing: Vec<String>,
    tally: Tally,
}

impl KeyedLoad {
    /// Every request with a key receives a result of its own, and its repetition receives the same
    /// bytes, while nodes are killed and stopped. Each key is stored for the whole run.
    pub fn under_faults(self, random: Random) -> Result<(), Violation> {
        let limit = (self.calls + 1).max(1_000_000).to_string();
        let planned = Cluster::planned(3).with("limits", "keys", &limit);
        let cluster = planned.ready().with_order();
        cluster.create_sequence(0, "ticket", &json!({}));
        // A minute of a long run has a few faults; a run of seconds has one or two.
        let plan = Plan {
            pause_ms: (300, 300 + (self.calls / 50).clamp(500, 15_000)),
            ..KEY_PLAN
        };
        under_faults(
            &self,
            cluster,
            Strikes::new(plan, random, false, None),
            None,
        )
    }
}

impl Load for KeyedLoad {
    type Book = KeyedBook;

    fn run(&self, addresses: &[String], _: Timeline, _: &AtomicBool) -> KeyedBook {
        let (book, next) = (RefCell::new(KeyedBook::default()), Cell::new(0));
        let caller = |number| Caller {
            asker: Asker::new(addresses),
            random: Random::seeded(self.seed ^ number as u64),
            nodes: addresses.len(),
            book: &book,
        };
        let calls = (0..self.connections).map(caller).map(|mut caller| {
            let next = &next;
            async move {
                while next.get() < self.calls {
                    let call = next.replace(next.get() + 1);
                    caller.call(call, &format!("{:x}-{call}", self.seed)).await;
                }
            }
        });
        block_on(join_all(calls));
        book.take()
    }

    fn judge(&self, book: KeyedBook, cluster: &mut Cluster, _: &Strikes, report: &mut Report) {
        book.tally.judge(report);
        let strict = book.given[0].len() as i64;
        check(book, self.calls, report);
        let (next, _) = cluster.next(0, "order", 1);
        println!("  {strict} strict values, and {} gaps", next - 1 - strict);
        for node in 0..3 {
            let memory = memory::resident(cluster.node(node).pid()) >> 20;
            let keys = cluster.metric(node, "seqd_keys");
            println!("  n{}: {keys} keys, {memory} MiB", node + 1);
        }
    }
}

struct Caller<'a> {
    asker: Asker,
    random: Random,
    nodes: usize,
    book: &'a RefCell<KeyedBook>,
}

impl Caller<'_> {
    async fn call(&mut self, call: u64, key: &str) {
        let kind = (call % 3) as usize;
        let node = self.random.below(self.nodes as u64) as usize;
        let Some(first) = self.answered(kind, node, key).await else {
            return;
        };
        let Some(again) = self.answered(kind, node + 1, key).await else {
            return;
        };
        let mut book = self.book.borrow_mut();
        if again.body != first.body || !again.is_replayed() {
            let differing = format!("{key}: {first:?}, then {again:?}");
            book.differing.push(differing);
        }
        let body = first.json();
        let value = match kind {
            2 => &body["ids"][0],
            _ => &body["first"],
        };
        book.given[kind].push(integer(value));
    }

    /// Retries until there is a response, at one node after another, beginning with this one.
    async fn answered(&mut self, kind: usize, node: usize, key: &str) -> Option<Reply> {
        let (method, path) = KINDS[kind];
        for at in node.. {
            let patience = match self.random.below(LOST_EVERY) {
                0 => Duration::from_micros(self.random.below(10_000)),
                _ => PATIENCE,
            };
            let request = (method, path, key);
            let asked = self.asker.ask(at % self.nodes, request, "", patience).await;
            {
                let tally = &mut self.book.borrow_mut().tally;
                let answer = tally.take(key, asked, &["in-progress"]);
                if let Some(answer) = answer.filter(Reply::is_ok) {
                    return Some(answer);
                }
                if at - node >= MOST_TRIES {
                    let gives_up = format!("{key}: no answer in {MOST_TRIES} tries");
                    tally.unexpected.push(gives_up);
                }
                if !tally.unexpected.is_empty() {
                    return None;
                }
            }
            sleep(PAUSE).await;
        }
        None
    }
}

/// Checks that there are as many distinct results as calls, and that each repetition received the
/// same bytes.
fn check(mut book: KeyedBook, calls: u64, report: &mut Report) {
    report.none("the same bytes", &book.differing);
    for ((_, path), given) in KINDS.iter().zip(&mut book.given) {
        given.sort_unstable();
        let twice = given.windows(2).find(|pair| pair[0] == pair[1]);
        report.require(
            twice.is_none(),
            "a result of its own",
            format!("{path}: {twice:?}"),
        );
    }
    let all = book.given.iter().map(Vec::len).sum::<usize>() as u64;
    report.require(
        all == calls,
        "every call is answered",
        format!("{all} of {calls}"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_violation_is_found() {
        let found = |given: [&[i64]; 3], differing: &[&str]| {
            let mut report = Report::default();
            let book = KeyedBook {
                given: given.map(<[i64]>::to_vec),
                differing: differing.iter().map(|one| (*one).to_owned()).collect(),
                ..KeyedBook::default()
            };
            check(book, 4, &mut report);
            report.verdict().map_err(|violation| violation.invariant)
        };
        assert_eq!(found([&[1, 2], &[1], &[9]], &[]), Ok(()));
        assert_eq!(
            found([&[1, 2], &[1], &[]], &[]),
            Err("every call is answered")
        );
        assert_eq!(
            found([&[2, 2], &[1], &[9]], &[]),
            Err("a result of its own")
        );
        assert_eq!(
            found([&[1, 2], &[1], &[9]], &["planted"]),
            Err("the same bytes")
        );
    }
}
