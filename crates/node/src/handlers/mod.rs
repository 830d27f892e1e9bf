//! The HTTP adapter of the services. [`table`] connects each operation with its service; the other
//! files contain operations whose requests or responses have a form of their own. This module makes
//! no decisions.

mod compat;
mod costly;
#[cfg(test)]
mod example;
mod ids;
mod keyed;
mod layouts;
mod node;
mod pages;
mod routes;
mod sequences;
mod snapshot;
mod table;
mod uuids;

pub(crate) use routes::Router;

use seqd_api::Problem;

/// Refuses `count` if the path returns one value.
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
