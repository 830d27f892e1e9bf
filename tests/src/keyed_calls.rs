//! Requests with an `Idempotency-Key`. Each is sent until it is answered, its response is
//! discarded, and it is sent again to another node. The run must have as many results as keys, and
//! the same bytes for each key.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use crate::asker::{Answer, Asker, PATIENCE, Unanswered};
use crate::checkers::Violation;
use crate::cluster::integer;
use crate::seed::Random;

/// The requests in turn: a strict sequence, a segment sequence, an ID.
const KINDS: [(&str, &str); 3] = [
    ("POST", "/v1/sequences/order/next"),
    ("POST", "/v1/sequences/ticket/next"),
    ("GET", "/v1/ids"),
];

/// One request in this many is abandoned before its response can arrive.
const LOST_EVERY: u64 = 50;

/// The pause after an inconclusive response.
const PAUSE: Duration = Duration::from_millis(30);

/// The number of attempts after which the run fails. All faults together are shorter.
const MOST_TRIES: usize = 2_000;

/// The number of calls, and the number of concurrent connections.
#[derive(Debug, Clone, Copy)]
pub struct KeyedLoad {
    pub calls: u64,
    pub connections: usize,
    pub seed: u64,
}

#[derive(Debug, Default)]
pub struct KeyedHistory {
    /// The allocated numbers, by kind of request.
    pub given: [Vec<i64>; 3],
    pub requests: u64,
    pub unanswered: u64,
    /// The number of responses by code.
    pub refusals: BTreeMap<String, u64>,
    /// Responses that differ from the first one, or are not marked as replayed.
    pub differing: Vec<String>,
    /// Responses that no caller may receive.
    pub unexpected: Vec<String>,
}

/// Blocks until every call was made and repeated.
pub fn run(load: KeyedLoad, addresses: &[String]) -> KeyedHistory {
    let history = RefCell::new(KeyedHistory::default());
    let next = Cell::new(0);
    let (history, next) = (&history, &next);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime for the calls").block_on(async {
        let callers = (0..load.connections).map(|number| async move {
            let mut caller = Caller {
                asker: Asker::new(addresses),
                random: Random::seeded(load.seed ^ number as u64),
                nodes: addresses.len(),
                history,
            };
            while next.get() < load.calls {
                let call = next.replace(next.get() + 1);
                caller.call(call, &format!("{:x}-{call}", load.seed)).await;
            }
        });
        futures_util::future::join_all(callers).await;
    });
    history.take()
}

struct Caller<'a> {
    asker: Asker,
    random: Random,
    nodes: usize,
    history: &'a RefCell<KeyedHistory>,
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
        let mut history = self.history.borrow_mut();
        if again.body != first.body || !again.is_replayed {
            let differing = format!("{key}: {first:?}, then {again:?}");
            history.differing.push(differing);
        }
        let body = first.json();
        let value = if kind == 2 {
            &body["ids"][0]
        } else {
            &body["first"]
        };
        history.given[kind].push(integer(value));
    }

    /// Sends the request until there is a response, to one node after another from `node` on.
    async fn answered(&mut self, kind: usize, node: usize, key: &str) -> Option<Answer> {
        let (method, path) = KINDS[kind];
        for at in node.. {
            let patience = match self.random.below(LOST_EVERY) {
                0 => Duration::from_micros(self.random.below(10_000)),
                _ => PATIENCE,
            };
            let request = (method, path, key);
            let asked = self.asker.ask(at % self.nodes, request, "", patience).await;
            let asked = match asked {
                Ok(answer) if answer.is_ok() => {
                    self.history.borrow_mut().requests += 1;
                    return Some(answer);
                }
                other => other,
            };
            if !self.may_ask_again(key, asked, at - node) {
                return None;
            }
            sleep(PAUSE).await;
        }
        None
    }

    /// Counts an attempt that was not a success. Returns whether the request may be retried.
    fn may_ask_again(&self, key: &str, asked: Result<Answer, Unanswered>, tries: usize) -> bool {
        let mut history = self.history.borrow_mut();
        history.requests += 1;
        let unexpected = match asked {
            Err(Unanswered::Unsent | Unanswered::Unknown) => {
                history.unanswered += 1;
                None
            }
            Ok(answer) => {
                let code = answer.code();
                let is_passing = matches!(answer.status, 429 | 503 | 504) || code == "in-progress";
                *history.refusals.entry(code).or_default() += 1;
                (!is_passing).then(|| format!("{key}: {answer:?}"))
            }
        };
        let gives_up = || format!("{key}: no answer in {MOST_TRIES} tries");
        let unexpected = unexpected.or_else(|| (tries >= MOST_TRIES).then(gives_up));
        let may = unexpected.is_none();
        history.unexpected.extend(unexpected);
        may
    }
}

/// Checks that there are as many distinct results as calls, and that each repetition returned the
/// same bytes.
pub fn check(mut history: KeyedHistory, calls: u64) -> Result<(), Violation> {
    for (invariant, found) in [
        ("expected answers", &history.unexpected),
        ("the same bytes", &history.differing),
    ] {
        if let Some(one) = found.first() {
            let detail = format!("{} times, as {one}", found.len());
            return Err(Violation::new(invariant, detail));
        }
    }
    let mut all = 0;
    for ((_, path), given) in KINDS.iter().zip(&mut history.given) {
        given.sort_unstable();
        if let Some(pair) = given.windows(2).find(|pair| pair[0] == pair[1]) {
            let detail = format!("{path}: {} was given to two keys", pair[0]);
            return Err(Violation::new("a result of its own", detail));
        }
        all += given.len() as u64;
    }
    if all != calls {
        let detail = format!("{all} of {calls}");
        return Err(Violation::new("every call is answered", detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: [&[i64]; 3]) -> KeyedHistory {
        KeyedHistory {
            given: given.map(<[i64]>::to_vec),
            ..KeyedHistory::default()
        }
    }

    #[track_caller]
    fn found(history: KeyedHistory, invariant: &str) {
        assert_eq!(check(history, 4).unwrap_err().invariant, invariant);
    }

    #[test]
    fn what_is_planted_is_found() {
        assert_eq!(check(of([&[1, 2], &[1], &[9]]), 4), Ok(()));
        found(of([&[1, 2], &[1], &[]]), "every call is answered");
        found(of([&[2, 2], &[1], &[9]]), "a result of its own");
        let mut differing = of([&[1, 2], &[1], &[9]]);
        differing.differing.push("planted".to_owned());
        found(differing, "the same bytes");
        let mut unexpected = of([&[1, 2], &[1], &[9]]);
        unexpected.unexpected.push("planted".to_owned());
        found(unexpected, "expected answers");
    }
}
