//! Measures how fast one process can draw the values of a sequence, compared with a bare atomic
//! increment.
//!
//! ```text
//! cargo run --release -p seqd-client --example draws ENDPOINTS [seconds]
//! ```
//!
//! Single values with one and two threads: from one allocator with one atomic addition each, and
//! from a chunk of each thread. It uses a segment sequence of its own on a running cluster, such as
//! `seqd demo`, with segments of 100 million values, so that refills do not end a round. The rounds
//! alternate and last 5 ms each. A round counts only if each thread had a processor for nine tenths
//! of the time. The median of these rounds and their number are printed.

use std::error::Error;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use seqd_client::api::SequenceSpec;
use seqd_client::blocking::{Chunk, SequenceAllocator};
use seqd_client::{AllocatorOptions, Client, Options, parse_endpoints};

const ROUND: Duration = Duration::from_millis(5);

/// The fraction of a round for which a thread must have a processor.
const SHARE: f64 = 0.9;

/// The number of values between two readings of the clock.
const PER_READING: u32 = 256;

const CHUNK: NonZeroU32 = NonZeroU32::new(4096).unwrap();

const SIZE: u64 = 100_000_000;

const SEQUENCE: &str = "draws-example";

#[derive(Clone, Copy, Debug)]
enum Way {
    Increment,
    Single,
    Chunks,
}

const WAYS: [(Way, &str); 3] = [
    (Way::Increment, "a bare atomic increment"),
    (Way::Single, "the allocator, one each"),
    (Way::Chunks, "chunks of 4,096"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let endpoints = arguments.next().ok_or("ENDPOINTS are missing")?;
    let seconds: u64 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let options = Options {
        endpoints: parse_endpoints(&endpoints, false)?,
        ..Options::default()
    };
    let client = Client::new(options.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let spec = SequenceSpec::default();
    runtime.block_on(client.create_sequence(SEQUENCE, &spec))?;
    let sizes = AllocatorOptions {
        min: SIZE,
        max: SIZE,
        ..AllocatorOptions::default()
    };
    // The connections of a client belong to one runtime, and the allocator has its own.
    let allocator = SequenceAllocator::start(Client::new(options)?, SEQUENCE, sizes)?;
    allocator.ready()?;
    // Three ways, each with one thread and with two.
    let rounds = (seconds * 1000 / (6 * ROUND.as_millis() as u64)).max(1);
    let mut rates: [[Vec<Option<f64>>; 2]; 3] = Default::default();
    for _ in 0..rounds {
        for (row, (way, _)) in WAYS.iter().enumerate() {
            for threads in [1, 2] {
                rates[row][threads - 1].push(measure(*way, &allocator, threads));
            }
        }
    }
    print(&mut rates);
    allocator.close();
    runtime.block_on(client.delete_sequence(SEQUENCE))?;
    Ok(())
}

fn print(rates: &mut [[Vec<Option<f64>>; 2]; 3]) {
    println!("millions of values/s      one thread (rounds)   two threads (rounds)");
    for ((_, name), row) in WAYS.iter().zip(rates) {
        let [one, two] = row.each_mut().map(median);
        let [(one, of_one), (two, of_two)] = [one, two];
        println!("{name:<24} {one:>11.0} ({of_one:>6}) {two:>13.0} ({of_two:>6})");
    }
}

/// Returns the median, and the number of rounds that count.
fn median(rounds: &mut Vec<Option<f64>>) -> (f64, usize) {
    let mut rates: Vec<f64> = rounds.drain(..).flatten().collect();
    rates.sort_unstable_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied();
    (median.unwrap_or(f64::NAN), rates.len())
}

/// Returns how long this thread has been on a processor, or the time since `since` if the kernel
/// does not count that.
fn on_processor(since: Instant) -> Duration {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = counted.and_then(|text| text.split(' ').next()?.parse().ok());
    ns.map_or_else(|| since.elapsed(), Duration::from_nanos)
}

/// Returns the millions of values per second of all threads together, or `None` if a thread had no
/// processor for too long, or waited for a segment.
fn measure(way: Way, allocator: &SequenceAllocator, threads: usize) -> Option<f64> {
    let counter = AtomicI64::new(0);
    let start = Barrier::new(threads);
    let work = || {
        start.wait();
        let began = Instant::now();
        let worked = on_processor(began);
        let made = match way {
            Way::Increment => until(began, || {
                Some(black_box(counter.fetch_add(1, Ordering::Relaxed)))
            }),
            Way::Single => until(began, || black_box(allocator.next().ok())),
            Way::Chunks => {
                let mut chunk = Chunk::new(allocator, CHUNK);
                until(began, || black_box(chunk.next().ok()))
            }
        };
        let (worked, took) = (on_processor(began).saturating_sub(worked), began.elapsed());
        let had_it = worked.as_secs_f64() >= SHARE * took.as_secs_f64();
        had_it.then(|| made as f64 / took.as_secs_f64() / 1e6)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let rates = threads
            .into_iter()
            .map(|thread| thread.join().ok().flatten());
        rates.sum()
    })
}

/// Returns how many times `make` produced a value within a round.
fn until(began: Instant, mut make: impl FnMut() -> Option<i64>) -> u64 {
    let mut made = 0;
    while began.elapsed() < ROUND {
        for _ in 0..PER_READING {
            made += u64::from(make().is_some());
        }
    }
    made
}
