//! A batch job without an async runtime: requests IDs in batches, from any number of threads.
//!
//! `batch ENDPOINTS ROWS` mints one ID per row and exits.

use std::error::Error;
use std::thread;

use seqd_client::blocking::IdGenerator;
use seqd_client::{Client, GeneratorOptions, Options, parse_endpoints};

/// The rows of one batch: far below the limit of a call, and about one tick of the layout
/// `default`.
const ROWS: u32 = 4096;

pub(crate) fn run(endpoints: &str, rows: u32) -> Result<Vec<u64>, Box<dyn Error>> {
    let client = Client::new(Options {
        endpoints: parse_endpoints(endpoints, false)?,
        ..Options::default()
    })?;
    let generator = IdGenerator::start(client, GeneratorOptions::new("nightly-import"))?;
    let halves = [rows / 2, rows - rows / 2];
    let shared = &generator;
    let made = thread::scope(|scope| {
        let parts = halves.map(|half| scope.spawn(move || part(shared, half)));
        parts.map(|part| part.join().map_err(|_| "a thread of the job panicked"))
    });
    let mut ids = Vec::new();
    for part in made {
        ids.extend(part??);
    }
    generator.close()?;
    Ok(ids)
}

/// Mints the IDs of one thread. A failed batch fails the job; its IDs are merely skipped.
fn part(generator: &IdGenerator, rows: u32) -> Result<Vec<u64>, seqd_client::GenerateError> {
    let mut ids = Vec::with_capacity(rows as usize);
    while (ids.len() as u32) < rows {
        let count = ROWS.min(rows - ids.len() as u32);
        ids.extend(generator.ids(count)?.into_iter().map(|id| id.get()));
    }
    Ok(ids)
}

#[allow(dead_code, reason = "a story runs the rest in its own process")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let endpoints = arguments.next().ok_or("ENDPOINTS are missing")?;
    let rows = arguments.next().ok_or("ROWS are missing")?.parse()?;
    for id in run(&endpoints, rows)? {
        println!("{id}");
    }
    Ok(())
}
