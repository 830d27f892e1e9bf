//! Clients that execute every operation on a strict sequence: values, reads, advances, deletion and
//! creation.

use std::time::Duration;

use serde_json::{Value, json};

use crate::checkers::sequence::{Asked, Definition, Reported, Step, check};
use crate::checkers::{Violation, require};
use crate::clients::Clients;
use crate::cluster::Cluster;
use crate::history::{Outcome, Timeline};
use crate::http::{self, Reply};
use crate::seed::Random;
use crate::wait;
use crate::workload::{read_values, sent};

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
    clients: Clients<Step>,
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
        let clients = (0..cluster.size()).map(|node| {
            let random = Random::seeded(random.next_u64());
            let mut client = Client::new(cluster, node, name, (definition, timeline), random);
            move || (client.step(), PAUSE)
        });
        Self {
            name: name.to_owned(),
            definition,
            timeline,
            clients: Clients::start(clients.collect::<Vec<_>>()),
        }
    }

    /// Ends the load, reads the sequence once more, and checks the history. Returns the number of
    /// acknowledged operations.
    pub fn judged(self, cluster: &Cluster) -> Result<usize, Violation> {
        let mut history = self.clients.finish();
        let drawn = (self.definition, self.timeline);
        let mut judge = Client::new(cluster, 0, &self.name, drawn, Random::seeded(0));
        for asked in [Asked::Create, Asked::Read] {
            let answered = wait::within(JUDGED, || {
                let step = judge.ask(asked, 0);
                history.push(step.clone());
                matches!(step.op.outcome, Outcome::Ok(_)).then_some(())
            });
            let detail = format!("{asked:?} of {}: {:?}", self.name, history.last());
            require(answered.is_some(), "well after a run", detail)?;
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
    fn new(
        cluster: &Cluster,
        node: usize,
        name: &str,
        (definition, timeline): (Definition, Timeline),
        random: Random,
    ) -> Self {
        Self {
            node,
            sequence: cluster.url(node, &format!("/v1/sequences/{name}")),
            definition,
            timeline,
            random,
            seen: 0,
        }
    }

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
        if let Outcome::Ok(Reported::At(position)) = step.op.outcome {
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
        let whose = (self.node, count);
        Step {
            asked,
            op: sent(request, |reply| told(asked, reply), whose, self.timeline),
        }
    }
}

fn told(asked: Asked, reply: &Reply) -> Reported {
    match asked {
        Asked::Next => Reported::Values(read_values(reply).runs),
        Asked::Read | Asked::Advance(_) => {
            let allocated = reply.json()["allocated"].as_str().map(str::to_owned);
            let allocated = allocated.expect("how far the sequence is");
            Reported::At(allocated.parse().expect("a number"))
        }
        Asked::Delete | Asked::Create => Reported::Done,
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
