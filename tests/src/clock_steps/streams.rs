//! Who asks for IDs all the time: a client of each node and layout, and generators in this process,
//! whose clock is right. What they were given and refused, and when.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use seqd_client::idgen::{Layout, SnowflakeId, WallClock, WallMs};
use seqd_client::{Client, GenerateError, GeneratorOptions, IdGenerator, SystemClock};
use tokio::runtime::Runtime;

use crate::checkers::Violation;
use crate::cluster::integer;
use crate::history::{At, Timeline};
use crate::http::{self, Reply};
use crate::report::{Counts, count};

/// The codes that a request for IDs is refused with.
const REFUSALS: [&str; 7] = [
    "clock-behind",
    "clock-skewed",
    "draining",
    "no-quorum",
    "no-worker-yet",
    "overloaded",
    "workers-exhausted",
];

/// IDs of one request.
const COUNT: u32 = 20;

/// The time between an answer and the next request: short against the stops that are looked for.
const PAUSE: Duration = Duration::from_millis(25);

/// Longer than the server's own 3 s, so that a hang shows as one.
const PATIENCE: Duration = Duration::from_secs(4);

/// An ID's time may be off by the tolerated skew of 500 ms, on either side of a clock that is itself
/// off by as much.
const NEAR_MS: u64 = 1_000;

/// What one stream was given and refused.
#[derive(Debug)]
pub struct Told {
    pub name: String,
    /// The node that it asks; `None` for a generator.
    pub node: Option<usize>,
    pub layout: String,
    pub ids: Vec<u64>,
    /// When it was given IDs.
    pub served: Vec<At>,
    /// From when on it met what: `served`, a code, or no answer.
    pub changes: Vec<(At, String)>,
    pub refused: Counts,
    /// Requests without an answer, from when they were sent to when that was seen.
    pub unanswered: Vec<(At, At)>,
    pub violation: Option<Violation>,
    last_of_worker: BTreeMap<u64, u64>,
}

/// What all streams of a run share with the one who sets the clocks.
#[derive(Debug)]
pub struct Shared {
    timeline: Timeline,
    stop: AtomicBool,
    /// By how many milliseconds more than `NEAR_MS` the IDs' times may be off.
    pub off_ms: AtomicU64,
    /// How often each node refused IDs because of its clock.
    refused: [AtomicU64; 3],
    is_violated: AtomicBool,
    /// Answers with IDs, of each stream.
    answers: Vec<AtomicU64>,
}

