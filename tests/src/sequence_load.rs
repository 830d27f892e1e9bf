//! Clients that execute every operation on a strict sequence: values, reads, advances, deletion and
//! creation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::checkers::Violation;
use crate::checkers::sequence::{Asked, Definition, Step, Told, check};
use crate::cluster::Cluster;
use crate::history::{Op, Outcome, Timeline};
use crate::http::{self, Reply};
use crate::seed::Random;
use crate::wait;
use crate::workload::{judge, read_values};

/// Sequences for the load. The range of a cycling sequence is larger than the number of values that
/// can be in flight or unknown.
pub const SEQUENCES: [(&str, Definition); 3] = [
    (
        "fives",
        Definition {
            start: 10,
            increment: 5,
            min: 1,
            max: i64::MAX,
            cycle: false,
        },
    ),
    (
        "down",
        Definition {
            start: -1,
            increment: -3,
            min: i64::MIN,
            max: -1,
            cycle: false,
        },
    ),
    (
        "ring",
        Definition {
            start: 2_000,
            increment: 1,
            min: 1,
            max: 5_000,
            cycle: true,
        },
    ),
];

/// The pause after each response, which leaves processor time for the other loads.
const PAUSE: Duration = Duration::from_millis(4);

/// The largest number of values per request, and the largest number of values that an advance
/// skips.
const MOST_VALUES: u64 = 3;
const MOST_PASSED: u64 = 20;

/// The time within which the final read after a run must succeed.
const JUDGED: Duration = Duration::from_secs(10);

/// One sequence with its own load.
#[derive(Debug)]
pub struct SequenceLoad {
    name: String,
    definition: Definition,
    timeline: Timeline,
    over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Step>>>,
}

impl SequenceLoad {
    /// Creates the sequence and starts the load, with one client per node.
    pub fn begin(
        cluster: &Cluster,
        name: &str,
        definition: Definition,
        timeline: Timeline,
        random: &mut Random,
    ) -> Self {
        cluster.create_sequence(0, name, &body(&definition));
        let over = Arc::new(AtomicBool::new(false));
        let clients = cluster.urls().into_iter().enumerate().map(|(node, url)| {
            let mut client = Client {
                node,
                sequence: format!("{url}/v1/sequences/{name}"),
                definition,
                timeline,
                random: Random::seeded(random.next_u64()),
                seen: 0,
            };
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                let mut history = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    history.push(client.step());
                    std::thread::sleep(PAUSE);
                }
                history
            })
        });
        Self {
            name: name.to_owned(),
            definition,
            timeline,
            clients: clients.collect(),
            over,
        }
    }

    /// Ends the load, reads the sequence once more, and checks the history. Returns the number of
    /// acknowledged operations.
    pub fn judged(self, cluster: &Cluster) -> Result<usize, Violation> {
        self.over.store(true, Ordering::Relaxed);
        let clients = self.clients.into_iter();
        let mut history: Vec<Step> = clients
            .flat_map(|client| client.join().expect("a client that ends"))
            .collect();
        let mut judge = Client {
            node: 0,
            sequence: cluster.url(0, &format!("/v1/sequences/{}", self.name)),
            definition: self.definition,
            timeline: self.timeline,
            random: Random::seeded(0),
            seen: 0,
        };
        for asked in [Asked::Create, Asked::Read] {
            let answered = wait::within(JUDGED, || {
                let step = judge.ask(asked, 0);
                history.push(step.clone());
                matches!(step.op.outcome, Outcome::Ok(_)).then_some(())
            });
            if answered.is_none() {
                let detail = format!("{asked:?} of {}: {:?}", self.name, history.last());
                return Err(Violation::new("well after a run", detail));
            }
        }
        check(&self.definition, &history)
    }
}

struct Client {
    node: usize,
    sequence: String,
    definition: Definition,
    timeline: Timeline,
    random: Random,
    /// The last position that a response contained.
    seen: u64,
}

impl Client {
    fn step(&mut self) -> Step {
        let (asked, count) = match self.random.below(100) {
            0..=69 => (Asked::Next, 1 + self.random.below(MOST_VALUES)),
            70..=91 => (Asked::Read, 0),
            92..=95 if !self.definition.cycle => {
                let position = self.seen + self.random.below(MOST_PASSED);
                (Asked::Advance(self.definition.value(position)), 0)
            }
            92..=96 => (Asked::Delete, 0),
            _ => (Asked::Create, 0),
        };
        let step = self.ask(asked, count);
        if let Outcome::Ok(Told::At(position)) = step.op.outcome {
            self.seen = position;
        }
        step
    }

    fn ask(&mut self, asked: Asked, count: u64) -> Step {
        let sequence = &self.sequence;
        let request = match asked {
            Asked::Next => http::post(&format!("{sequence}/next?count={count}")),
            Asked::Read => http::get(sequence),
            Asked::Advance(to) => {
                http::post(&format!("{sequence}/advance")).json(&json!({"to": to.to_string()}))
            }
            Asked::Delete => http::request("DELETE", sequence),
            Asked::Create => http::request("PUT", sequence).json(&body(&self.definition)),
        };
        let call = self.timeline.at();
        let outcome = judge(request.send(), |reply| told(asked, reply));
        Step {
            asked,
            op: Op {
                client: self.node,
                node: self.node,
                call,
                back: self.timeline.at(),
                count,
                outcome,
            },
        }
    }
}

fn told(asked: Asked, reply: &Reply) -> Told {
    match asked {
        Asked::Next => Told::Values(read_values(reply).runs),
        Asked::Read | Asked::Advance(_) => {
            let allocated = reply.json()["allocated"].as_str().map(str::to_owned);
            let allocated = allocated.expect("how far the sequence is");
            Told::At(allocated.parse().expect("a number"))
        }
        Asked::Delete | Asked::Create => Told::Done,
    }
}

/// The definition as a request body.
fn body(definition: &Definition) -> Value {
    json!({
        "mode": "strict",
        "start": definition.start.to_string(),
        "increment": definition.increment.to_string(),
        "min": definition.min.to_string(),
        "max": definition.max.to_string(),
        "cycle": definition.cycle,
    })
}
