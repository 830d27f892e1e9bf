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
    number: usize,
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

    fn off_ms(&self) -> u64 {
        self.off_ms.load(Ordering::Relaxed)
    }
}

/// What is known of a request before it is sent.
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
            refused: Counts::new(),
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
        count(&mut self.refused, code);
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

    /// The IDs of one answer; of one worker they increase from one answer to the next.
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
    // Whether it could be given back is for the cluster's last moments to say.
    let _ = generator.close().await;
    told
}

/// A generator has reasons of its own. Its clock is right, so none is its clock.
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
    count(&mut told.refused, code);
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
