//! One of many short-lived pods: it needs a worker for as long as it lives and gives it back, so
//! that a layout with few workers serves any number of pods one after another.
//!
//! `pod ENDPOINTS LAYOUT NAME` makes one ID and ends.

use std::error::Error;
use std::time::Duration;

use seqd_client::{Client, GenerateError, GeneratorOptions, IdGenerator, Options, parse_endpoints};

/// Longer than a window: a worker whose pod was killed is free again by then.
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
        // All workers were taken for the whole time: more pods live at once than the layout has
        // workers.
        Err(error @ GenerateError::WorkersExhausted { .. }) => Err(format!("{layout}: {error}")),
        Err(error) => Err(error.to_string()),
    };
    // Also after a failure: a worker that is given back serves the next pod at once.
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
