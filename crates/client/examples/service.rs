//! A long-running service: one generator for the lifetime of the process, shared by all of its
//! tasks.
//!
//! `service ENDPOINTS ORDERS` mints one ID per order and exits.

use std::error::Error;
use std::sync::Arc;

use seqd_client::{Client, GenerateError, GeneratorOptions, IdGenerator, Options, parse_endpoints};

/// The response to a request of the service.
enum Answer {
    Created(u64),
    /// Status 503. The reason contains a time, so that an operator can act before it.
    Later(String),
}

async fn order(generator: &IdGenerator) -> Answer {
    match generator.id().await {
        Ok(id) => Answer::Created(id.get()),
        // A child process must not use its parent's generator, so this is a bug in the program.
        Err(error @ GenerateError::Forked { .. }) => panic!("{error}"),
        Err(error) => Answer::Later(error.to_string()),
    }
}

pub(crate) async fn run(endpoints: &str, orders: usize) -> Result<Vec<u64>, Box<dyn Error>> {
    let client = Client::new(Options {
        endpoints: parse_endpoints(endpoints, false)?,
        ..Options::default()
    })?;
    // The name of the host or of the pod: after a clean end it gets its worker back.
    let generator = IdGenerator::start(client, GeneratorOptions::new("orders-1"))?;
    // A service that cannot make IDs at its start should not call itself ready.
    generator.ready().await?;
    let generator = Arc::new(generator);
    let mut tasks = Vec::new();
    for _ in 0..orders {
        let generator = Arc::clone(&generator);
        tasks.push(tokio::spawn(async move { order(&generator).await }));
    }
    let mut made = Vec::new();
    for task in tasks {
        match task.await? {
            Answer::Created(id) => made.push(id),
            Answer::Later(why) => eprintln!("503: {why}"),
        }
    }
    // For the health check: the time until which it mints, whatever happens to the cluster.
    let status = generator.status();
    eprintln!("worker {:?} until {:?}", status.worker, status.window_ends);
    // At the end of the process. Without it the worker is free only after the end of its window.
    generator.close().await?;
    Ok(made)
}

#[tokio::main]
#[allow(dead_code, reason = "a story runs the rest in its own process")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let endpoints = arguments.next().ok_or("ENDPOINTS are missing")?;
    let orders = arguments.next().ok_or("ORDERS are missing")?.parse()?;
    for id in run(&endpoints, orders).await? {
        println!("{id}");
    }
    Ok(())
}
