//! HTTP's translation of the services, one file a family: a request into a call, its result into a
//! response. [`problems`] has all errors, [`routes`] all paths. Nothing is decided here.

mod access;
mod cluster;
mod costly;
#[cfg(test)]
mod example;
mod ids;
mod keyed;
mod keys;
mod layouts;
mod locks;
mod node;
mod one_time;
mod problems;
mod routes;
mod segments;
mod sequences;
mod snapshot;
mod uuids;
mod workers;

pub(crate) use routes::Router;

use seqd_api::Problem;

/// Refuses `count` where the path gives one value.
fn no_count(count: Option<u64>, plural: &str, known: &[&str]) -> Result<(), Problem> {
    if count.is_none() {
        return Ok(());
    }
    let known: Vec<&str> = known
        .iter()
        .copied()
        .filter(|key| *key != "count")
        .collect();
    Err(seqd_api::request::unknown("count", "query key", &known)
        .with_hint(format!("{plural} takes a count")))
}
