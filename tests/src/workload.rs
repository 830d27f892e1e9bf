//! Clients that send requests continuously and record the outcomes.
//!
//! A request is sent once. After a refusal the client sends a new request, to the next node if it
//! roams. A request with an unknown outcome is recorded as such and never repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::checkers::{linearizable, lost};
use crate::clients::Clients;
use crate::cluster::{Cluster, integer};
use crate::history::{Created, History, Ids, Op, Outcome, Run, Timeline, Values, runs_of};
use crate::http::{self, Failure, Reply, Request};

/// The pause after a refusal, so that a node that is down or without a leader is not flooded.
const AFTER_REFUSAL: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// A client always uses the same node: client number modulo nodes.
    Fixed,
    /// A client uses the same node until it fails, then the next node.
    Roaming,
}

/// The number of clients, their nodes, and the number of values per request.
#[derive(Debug, Clone)]
pub struct Load {
    pub urls: Vec<String>,
    pub clients: usize,
    pub route: Route,
    pub count: u64,
    /// A pause after each response, to leave the processor to the measured part; mostly zero.
    pub pause: Duration,
    /// The access token of the clients.
    pub token: Option<String>,
}

#[derive(Debug)]
pub struct Workload<T> {
    /// Counts of each node.
    acknowledged: Arc<[AtomicUsize]>,
    clients: Clients<Op<T>>,
}

impl Workload<Ids> {
    pub fn ids(load: Load, timeline: Timeline) -> Self {
        let ask =
            |url: &str, count| http::get(&format!("{url}/v1/ids?count={count}")).accept_json();
        start(load, timeline, ask, read_ids)
    }
}

impl Workload<Values> {
    pub fn next(load: Load, timeline: Timeline, sequence: &str) -> Self {
        let path = format!("/v1/sequences/{sequence}/next");
        let ask = move |url: &str, count| http::post(&format!("{url}{path}?count={count}"));
        start(load, timeline, ask, read_values)
    }

    /// Clients that take one value of `order` at a time.
    pub fn order(cluster: &Cluster, clients: usize, route: Route, pause_ms: u64) -> Self {
        let load = cluster.load(clients, route, 1, pause_ms);
        Self::next(load, Timeline::begin(), "order")
    }

    /// Ends a load of a strict `order`, and asserts that no acknowledged value is lost.
    #[track_caller]
    pub fn assert_nothing_lost(self, cluster: &Cluster, asked: usize) {
        let history = self.finish();
        linearizable::strict(&history).expect("values in real-time order");
        let (next, _) = cluster.next(asked, "order", 1);
        lost::strict(&history, 1, next).expect("every acknowledged value");
        let all: Vec<usize> = (0..cluster.size()).collect();
        cluster.wait_same_state(&all);
    }
}

impl Workload<Created> {
    /// Clients that create sequences, each under a name of its own that begins with `prefix`.
    pub fn creates(load: Load, timeline: Timeline, prefix: &str) -> Self {
        let (next, prefix) = (Arc::new(AtomicUsize::new(0)), prefix.to_owned());
        let ask = move |url: &str, _| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let url = format!("{url}/v1/sequences/{prefix}{number}");
            // Descriptions of mixed length, so that records do not all end at the same offsets.
            let words = "what a sequence is for, in words ".repeat(number % 28);
            http::request("PUT", &url).json(&json!({"mode": "strict", "description": words}))
        };
        start(load, timeline, ask, read_created)
    }
}

impl<T: Send + 'static> Workload<T> {
    pub fn acknowledged(&self) -> usize {
        (0..self.acknowledged.len())
            .map(|node| self.acknowledged_by(node))
            .sum()
    }

    pub fn acknowledged_by(&self, node: usize) -> usize {
        self.acknowledged[node].load(Ordering::Relaxed)
    }

    pub fn wait_for(&self, more: usize, deadline: Duration) {
        let goal = self.acknowledged() + more;
        crate::wait::until("further acknowledgements", deadline, || {
            (self.acknowledged() >= goal).then_some(())
        });
    }

    /// Lets every client finish its request. Returns the history.
    pub fn finish(self) -> History<T> {
        self.clients.finish()
    }
}

