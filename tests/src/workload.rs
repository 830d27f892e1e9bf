//! Clients that continuously send requests and record the outcomes.
//!
//! A request is sent once. After a refusal the client sends a new request, to the next node if the
//! client roams. A request with an unknown outcome is recorded as unknown and never sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{Cluster, integer};
use crate::history::{Created, History, Ids, Op, Outcome, Run, Timeline, Values, runs_of};
use crate::http::{self, Failure, Reply, Request};

/// The pause after a refusal, which avoids a busy loop against a node that is down or without a
/// leader.
const AFTER_REFUSAL: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Always the same node: the client's number modulo the number of nodes.
    Fixed,
    /// The same node until it fails, then the next.
    Roaming,
}

/// The number of clients, their nodes and the size of their requests.
#[derive(Debug, Clone)]
pub struct Load {
    pub urls: Vec<String>,
    pub clients: usize,
    pub route: Route,
    pub count: u64,
    /// A pause after each response, which leaves the processor to the measured work. Usually zero.
    pub pause: Duration,
}

#[derive(Debug)]
pub struct Workload<T> {
    stop: Arc<AtomicBool>,
    /// Per node.
    acknowledged: Arc<[AtomicUsize]>,
    clients: Vec<JoinHandle<History<T>>>,
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
}

impl Workload<Created> {
    /// Clients that create sequences, each under a unique name that begins with `prefix`.
    pub fn creates(load: Load, timeline: Timeline, prefix: &str) -> Self {
        let (next, prefix) = (Arc::new(AtomicUsize::new(0)), prefix.to_owned());
        let ask = move |url: &str, _| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let url = format!("{url}/v1/sequences/{prefix}{number}");
            // Descriptions of various lengths, so that records end at different offsets.
            let words = "what a sequence is for, in words ".repeat(number % 28);
            http::request("PUT", &url).json(&json!({"mode": "strict", "description": words}))
        };
        start(load, timeline, ask, read_created)
    }
}

impl<T> Workload<T> {
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

    /// Lets every client finish its request and returns the history.
    pub fn finish(self) -> History<T> {
        self.stop.store(true, Ordering::Relaxed);
        let clients = self.clients.into_iter();
        clients
            .flat_map(|client| client.join().expect("a client that ends"))
            .collect()
    }
}

fn start<T: Send + 'static>(
    load: Load,
    timeline: Timeline,
    ask: impl Fn(&str, u64) -> Request + Clone + Send + 'static,
    read: fn(&Reply) -> T,
) -> Workload<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let acknowledged: Arc<[AtomicUsize]> = load.urls.iter().map(|_| AtomicUsize::new(0)).collect();
    let clients = (0..load.clients)
        .map(|client| {
            let (load, ask) = (load.clone(), ask.clone());
            let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
            std::thread::spawn(move || {
                let mut history = History::new();
                let mut node = client % load.urls.len();
                while !stop.load(Ordering::Relaxed) {
                    let request = ask(&load.urls[node], load.count);
                    let call = timeline.at();
                    let outcome = judge(request.send(), read);
                    let back = timeline.at();
                    let pause = match &outcome {
                        Outcome::Ok(_) => load.pause,
                        _ => AFTER_REFUSAL,
                    };
                    let is_ok = matches!(outcome, Outcome::Ok(_));
                    history.push(Op {
                        client,
                        node,
                        call,
                        back,
                        count: load.count,
                        outcome,
                    });
                    if is_ok {
                        acknowledged[node].fetch_add(1, Ordering::Relaxed);
                    } else if load.route == Route::Roaming {
                        node = (node + 1) % load.urls.len();
                    }
                    if !pause.is_zero() {
                        std::thread::sleep(pause);
                    }
                }
                history
            })
        })
        .collect();
    Workload {
        stop,
        acknowledged,
        clients,
    }
}

/// Requests one value from one node, as a client that is not part of a load.
pub fn next_value(
    cluster: &Cluster,
    node: usize,
    sequence: &str,
    timeline: Timeline,
) -> Op<Values> {
    let url = cluster.url(node, &format!("/v1/sequences/{sequence}/next?count=1"));
    let call = timeline.at();
    let outcome = judge(http::post(&url).send(), read_values);
    Op {
        client: usize::MAX,
        node,
        call,
        back: timeline.at(),
        count: 1,
        outcome,
    }
}

/// The outcome of a response, or of a missing one.
pub(crate) fn judge<T>(sent: Result<Reply, Failure>, read: impl Fn(&Reply) -> T) -> Outcome<T> {
    match sent {
        Ok(reply) if (200..300).contains(&reply.status) => Outcome::Ok(read(&reply)),
        Ok(reply) if reply.retryable() => Outcome::Refused(reply.code()),
        Ok(reply) if (400..500).contains(&reply.status) => Outcome::Refused(reply.code()),
        Ok(reply) => {
            let (status, code) = (reply.status, reply.code());
            Outcome::Unknown(format!("{status} {code}: {}", reply.detail()))
        }
        Err(Failure::Refused(_)) => Outcome::Refused("connection refused".into()),
        Err(Failure::Unknown(why)) => Outcome::Unknown(why),
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
