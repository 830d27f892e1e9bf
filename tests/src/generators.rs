//! Generators outside the cluster, in this process. Many of them mint continuously, and the IDs and
//! waiting times of each are recorded. [`Held`] records the workers that are held at one moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use seqd_client::api::CreateLayout;
use seqd_client::{Client, GeneratorOptions, IdGenerator, Options, parse_endpoints};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::checkers::Violation;
use crate::cluster::Cluster;
use crate::http;

/// A runtime of two threads, for external generators and for clients.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// A client of these nodes, `HOST:PORT` each. It tries the first one first.
pub fn client(addresses: &[String]) -> Client {
    let endpoints = parse_endpoints(&addresses.join(","), false).expect("addresses");
    let options = Options {
        endpoints,
        ..Options::default()
    };
    Client::new(options).expect("a client")
}

/// Like [`client`], with the nodes in an order that depends on `number`.
pub fn rotated(addresses: &[String], number: usize) -> Client {
    let mut addresses = addresses.to_vec();
    let by = number % addresses.len();
    addresses.rotate_left(by);
    client(&addresses)
}

/// Creates a layout with these widths of worker and sequence. The other fields are as in `default`.
pub async fn create_layout(client: &Client, name: &str, worker_bits: u8, sequence_bits: u8) {
    let request = CreateLayout {
        name: Some(name.to_owned()),
        worker_bits: Some(worker_bits),
        sequence_bits: Some(sequence_bits),
        ..CreateLayout::default()
    };
    let created = client.create_layout(&request).await;
    created.unwrap_or_else(|error| panic!("no layout {name}: {error}"));
}

/// The results of one generator.
#[derive(Debug, Default)]
pub struct Minted {
    pub ids: Vec<u64>,
    /// The longest time between two responses, or from the start to the first one.
    pub longest_idle: Duration,
    /// The time from the start to the first ID.
    pub first: Duration,
    /// The number of refusals by reason.
    pub refused: BTreeMap<String, u64>,
    pub leases: u64,
}

/// Generators that mint until they are stopped.
#[derive(Debug)]
pub struct Fleet {
    stop: Arc<AtomicBool>,
    minting: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Minted>>,
}

/// The parameters of a fleet.
#[derive(Debug, Clone)]
pub struct Plan {
    pub layout: String,
    pub generators: usize,
    /// The number of IDs per call.
    pub batch: u32,
    /// The pause between two calls.
    pub pause: Duration,
    /// The time over which the starts are spread. Zero starts all at the same time.
    pub over: Duration,
}

impl Fleet {
    /// Starts the generators, which share `clients`.
    pub fn start(runtime: &Runtime, clients: &[Client], plan: &Plan) -> Self {
        let (stop, minting) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let tasks = (0..plan.generators).map(|number| {
            let client = clients[number % clients.len()].clone();
            let (plan, stop, minting) = (plan.clone(), Arc::clone(&stop), Arc::clone(&minting));
            runtime.spawn(async move { mint(number, client, &plan, &stop, &minting).await })
        });
        Self {
            tasks: tasks.collect(),
            stop,
            minting,
        }
    }

    /// The number of generators that have minted.
    pub fn minting(&self) -> u64 {
        self.minting.load(Ordering::Relaxed)
    }

    /// Stops the generators, which release their workers, and returns their results.
    pub fn stop(self, runtime: &Runtime) -> Vec<Minted> {
        self.stop.store(true, Ordering::Relaxed);
        runtime.block_on(async {
            let mut all = Vec::with_capacity(self.tasks.len());
            for task in self.tasks {
                all.push(task.await.expect("a generator that does not panic"));
            }
            all
        })
    }
}

async fn mint(
    number: usize,
    client: Client,
    plan: &Plan,
    stop: &AtomicBool,
    minting: &AtomicU64,
) -> Minted {
    tokio::time::sleep(plan.over.mul_f64(number as f64 / plan.generators as f64)).await;
    let options = GeneratorOptions {
        layout: plan.layout.clone(),
        ..GeneratorOptions::new(format!("fleet-{number}"))
    };
    let generator = IdGenerator::start(client, options).expect("options");
    let mut minted = Minted::default();
    let (began, mut last) = (Instant::now(), Instant::now());
    while !stop.load(Ordering::Relaxed) {
        match generator
            .ids_within(plan.batch, Duration::from_secs(1))
            .await
        {
            Ok(ids) => {
                if minted.ids.is_empty() {
                    minted.first = began.elapsed();
                    minting.fetch_add(1, Ordering::Relaxed);
                }
                minted.ids.extend(ids.into_iter().map(|id| id.get()));
                minted.longest_idle = minted.longest_idle.max(last.elapsed());
                last = Instant::now();
            }
            Err(error) => *minted.refused.entry(error.to_string()).or_default() += 1,
        }
        tokio::time::sleep(plan.pause).await;
    }
    minted.longest_idle = minted.longest_idle.max(last.elapsed());
    minted.leases = generator.status().leases;
    if let Err(kept) = generator.close().await {
        *minted.refused.entry(kept.to_string()).or_default() += 1;
    }
    minted
}

/// The IDs of this many requests of `count` each, which all nodes serve in turn.
pub fn of_nodes(cluster: &Cluster, layout: &str, requests: usize, count: usize) -> Vec<u64> {
    let path = format!("/v1/ids?count={count}&layout={layout}");
    let mut all = Vec::new();
    for number in 0..requests {
        let url = cluster.url(number % cluster.size(), &path);
        let reply = http::get(&url).accept_json().reply().ok().json();
        let ids = reply["ids"].as_array().expect("IDs").iter();
        all.extend(ids.map(|id| id.as_str().expect("text").parse::<u64>().expect("a number")));
    }
    all
}

/// Checks that no ID occurs twice. Returns the number of IDs.
pub fn unique(mut ids: Vec<u64>) -> Result<usize, Violation> {
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Violation::new(
            "unique",
            format!("{} was minted twice", pair[0]),
        )),
        None => Ok(ids.len()),
    }
}

/// The workers of one layout that are held, according to their holders.
#[derive(Debug, Default)]
pub struct Held(Mutex<BTreeMap<u32, String>>);

impl Held {
    /// Records that a holder may mint with a worker. Returns a violation if another holder still
    /// may.
    pub fn hold(&self, worker: u32, holder: &str) -> Result<(), Violation> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match held.insert(worker, holder.to_owned()) {
            None => Ok(()),
            Some(other) => {
                let detail = format!("worker {worker} is held by {other} and by {holder}");
                Err(Violation::new("one holder", detail))
            }
        }
    }

    /// Records that a holder has stopped minting. Called before the holder releases the worker.
    pub fn end(&self, worker: u32) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&worker);
    }
}