fn start<T: Send + 'static>(
    load: Load,
    timeline: Timeline,
    ask: impl Fn(&str, u64) -> Request + Clone + Send + 'static,
    read: fn(&Reply) -> T,
) -> Workload<T> {
    let acknowledged: Arc<[AtomicUsize]> = load.urls.iter().map(|_| AtomicUsize::new(0)).collect();
    let clients = (0..load.clients).map(|client| {
        let (load, ask, acknowledged) = (load.clone(), ask.clone(), Arc::clone(&acknowledged));
        let mut node = client % load.urls.len();
        move || {
            let (url, count) = (&load.urls[node], load.count);
            let mut request = ask(url, count);
            if let Some(token) = &load.token {
                request = request.header("authorization", &format!("Bearer {token}"));
            }
            let op = sent(request, read, (node, count), timeline);
            if op.answer().is_some() {
                acknowledged[node].fetch_add(1, Ordering::Relaxed);
                return (op, load.pause);
            }
            if load.route == Route::Roaming {
                node = (node + 1) % load.urls.len();
            }
            (op, AFTER_REFUSAL)
        }
    });
    Workload {
        clients: Clients::start(clients),
        acknowledged,
    }
}

/// Sends a request once, and records it.
pub(crate) fn sent<T>(
    request: Request,
    read: impl Fn(&Reply) -> T,
    (node, count): (usize, u64),
    timeline: Timeline,
) -> Op<T> {
    let call = timeline.at();
    let outcome = judge(&request.send(), read);
    Op {
        count,
        ..Op::one(node, (call, timeline.at()), outcome)
    }
}

/// Requests one value from one node, as a client outside a load.
pub fn next_value(
    cluster: &Cluster,
    node: usize,
    sequence: &str,
    timeline: Timeline,
) -> Op<Values> {
    let url = cluster.url(node, &format!("/v1/sequences/{sequence}/next?count=1"));
    sent(http::post(&url), read_values, (node, 1), timeline)
}

/// The outcome of a response, or of a missing one.
pub fn judge<T>(sent: &Result<Reply, Failure>, read: impl Fn(&Reply) -> T) -> Outcome<T> {
    match sent {
        Ok(reply) if (200..300).contains(&reply.status) => Outcome::Ok(read(reply)),
        Ok(reply) if reply.retryable() => Outcome::Refused(reply.code()),
        Ok(reply) if (400..500).contains(&reply.status) => Outcome::Refused(reply.code()),
        Ok(reply) => {
            let (status, code) = (reply.status, reply.code());
            Outcome::Unknown(format!("{status} {code}: {}", reply.detail()))
        }
        Err(Failure::Refused(_)) => Outcome::Refused("connection refused".into()),
        Err(Failure::Unknown(why)) => Outcome::Unknown(why.clone()),
    }
}

fn read_ids(reply: &Reply) -> Ids {
    let body = reply.json();
    let ids = body["ids"].as_array().expect("ids").iter().map(integer);
    Ids {
        worker: body["worker"].as_u64().expect("a worker"),
        runs: runs_of(ids),
    }
}

pub(crate) fn read_values(reply: &Reply) -> Values {
    let body = reply.json();
    let ranges = body["ranges"].as_array().expect("ranges");
    let run = |range: &Value| Run {
        first: integer(&range["first"]),
        last: integer(&range["last"]),
    };
    Values {
        runs: ranges.iter().map(run).collect(),
    }
}

fn read_created(reply: &Reply) -> Created {
    let name = reply.json()["name"].as_str().map(str::to_owned);
    Created {
        name: name.expect("the sequence's name"),
    }
}
