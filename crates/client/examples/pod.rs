//! A short-lived pod, which leases a worker for its lifetime and releases it. A layout with few
//! workers can thus serve any number of pods in sequence.
//!
//! `pod ENDPOINTS LAYOUT NAME` mints one ID and exits.

use std::error::Error;
use std::time::Duration;

use seqd_client::{Client, GenerateError, GeneratorOptions, IdGenerator, Options, parse_endpoints};

/// Longer than a window: the worker of a killed pod is free again by then.
const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) async fn run(endpoints: &str, layout: &str, name: &str) -> Result<u64, Box<dyn Error>> {
    let client = Client::new(Options {
        endpoints: parse_endpoints(endpoints, false)?,
        ..Options::default()
    })?;
    let options = GeneratorOptions {
        layout: layout.to_owned(),
        patience: PATIENCE,
        ..GeneratorOptions::new(name)
    };
    let generator = IdGenerator::start(client, options)?;
    let made = match generator.id().await {
        Ok(id) => Ok(id.get()),
        // All workers were leased for the whole time: more pods run concurrently than the layout
        // has workers.
        Err(error @ GenerateError::WorkersExhausted { .. }) => Err(format!("{layout}: {error}")),
        Err(error) => Err(error.to_string()),
    };
    // Also after a failure: a released worker is available to the next pod immediately.
    generator.close().await?;
    Ok(made?)
}

#[tokio::main]
#[allow(dead_code, reason = "a story runs the rest in its own process")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or(format!("{what} is missing"));
    let (endpoints, layout, name) = (next("ENDPOINTS")?, next("LAYOUT")?, next("NAME")?);
    println!("{}", run(&endpoints, &layout, &name).await?);
    Ok(())
}
