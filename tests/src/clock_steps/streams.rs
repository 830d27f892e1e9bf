//! The streams of ID requests: one client per node and layout, and generators in this process,
//! whose clock is right. Records IDs and refusals with their times.

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

/// The codes with which a request for IDs may be refused.
const REFUSALS: [&str; 7] = [
    "clock-behind",
    "clock-skewed",
    "draining",
    "no-quorum",
    "no-worker-yet",
    "overloaded",
    "workers-exhausted",
];

/// IDs per request.
const COUNT: u32 = 20;

/// The time between a response and the next request, short compared with the pauses to be detected.
const PAUSE: Duration = Duration::from_millis(25);

/// Longer than the server's own 3 s, so that a missing response shows as one.
const PATIENCE: Duration = Duration::from_secs(4);

/// The largest error of an ID's time: the tolerated skew of 500 ms, from a clock that is itself
/// wrong by as much.
const NEAR_MS: u64 = 1_000;

/// The record of one stream.
#[derive(Debug)]
pub struct Told {
    number: usize,
    pub name: String,
    /// The node that receives its requests. `None` for a generator.
    pub node: Option<usize>,
    pub layout: String,
    pub ids: Vec<u64>,
    /// The times of the responses with IDs.
    pub served: Vec<At>,
    /// The changes of the outcome: `served`, a code, or no response.
    pub changes: Vec<(At, String)>,
    pub refused: BTreeMap<String, u64>,
    /// Requests without a response, with the time of sending and the time of giving up.
    pub unanswered: Vec<(At, At)>,
    pub violation: Option<Violation>,
    last_of_worker: BTreeMap<u64, u64>,
}

/// The state that all streams of a run share with the driver.
#[derive(Debug)]
pub struct Shared {
    timeline: Timeline,
    stop: AtomicBool,
    /// The additional permitted error of the IDs' times beyond `NEAR_MS`, in milliseconds.
    pub off_ms: AtomicU64,
    /// The number of refusals because of the clock, by node.
    refused: [AtomicU64; 3],
    is_violated: AtomicBool,
    /// The number of responses with IDs, by stream.
    answers: Vec<AtomicU64>,
}

impl Shared {
    /// The number of responses of each stream.
    pub fn answers(&self) -> Vec<u64> {
        let answers = self.answers.iter();
        answers.map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// The number of times that a node refused IDs because of its clock.
    pub fn refused(&self, node: usize) -> u64 {
        self.refused[node].load(Ordering::Relaxed)
    }

    pub fn is_violated(&self) -> bool {
        self.is_violated.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn off_ms(&self) -> u64 {
        self.off_ms.load(Ordering::Relaxed)
    }
}

/// The facts about a request that are known before it is sent.
struct Sent {
    at: At,
    wall: WallMs,
    off_ms: u64,
}

impl Sent {
    fn now(shared: &Shared) -> Self {
        Self {
            at: shared.timeline.at(),
            wall: SystemClock.wall(),
            off_ms: shared.off_ms(),
        }
    }
}

impl Told {
    fn new(number: usize, node: Option<usize>, layout: &Layout) -> Self {
        let layout = layout.name();
        let name = match node {
            Some(node) => format!("n{} {layout}", node + 1),
            None => format!("generator {layout}"),
        };
        Self {
            number,
            name,
            node,
            layout: layout.to_owned(),
            ids: Vec::new(),
            served: Vec::new(),
            changes: Vec::new(),
            refused: BTreeMap::new(),
            unanswered: Vec::new(),
            violation: None,
            last_of_worker: BTreeMap::new(),
        }
    }

    fn met(&mut self, at: At, what: &str) {
        if self.changes.last().is_none_or(|(_, last)| last != what) {
            self.changes.push((at, what.to_owned()));
        }
    }

    fn take(&mut self, shared: &Shared, layout: &Layout, sent: &Sent, ids: &[u64]) {
        let back = shared.timeline.at();
        let near_ms = NEAR_MS + sent.off_ms.max(shared.off_ms());
        let wall = SystemClock.wall();
        for id in ids {
            if let Err(why) = is_of_now(layout, *id, (sent.wall, wall), near_ms) {
                self.violate(shared, "no ID of a wrong clock", why);
            }
        }
        self.ids.extend(ids);
        self.served.push(back);
        self.met(back, "served");
        shared.answers[self.number].fetch_add(1, Ordering::Relaxed);
    }

    fn refuse(&mut self, shared: &Shared, code: &str, words: &str) {
        self.met(shared.timeline.at(), code);
        *self.refused.entry(code.to_owned()).or_default() += 1;
        if !REFUSALS.contains(&code) {
            self.violate(shared, "named refusals", format!("{code}: {words}"));
        }
        if let Some(node) = self.node
            && code.starts_with("clock-")
        {
            shared.refused[node].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn violate(&mut self, shared: &Shared, invariant: &'static str, why: String) {
        let detail = format!("{} at {:?}: {why}", self.name, shared.timeline.at());
        self.violation
            .get_or_insert_with(|| Violation::new(invariant, detail));
        shared.is_violated.store(true, Ordering::Relaxed);
    }

    /// The IDs of one response. The IDs of one worker must increase from one response to the next.
    fn read(&mut self, shared: &Shared, reply: &Reply) -> Vec<u64> {
        let body = reply.json();
        let worker = body["worker"].as_u64().expect("a worker");
        let ids = body["ids"].as_array().expect("IDs").iter();
        let ids: Vec<u64> = ids.map(|id| integer(id).cast_unsigned()).collect();
        let last = self.last_of_worker.entry(worker).or_default();
        let before = *last;
        *last = ids.last().copied().unwrap_or(before);
        if ids.first().is_some_and(|first| *first <= before) {
            let why = format!("worker {worker}: {:?} after {before}", ids.first());
            self.violate(shared, "a worker's IDs increase", why);
        }
        ids
    }
}

/// Checks that the time of an ID is between its request and its response, within `near_ms`.
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
    /// Starts a client for each of these nodes and layouts, and a generator for each client and
    /// layout of `outside`.
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
                let number = threads.len();
                let path = format!("/v1/ids?count={COUNT}&layout={}", layout.name());
                let (url, layout, shared) = (url.clone() + &path, layout.clone(), shared.clone());
                threads.push(std::thread::spawn(move || {
                    ask(
                        &shared,
                        Told::new(number, Some(node), &layout),
                        &layout,
                        &url,
                    )
                }));
            }
        }
        let outside = (threads.len()..).zip(outside);
        let generators = outside.map(|(number, (client, layout))| {
            let (shared, told) = (shared.clone(), Told::new(number, None, &layout));
            runtime.spawn(async move { generate(&shared, told, client, &layout).await })
        });
        Self {
            generators: generators.collect(),
            threads,
            shared,
        }
    }

