//! The honest tenant: an even mix of operations at a fixed rate, in an open loop.
//!
//! An operation is due at a fixed time, whatever the result of earlier ones, and its latency counts
//! from then. It is retried at the next endpoint after a retryable refusal and after a connection
//! that was refused or closed; everything else is a failure.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use seqd_tests::asker::Asker;
use seqd_tests::checkers::{linearizable, unique};
use seqd_tests::cluster::integer;
use seqd_tests::history::{At, Ids, Op, Outcome, Timeline, Values, runs_of};
use seqd_tests::http::{Failure, Reply};
use seqd_tests::report::{Counts, Report, Times, count};
use seqd_tests::runtime::block_on;
use seqd_tests::workload::judge;
use serde_json::{Value, json};
use tokio::time::{Instant as TokioInstant, sleep, sleep_until};

use super::victims;

/// Operations per second, of all kinds together.
const RATE: u32 = 200;

pub(super) const KINDS: [&str; 4] = ["strict next", "IDs", "lock and release", "keyed next"];

/// Sequences of the honest tenant: one for values, one for keyed requests.
pub(super) const ORDER: &str = "honest.order";
pub(super) const TICKETS: &str = "honest.tickets";

/// Longer than a node's own time limit of 3 s, so that a hang of the node is visible.
const PATIENCE: Duration = Duration::from_secs(4);

/// An operation fails if no endpoint has served it after this time.
const DEADLINE: Duration = Duration::from_secs(10);

/// One operation in this many of each kind comes from a new client without a connection.
const NEW_EVERY: usize = 20;

/// The pause before the second request to an endpoint.
const PAUSE: Duration = Duration::from_millis(50);

/// The result of one attempt at a request.
pub(super) type Tried = Result<Reply, Failure>;

/// The addresses and the token of the honest tenant.
#[derive(Debug, Clone)]
pub(super) struct Endpoints {
    pub(super) addresses: Vec<String>,
    /// Empty without access tokens.
    pub(super) token: String,
}

impl Endpoints {
    pub(super) fn asker(&self) -> Asker {
        Asker::new(&self.addresses).with_token(&self.token)
    }
}

/// The record of the honest tenant.
#[derive(Debug, Default)]
pub(super) struct Book {
    latencies: [Vec<Duration>; 4],
    strict: Vec<Op<Values>>,
    tickets: Vec<Op<Values>>,
    ids: Vec<Op<Ids>>,
    /// The count of each reason for a retry at the next endpoint.
    pub(super) retries: Counts,
    pub(super) failures: Vec<String>,
    pub(super) violations: Vec<String>,
}

impl Book {
    pub(super) fn latency(&mut self, kind: usize) -> Times {
        Times::of(std::mem::take(&mut self.latencies[kind]))
    }

    /// Adds the histories of a later phase on the same timeline, without its latencies.
    pub(super) fn join(&mut self, later: Book) {
        self.strict.extend(later.strict);
        self.tickets.extend(later.tickets);
        self.ids.extend(later.ids);
        self.failures.extend(later.failures);
        self.violations.extend(later.violations);
        for (reason, count) in later.retries {
            *self.retries.entry(reason).or_default() += count;
        }
    }

    /// Checks all histories, and adds the violations that were seen during the run.
    pub(super) fn check(&self, report: &mut Report) {
        report.checked(linearizable::strict(&self.strict));
        report.checked(linearizable::strict(&self.tickets));
        report.checked(unique::numbers(&self.ids));
        report.none("holds and claims of one's own", &self.violations);
    }
}

/// Sends the operations for `length`, and blocks until each has ended. `phase` makes names unique.
pub(super) fn run(
    endpoints: &Endpoints,
    phase: &str,
    timeline: Timeline,
    length: Duration,
) -> Book {
    let tenant = Rc::new(Tenant {
        endpoints: endpoints.clone(),
        phase: phase.to_owned(),
        timeline,
        idle: RefCell::default(),
        book: RefCell::default(),
        under_way: Cell::new(0),
    });
    block_on(async {
        let begin = Instant::now();
        for number in 0..victims::VICTIMS {
            tenant.under_way.set(tenant.under_way.get() + 1);
            tokio::task::spawn_local(victims::keep(Rc::clone(&tenant), number, begin + length));
        }
        for number in 0.. {
            let due = begin + Duration::from_secs(1) * number / RATE;
            if due >= begin + length {
                break;
            }
            sleep_until(TokioInstant::from_std(due)).await;
            tenant.under_way.set(tenant.under_way.get() + 1);
            tokio::task::spawn_local(Rc::clone(&tenant).operate(number as usize, due));
        }
        while tenant.under_way.get() > 0 {
            sleep(PAUSE).await;
        }
    });
    tenant.book.take()
}

pub(super) struct Tenant {
    endpoints: Endpoints,
    phase: String,
    timeline: Timeline,
    /// Clients with kept connections. The most recently used one is used first, so that few are
    /// open.
    idle: RefCell<Vec<Asker>>,
    book: RefCell<Book>,
    pub(super) under_way: Cell<usize>,
}

/// One operation and the client that carries it out.
pub(super) struct Operation<'a> {
    tenant: &'a Tenant,
    asker: Asker,
    number: usize,
    due: Instant,
}

