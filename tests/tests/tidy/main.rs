//! What the compiler does not hold: the arrows between crates, where a dependency may be named,
//! how files open and how long they grow, and that the documents match the code.
//!
//! Nothing is started here; the sources are read as text.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the helpers of tests are test code too: a panic with a message is how they fail"
)]

mod arrows;
mod contract;
mod damage;
mod documents;
mod files;
mod format;
mod modules;
mod names;
mod sources;