impl Shared {
    /// How many answers each stream had.
    pub fn answers(&self) -> Vec<u64> {
        let answers = self.answers.iter();
        answers.map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// How often a node refused IDs because of its clock.
    pub fn refused(&self, node: usize) -> u64 {
        self.refused[node].load(Ordering::Relaxed)
    }

    pub fn is_violated(&self) -> bool {
        self.is_violated.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What is known of a request before it is sent.
struct Sent {
    at: At,
    wall: WallMs,
    off_ms: u64,
}

struct Stream {
    number: usize,
    layout: Layout,
    shared: Arc<Shared>,
    told: Told,
}

impl Stream {
    fn new(number: usize, node: Option<usize>, layout: Layout, shared: &Arc<Shared>) -> Self {
        let whose = node.map_or("generator".to_owned(), |node| format!("n{}", node + 1));
        let told = Told {
            name: format!("{whose} {}", layout.name()),
            node,
            layout: layout.name().to_owned(),
            ids: Vec::new(),
            served: Vec::new(),
            changes: Vec::new(),
            refused: Counts::new(),
            unanswered: Vec::new(),
            violation: None,
            last_of_worker: BTreeMap::new(),
        };
        let shared = Arc::clone(shared);
        Self {
            number,
            layout,
            shared,
            told,
        }
    }

    fn sends(&self) -> Sent {
        Sent {
            at: self.shared.timeline.at(),
            wall: SystemClock.wall(),
            off_ms: self.shared.off_ms.load(Ordering::Relaxed),
        }
    }

    /// Records from when on it meets this; that is now.
    fn meets(&mut self, what: &str) -> At {
        let at = self.shared.timeline.at();
        let changes = &mut self.told.changes;
        if changes.last().is_none_or(|(_, last)| last != what) {
            changes.push((at, what.to_owned()));
        }
        at
    }

    fn takes(&mut self, sent: &Sent, ids: &[u64]) {
        let back = self.meets("served");
        let off_ms = self.shared.off_ms.load(Ordering::Relaxed).max(sent.off_ms);
        let wall = SystemClock.wall();
        for id in ids {
            let is_of_now = is_of_now(&self.layout, *id, (sent.wall, wall), NEAR_MS + off_ms);
            if let Err(why) = is_of_now {
                self.violates("no ID of a wrong clock", why);
            }
        }
        self.told.ids.extend(ids);
        self.told.served.push(back);
        self.shared.answers[self.number].fetch_add(1, Ordering::Relaxed);
    }

    fn refused(&mut self, code: &str) {
        self.meets(code);
        count(&mut self.told.refused, code);
        if let Some(node) = self.told.node
            && code.starts_with("clock-")
        {
            self.shared.refused[node].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn violates(&mut self, invariant: &'static str, why: String) {
        let detail = format!(
            "{} at {:?}: {why}",
            self.told.name,
            self.shared.timeline.at()
        );
        let violation = Violation::new(invariant, detail);
        self.told.violation.get_or_insert(violation);
        self.shared.is_violated.store(true, Ordering::Relaxed);
    }

    /// The IDs of one answer; of one worker they increase from one answer to the next.
    fn reads(&mut self, reply: &Reply) -> Vec<u64> {
        let body = reply.json();
        let worker = body["worker"].as_u64().expect("a worker");
        let ids = body["ids"].as_array().expect("IDs").iter();
        let ids: Vec<u64> = ids.map(|id| integer(id).cast_unsigned()).collect();
        let last = self.told.last_of_worker.entry(worker).or_default();
        let before = *last;
        *last = ids.last().copied().unwrap_or(before);
        if ids.first().is_some_and(|first| *first <= before) {
            let why = format!("worker {worker}: {:?} after {before}", ids.first());
            self.violates("a worker's IDs increase", why);
        }
        ids
    }

    /// Asks a node until the end.
    fn ask(mut self, url: &str) -> Told {
        while !self.shared.is_over() {
            let sent = self.sends();
            match http::get(url).accept_json().patience(PATIENCE).send() {
                Ok(reply) if reply.status == 200 => {
                    let ids = self.reads(&reply);
                    self.takes(&sent, &ids);
                }
                Ok(reply) => {
                    let code = reply.code();
                    self.refused(&code);
                    if !REFUSALS.contains(&code.as_str()) {
                        self.violates("named refusals", format!("{code}: {}", reply.body));
                    }
                }
                Err(_) => {
                    let seen = self.meets("no answer");
                    self.told.unanswered.push((sent.at, seen));
                }
            }
            std::thread::sleep(PAUSE);
        }
        self.told
    }

    /// Mints with a generator until the end.
    async fn generate(mut self, client: Client) -> Told {
        let options = GeneratorOptions {
            layout: self.layout.name().to_owned(),
            ..GeneratorOptions::new(format!("soak-{}", self.number))
        };
        let generator = IdGenerator::start(client, options).expect("options");
        while !self.shared.is_over() {
            let sent = self.sends();
            match generator.ids_within(COUNT, Duration::from_secs(1)).await {
                Ok(ids) => {
                    let ids: Vec<u64> = ids.into_iter().map(SnowflakeId::get).collect();
                    self.takes(&sent, &ids);
                }
                Err(error) => self.generator_refused(&error),
            }
            tokio::time::sleep(PAUSE).await;
        }
        // Whether it could be given back is for the cluster's last moments to say.
        let _ = generator.close().await;
        self.told
    }

    /// A generator has reasons of its own. Its clock is right, so none is its clock.
    fn generator_refused(&mut self, error: &GenerateError) {
        let code = match error {
            GenerateError::NoLease { .. } => "no lease",
            GenerateError::WindowEnded { .. } => "window ended",
            GenerateError::Unavailable(_) => "unavailable",
            GenerateError::WorkersExhausted { .. } => "workers exhausted",
            GenerateError::Busy { .. } => "busy",
            other => {
                self.violates("named refusals", other.to_string());
                "other"
            }
        };
        self.refused(code);
    }
}

/// Whether an ID is of the time between its request and its answer, as far as `near_ms`.
fn is_of_now(
    layout: &Layout,
    id: u64,
    (sent, back): (WallMs, WallMs),
    near_ms: u64,
) -> Result<(), String> {
    let parts = layout
        .unpack(SnowflakeId::from_u64(id))
        .map_err(|error| error.to_string())?;
    let begins = layout.wall_at(parts.tick).0;
    let ends = begins + u64::from(layout.spec().tick_ms);
    if ends + near_ms < sent.0 || begins > back.0 + near_ms {
        return Err(format!(
            "{id} of {begins} ms was asked for at {} and answered at {} ms of Unix time",
            sent.0, back.0
        ));
    }
    Ok(())
}

/// All streams of a run.
#[derive(Debug)]
pub struct Streams {
    pub shared: Arc<Shared>,
    threads: Vec<JoinHandle<Told>>,
    generators: Vec<tokio::task::JoinHandle<Told>>,
}

impl Streams {
    /// A client for each of these nodes and layouts, and a generator for each client and layout of
    /// `outside`.
    pub fn begin(
        timeline: Timeline,
        urls: &[String],
        layouts: &[Layout],
        runtime: &Runtime,
        outside: Vec<(Client, Layout)>,
    ) -> Self {
        let shared = Arc::new(Shared {
            timeline,
            stop: AtomicBool::new(false),
            off_ms: AtomicU64::new(0),
            refused: Default::default(),
            is_violated: AtomicBool::new(false),
            answers: (0..urls.len() * layouts.len() + outside.len())
                .map(|_| AtomicU64::new(0))
                .collect(),
        });
        let mut threads = Vec::new();
        for (node, url) in urls.iter().enumerate() {
            for layout in layouts {
                let url = format!("{url}/v1/ids?count={COUNT}&layout={}", layout.name());
                let stream = Stream::new(threads.len(), Some(node), layout.clone(), &shared);
                threads.push(std::thread::spawn(move || stream.ask(&url)));
            }
        }
        let outside = (threads.len()..).zip(outside);
        let generators = outside.map(|(number, (client, layout))| {
            let stream = Stream::new(number, None, layout, &shared);
            runtime.spawn(stream.generate(client))
        });
        Self {
            generators: generators.collect(),
            threads,
            shared,
        }
    }

    /// Ends the requests; what each stream met.
    pub fn finish(self, runtime: &Runtime) -> Vec<Told> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let threads = self.threads.into_iter();
        let mut all: Vec<Told> = threads.map(|one| one.join().expect("a client")).collect();
        for generator in self.generators {
            all.push(runtime.block_on(generator).expect("a generator"));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_another_time_is_found() {
        let layout = Layout::preset("default").expect("a preset");
        let now = layout.spec().epoch_ms + 1_000_000;
        let of = |ms: u64| {
            let tick = layout.tick_at(WallMs(ms)).expect("a tick");
            let worker = seqd_client::idgen::WorkerId(3);
            layout.pack(tick, worker, 7).expect("an ID").get()
        };
        let judged =
            |ms, near_ms| is_of_now(&layout, of(ms), (WallMs(now), WallMs(now + 5)), near_ms);
        assert_eq!(judged(now - 99, 100), Ok(()));
        assert_eq!(judged(now + 105, 100), Ok(()));
        assert!(judged(now - 102, 100).is_err());
        assert!(judged(now + 106, 100).is_err());
    }
}
