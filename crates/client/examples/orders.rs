//! A service without an async runtime that numbers its orders from memory.
//!
//! `orders ENDPOINTS COUNT` draws COUNT values of the sequence `order`, which must exist, on two
//! threads, and prints them.

use std::error::Error;
use std::num::NonZeroU32;
use std::thread;

use seqd_client::blocking::{Chunk, SequenceAllocator};
use seqd_client::{AllocateError, AllocatorOptions, Client, Options, parse_endpoints};

/// The values that a thread takes at once.
const CHUNK: NonZeroU32 = NonZeroU32::new(64).unwrap();

pub(crate) fn run(endpoints: &str, count: u32) -> Result<Vec<i64>, Box<dyn Error>> {
    let client = Client::new(Options {
        endpoints: parse_endpoints(endpoints, false)?,
        ..Options::default()
    })?;
    let allocator = SequenceAllocator::start(client, "order", AllocatorOptions::default())?;
    // A service that has no value at its start should not call itself ready.
    allocator.ready()?;
    let shared = &allocator;
    let drawn = thread::scope(|scope| {
        let threads = [count / 2, count - count / 2].map(|half| {
            scope.spawn(move || {
                let mut chunk = Chunk::new(shared, CHUNK);
                let values = (0..half).map(|_| chunk.next());
                values.collect::<Result<Vec<i64>, AllocateError>>()
            })
        });
        threads.map(|thread| {
            thread
                .join()
                .map_err(|_| "a thread of the service panicked")
        })
    });
    let mut values = Vec::new();
    for part in drawn {
        values.extend(part??);
    }
    let closed = allocator.close();
    if let Some(why) = closed.why {
        eprintln!("{} values are lost: {why}", closed.lost);
    }
    Ok(values)
}

#[allow(dead_code, reason = "a story runs the rest in its own process")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let endpoints = arguments.next().ok_or("ENDPOINTS are missing")?;
    let count = arguments.next().ok_or("COUNT is missing")?.parse()?;
    for value in run(&endpoints, count)? {
        println!("{value}");
    }
    Ok(())
}