impl Tenant {
    /// An operation with a client of its own.
    pub(super) fn operation(&self, number: usize, due: Instant) -> Operation<'_> {
        Operation {
            tenant: self,
            asker: self.endpoints.asker(),
            number,
            due,
        }
    }

    async fn operate(self: Rc<Self>, number: usize, due: Instant) {
        let is_new = (number / KINDS.len()).is_multiple_of(NEW_EVERY);
        let mut operation = self.operation(number, due);
        if !is_new && let Some(asker) = self.idle.borrow_mut().pop() {
            operation.asker = asker;
        }
        let kind = number % KINDS.len();
        let name = format!("{}.{number}", self.phase);
        let is_done = match kind {
            0 => operation.value(ORDER, "").await,
            1 => operation.id().await,
            2 => operation.lock(&name).await,
            _ => operation.value(TICKETS, &name).await,
        };
        if !is_new {
            self.idle.borrow_mut().push(operation.asker);
        }
        if is_done.is_some() {
            self.book.borrow_mut().latencies[kind].push(due.elapsed());
        }
        self.under_way.set(self.under_way.get() - 1);
    }
}

impl Operation<'_> {
    /// Begins the next of several requests, which is due at this time.
    pub(super) fn now(&mut self) -> &mut Self {
        self.due = Instant::now();
        self
    }

    pub(super) fn phase(&self) -> &str {
        &self.tenant.phase
    }

    fn fails(&self, why: String) {
        self.tenant.book.borrow_mut().failures.push(why);
    }

    pub(super) fn violates(&self, why: String) {
        self.tenant.book.borrow_mut().violations.push(why);
    }

    /// Sends a request to one endpoint after another until one answers it. `record` receives each
    /// attempt with its time of sending.
    pub(super) async fn ask(
        &mut self,
        request: (&str, &str, &str),
        body: &str,
        mut record: impl FnMut(&mut Book, usize, At, &Tried),
    ) -> Option<Reply> {
        let nodes = self.tenant.endpoints.addresses.len();
        let first = self.number / KINDS.len();
        let what = format!("{} {}", request.0, request.1);
        let mut has_unknown = false;
        let mut last = String::new();
        for at in first.. {
            if self.due.elapsed() > DEADLINE {
                self.fails(format!("{what}: not served within {DEADLINE:?}: {last}"));
                return None;
            }
            let (call, sent) = (self.tenant.timeline.at(), Instant::now());
            let tried = self.asker.ask(at % nodes, request, body, PATIENCE).await;
            let is_late = sent.elapsed() >= PATIENCE;
            record(&mut self.tenant.book.borrow_mut(), at % nodes, call, &tried);
            last = match &tried {
                Ok(answer) if answer.is_ok() => return tried.ok(),
                // An earlier attempt may have ended the hold; the hold has ended in either case.
                Ok(answer) if has_unknown && answer.code() == "lease-lost" => return tried.ok(),
                Ok(answer) if answer.retryable() => answer.code(),
                Err(Failure::Refused(_)) if !is_late => "connection refused".to_owned(),
                Err(Failure::Unknown(_)) if !is_late => "connection closed".to_owned(),
                Ok(_) | Err(_) => {
                    self.fails(format!("{what}: {tried:?} after {:.1?}", sent.elapsed()));
                    return None;
                }
            };
            has_unknown |= matches!(tried, Err(Failure::Unknown(_)));
            count(&mut self.tenant.book.borrow_mut().retries, last.as_str());
            if at + 1 >= first + nodes {
                sleep(PAUSE).await;
            }
        }
        None
    }

    /// Requests a strict value, with an `Idempotency-Key` if `key` is not empty.
    async fn value(&mut self, sequence: &str, key: &str) -> Option<()> {
        let path = format!("/v1/sequences/{sequence}/next");
        let timeline = self.tenant.timeline;
        let begin = timeline.at();
        let record = |book: &mut Book, node, call, tried: &Tried| {
            let outcome = judge(tried, |answer| Values {
                runs: runs_of([integer(&answer.json()["first"])]),
            });
            let (history, call) = match (key.is_empty(), &outcome) {
                (true, _) => (&mut book.strict, call),
                // All attempts with one key have one effect, which may be that of the first.
                (false, Outcome::Ok(_)) => (&mut book.tickets, begin),
                (false, _) => return,
            };
            history.push(Op::one(node, (call, timeline.at()), outcome));
        };
        let asked = self.ask(("POST", &path, key), "", record).await;
        asked.map(|_| ())
    }

    async fn id(&mut self) -> Option<()> {
        let timeline = self.tenant.timeline;
        let record = |book: &mut Book, node, call, tried: &Tried| {
            let Some(answer) = tried.as_ref().ok().filter(|answer| answer.is_ok()) else {
                return;
            };
            let body = answer.json();
            let ids = Ids {
                worker: body["worker"].as_u64().expect("a worker"),
                runs: runs_of([integer(&body["ids"][0])]),
            };
            let times = (call, timeline.at());
            book.ids.push(Op::one(node, times, Outcome::Ok(ids)));
        };
        let asked = self.ask(("GET", "/v1/ids", ""), "", record).await;
        asked.map(|_| ())
    }

    async fn lock(&mut self, name: &str) -> Option<()> {
        let path = |what: &str| format!("/v1/locks/honest.{name}/{what}");
        let body = json!({"owner": "honest", "ttl_ms": 30_000, "nonce": name});
        let acquired = self.post(&path("acquire"), &body).await?;
        self.post(
            &path("release"),
            &json!({"lease": acquired.json()["lease"]}),
        )
        .await?;
        Some(())
    }

    pub(super) async fn post(&mut self, path: &str, body: &Value) -> Option<Reply> {
        let body = body.to_string();
        self.ask(("POST", path, ""), &body, |_, _, _, _| {}).await
    }
}
