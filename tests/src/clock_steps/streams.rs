//! Continuous requests for IDs: a client for each node and layout, and generators in this process,
//! whose clock is right. Records the IDs, the refusals and their times.

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

/// IDs of one request.
const COUNT: u32 = 20;

/// The time between a response and the next request: short compared with the stops that are
/// measured.
const PAUSE: Duration = Duration::from_millis(25);

/// Longer than the server's timeout of 3 s, so that a hang of the server is visible.
const PATIENCE: Duration = Duration::from_secs(4);

/// The tolerated error of an ID's time: the skew of 500 ms, on either side of a clock that itself
/// may be wrong by as much.
const NEAR_MS: u64 = 1_000;

/// The record of one stream.
#[derive(Debug)]
pub struct StreamRecord {
    pub name: String,
    /// The node that receives the stream's requests; `None` for a generator.
    pub node: Option<usize>,
    pub layout: String,
    pub ids: Vec<u64>,
    /// The times at which the stream received IDs.
    pub served: Vec<At>,
    /// The changes of the stream's result: `served`, a code, or no response, each with the time of
    /// the change.
    pub changes: Vec<(At, String)>,
    pub refused: Counts,
    /// Requests without a response: the time of sending, and the time at which that was detected.
    pub unanswered: Vec<(At, At)>,
    pub violation: Option<Violation>,
    last_of_worker: BTreeMap<u64, u64>,
}

/// The data that all streams of a run share with the driver.
#[derive(Debug)]
pub struct Shared {
    timeline: Timeline,
    stop: AtomicBool,
    /// The number of milliseconds, in addition to `NEAR_MS`, by which the IDs' times may be wrong.
    pub off_ms: AtomicU64,
    /// The number of refusals of each node because of its clock.
    refused: [AtomicU64; 3],
    is_violated: AtomicBool,
    /// The number of responses with IDs, for each stream.
    answers: Vec<AtomicU64>,
}

impl Shared {
    /// The number of responses with IDs, for each stream.
    pub fn answers(&self) -> Vec<u64> {
        let answers = self.answers.iter();
        answers.map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// The number of refusals of a node because of its clock.
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

/// The data of a request at its sending.
struct Sent {
    at: At,
    wall: WallMs,
    off_ms: u64,
}

struct Stream {
    number: usize,
    layout: Layout,
    shared: Arc<Shared>,
    told: StreamRecord,
}

impl Stream {
    fn new(number: usize, node: Option<usize>, layout: Layout, shared: &Arc<Shared>) -> Self {
        let whose = node.map_or("generator".to_owned(), |node| format!("n{}", node + 1));
        let told = StreamRecord {
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

    /// Records the result of a request at this time, if it has changed. Returns the time.
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

    /// Reads the IDs of one response. The IDs of one worker must increase from one response to the
    /// next.
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

    /// Sends requests to a node until the end.
    fn ask(mut self, url: &str) -> StreamRecord {
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
    async fn generate(mut self, client: Client) -> StreamRecord {
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
        // The result of the release is ignored: it depends on the cluster's last moments.
        let _ = generator.close().await;
        self.told
    }

    /// A generator has its own reasons to refuse. Its clock is right, which is not one of them.
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

/// Returns whether an ID's time lies between its request and its response, with a tolerance of
/// `near_ms`.
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
    threads: Vec<JoinHandle<StreamRecord>>,
    generators: Vec<tokio::task::JoinHandle<StreamRecord>>,
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

    /// Ends the requests. Returns the record of each stream.
    pub fn finish(self, runtime: &Runtime) -> Vec<StreamRecord> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let threads = self.threads.into_iter();
        let mut all: Vec<StreamRecord> = threads.map(|one| one.join().expect("a client")).collect();
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
