//! Measures how fast one process can mint IDs, compared with a bare atomic increment.
//!
//! ```text
//! cargo run --release -p seqd-idgen --example chunks [seconds]
//! ```
//!
//! Single IDs, with one and two threads on one generator: from a separate chunk per thread, and
//! with one compare-and-swap each. The layout has 4,194,304 IDs per millisecond, so its bits are
//! not a limit. The clock is read once for 256 IDs. Rounds of 5 ms alternate. A round counts only
//! if each thread had a processor for nine tenths of the time, so that other load has little effect
//! and two threads ran concurrently. The median of these rounds and their number are printed.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures: the crate itself reads no clock"
)]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use seqd_idgen::{
    Chunked, FieldOrder, FirstSequence, Generator, Layout, LayoutError, LayoutSpec, Mint, MintOne,
    Tick, WallMs, WorkerId,
};

const ROUND: Duration = Duration::from_millis(5);

/// The fraction of a round for which a thread must have a processor.
const SHARE: f64 = 0.9;

/// The number of IDs between two readings of the clock.
const PER_READING: u32 = 256;

const CHUNK: NonZeroU32 = NonZeroU32::new(4096).unwrap();

#[derive(Clone, Copy, Debug)]
enum Way {
    Increment,
    Chunks,
    Single,
}

const WAYS: [(Way, &str); 3] = [
    (Way::Increment, "a bare atomic increment"),
    (Way::Chunks, "chunks of 4,096"),
    (Way::Single, "one compare-and-swap each"),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    // Three ways, each with one thread and with two.
    let rounds = (seconds * 1000 / (6 * ROUND.as_millis() as u64)).max(1);
    let layout = wide()?;
    let mut rates: [[Vec<Option<f64>>; 2]; 3] = Default::default();
    for _ in 0..rounds {
        for (row, (way, _)) in WAYS.iter().enumerate() {
            for threads in [1, 2] {
                rates[row][threads - 1].push(measure(*way, &layout, threads)?);
            }
        }
    }
    println!("millions of IDs/s         one thread (rounds)   two threads (rounds)   two : one");
    for ((_, name), row) in WAYS.iter().zip(&mut rates) {
        let [one, two] = row.each_mut().map(median);
        let ratio = two.0 / one.0;
        println!(
            "{name:<24} {:>11.0} ({:>6}) {:>13.0} ({:>6}) {ratio:>11.2}",
            one.0, one.1, two.0, two.1
        );
    }
    Ok(())
}

fn wide() -> Result<Layout, LayoutError> {
    Layout::new(LayoutSpec {
        name: "wide".to_owned(),
        // 2026-01-01T00:00:00Z.
        epoch_ms: 1_767_225_600_000,
        tick_ms: 1,
        time_bits: 38,
        datacenter_bits: 0,
        worker_bits: 3,
        sequence_bits: 22,
        order: FieldOrder::TickWorkerSequence,
        first_sequence: FirstSequence::Zero,
    })
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

fn wall() -> WallMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    WallMs(since.unwrap_or_default().as_millis() as u64)
}

/// Returns the millions of IDs per second of all threads together, or `None` if a thread had no
/// processor for too long.
fn measure(
    way: Way,
    layout: &Layout,
    threads: usize,
) -> Result<Option<f64>, Box<dyn std::error::Error>> {
    let from = layout.tick_at(wall())?;
    let fence = Tick(from.0 + 60_000);
    let generator = Generator::new(layout.clone(), WorkerId(1), from, fence, 0)?;
    let counter = AtomicU64::new(0);
    let start = Barrier::new(threads);
    let work = || {
        start.wait();
        let began = Instant::now();
        let worked = on_processor(began);
        let made = match way {
            Way::Increment => until(began, |_| {
                black_box(counter.fetch_add(1, Ordering::Relaxed));
                true
            }),
            Way::Chunks => {
                let mut chunked = Chunked::new(&generator, CHUNK);
                until(began, |now| {
                    matches!(black_box(chunked.mint(now)), MintOne::Ready(_))
                })
            }
            Way::Single => until(began, |now| {
                matches!(black_box(generator.mint(now, 1)), Mint::Ready(_))
            }),
        };
        let (worked, took) = (on_processor(began).saturating_sub(worked), began.elapsed());
        let had_it = worked.as_secs_f64() >= SHARE * took.as_secs_f64();
        had_it.then(|| made as f64 / took.as_secs_f64() / 1e6)
    };
    Ok(thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let rates = threads
            .into_iter()
            .map(|thread| thread.join().ok().flatten());
        rates.sum()
    }))
}

/// Returns how many times `make` produced an ID within a round.
fn until(began: Instant, mut make: impl FnMut(WallMs) -> bool) -> u64 {
    let mut made = 0;
    while began.elapsed() < ROUND {
        let now = wall();
        for _ in 0..PER_READING {
            made += u64::from(make(now));
        }
    }
    made
}