    /// Ends the requests and returns the record of each stream.
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

fn ask(shared: &Shared, mut told: Told, layout: &Layout, url: &str) -> Told {
    while !shared.is_over() {
        let sent = Sent::now(shared);
        match http::get(url).accept_json().patience(PATIENCE).send() {
            Ok(reply) if reply.status == 200 => {
                let ids = told.read(shared, &reply);
                told.take(shared, layout, &sent, &ids);
            }
            Ok(reply) => told.refuse(shared, &reply.code(), &reply.body),
            Err(_) => {
                let seen = shared.timeline.at();
                told.met(seen, "no answer");
                told.unanswered.push((sent.at, seen));
            }
        }
        std::thread::sleep(PAUSE);
    }
    told
}

async fn generate(shared: &Shared, mut told: Told, client: Client, layout: &Layout) -> Told {
    let options = GeneratorOptions {
        layout: layout.name().to_owned(),
        ..GeneratorOptions::new(format!("soak-{}", told.number))
    };
    let generator = IdGenerator::start(client, options).expect("options");
    while !shared.is_over() {
        let sent = Sent::now(shared);
        match generator.ids_within(COUNT, Duration::from_secs(1)).await {
            Ok(ids) => {
                let ids: Vec<u64> = ids.into_iter().map(SnowflakeId::get).collect();
                told.take(shared, layout, &sent, &ids);
            }
            Err(error) => refuse_generator(&mut told, shared, &error),
        }
        tokio::time::sleep(PAUSE).await;
    }
    // The release may fail, because the cluster may be ending.
    let _ = generator.close().await;
    told
}

/// Records a refusal of a generator, which has its own reasons. Its clock is right, so none of them
/// may be the clock.
fn refuse_generator(told: &mut Told, shared: &Shared, error: &GenerateError) {
    let code = match error {
        GenerateError::NoLease { .. } => "no lease",
        GenerateError::WindowEnded { .. } => "window ended",
        GenerateError::Unavailable(_) => "unavailable",
        GenerateError::WorkersExhausted { .. } => "workers exhausted",
        GenerateError::Busy { .. } => "busy",
        other => {
            told.violate(shared, "named refusals", other.to_string());
            "other"
        }
    };
    told.met(shared.timeline.at(), code);
    *told.refused.entry(code.to_owned()).or_default() += 1;
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
