//! Measures the cost of a durable append in addition to the disk itself.
//!
//! ```text
//! cargo run --release -p seqd-wal --example append [folder]
//! ```
//!
//! Both sides write records of 200 bytes in batches of 1, 10 and 100: the log, and a bare loop of
//! `pwrite` and `fdatasync` into a zero-filled file. They alternate in short rounds, so that a disk
//! that slows down affects both. It then measures several concurrent threads, and the time of
//! opens.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use seqd_wal::{Record, Wal, WalOptions};

const RECORD_BYTES: usize = 200;
const ROUNDS: usize = 40;
const PER_ROUND: usize = 50;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let parent = std::env::args()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = parent.join(format!("seqd-wal-append-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = run(&folder);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn run(folder: &Path) -> Result<(), Failure> {
    let dir = folder.join("wal");
    let started = Instant::now();
    let (wal, _) = Wal::open(WalOptions::new(&dir))?;
    println!("first open                {:>9.1?}", started.elapsed());

    println!("batch   log p50   log p99  bare p50  bare p99  ratio p50  ratio p99");
    let mut bare = Bare::create(&folder.join("bare"))?;
    for batch in [1, 10, 100] {
        let (mut of_log, mut of_bare) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for _ in 0..PER_ROUND {
                of_log.push(append(&wal, batch)?);
            }
            for _ in 0..PER_ROUND {
                of_bare.push(bare.append(batch)?);
            }
        }
        let [log50, log99] = percentiles(of_log);
        let [bare50, bare99] = percentiles(of_bare);
        println!(
            "{batch:>5} {log50:>9.1?} {log99:>9.1?} {bare50:>9.1?} {bare99:>9.1?} {:>10.2} {:>10.2}",
            log50.as_secs_f64() / bare50.as_secs_f64(),
            log99.as_secs_f64() / bare99.as_secs_f64(),
        );
    }
    rolls(&folder.join("rolls"))?;
    concurrent(&wal)?;

    wal.close()?;
    let started = Instant::now();
    let (wal, recovered) = Wal::open(WalOptions::new(&dir))?;
    let segments = wal.stats().segments;
    println!(
        "open of {segments} segments        {:>9.1?}",
        started.elapsed()
    );
    drop(recovered);
    Ok(())
}

/// One durable append, from the call to its result.
fn append(wal: &Wal, batch: usize) -> Result<Duration, Failure> {
    let next = wal.next_index();
    let records = (next..next + batch as u64)
        .map(|index| Record {
            index,
            bytes: vec![index as u8; RECORD_BYTES],
        })
        .collect();
    let (send, answer) = mpsc::channel();
    let started = Instant::now();
    wal.append(records, Box::new(move |result| drop(send.send(result))));
    answer.recv()??;
    Ok(started.elapsed())
}

/// Measures how the preparation of segments delays concurrent calls.
fn rolls(dir: &Path) -> Result<(), Failure> {
    let (wal, _) = Wal::open(WalOptions::new(dir))?;
    let took = (0..4000)
        .map(|_| append(&wal, 100))
        .collect::<Result<Vec<_>, _>>()?;
    let max = took.iter().max().copied().unwrap_or_default();
    let [p50, p99] = percentiles(took);
    let segments = wal.stats().segments;
    println!("batch 100 over {segments} segments: p50 {p50:.1?}, p99 {p99:.1?}, longest {max:.1?}");
    Ok(())
}

/// Measures how many calls share a sync when several callers are concurrent.
fn concurrent(wal: &Wal) -> Result<(), Failure> {
    const CALLS: u64 = 20_000;
    let (before, started) = (wal.stats(), Instant::now());
    let (votes, caller) = (wal.clone(), wal.clone());
    let (send, answers) = mpsc::channel();
    let other = thread::spawn(move || {
        for vote in 0..CALLS / 10 {
            votes.save_vote(vote.to_le_bytes().to_vec(), Box::new(|_| ()));
        }
    });
    let mut waiting = 0;
    for _ in 0..CALLS {
        // Like 64 clients: never more than this many calls without a result.
        if waiting == 64 {
            answers.recv()??;
            waiting -= 1;
        }
        let record = Record {
            index: caller.next_index(),
            bytes: vec![1; RECORD_BYTES],
        };
        let send = send.clone();
        caller.append(
            vec![record],
            Box::new(move |result| drop(send.send(result))),
        );
        waiting += 1;
    }
    for _ in 0..waiting {
        answers.recv()??;
    }
    other
        .join()
        .map_err(|_| io::Error::other("the other thread panicked"))?;
    let (after, took) = (wal.stats(), started.elapsed());
    println!(
        "64 calls in flight        {:>9.0} appends/s, {:.1} records per sync",
        CALLS as f64 / took.as_secs_f64(),
        (after.records - before.records) as f64 / (after.fsyncs - before.fsyncs) as f64,
    );
    Ok(())
}

/// The bare loop: the same bytes without a log.
struct Bare {
    file: File,
    at: u64,
}

impl Bare {
    const BYTES: u64 = 64 << 20;

    fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        file.write_all_at(&vec![0; Self::BYTES as usize], 0)?;
        file.sync_all()?;
        Ok(Self { file, at: 0 })
    }

    fn append(&mut self, batch: usize) -> io::Result<Duration> {
        let bytes = vec![1; RECORD_BYTES * batch];
        if self.at + bytes.len() as u64 > Self::BYTES {
            self.at = 0;
        }
        let started = Instant::now();
        self.file.write_all_at(&bytes, self.at)?;
        self.file.sync_data()?;
        self.at += bytes.len() as u64;
        Ok(started.elapsed())
    }
}

fn percentiles(mut took: Vec<Duration>) -> [Duration; 2] {
    took.sort_unstable();
    [50, 99].map(|percent| took[(took.len() - 1) * percent / 100])
}
