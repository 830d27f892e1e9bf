//! Rules that the compiler does not check: the dependencies between crates, the places where a
//! dependency may be named, the heads and lengths of files, and the agreement of documents and
//! code.
//!
//! Nothing is started here. The sources are read as text.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the helpers of tests are test code too: a panic with a message is how they fail"
)]

mod arrows;
mod contract;
mod damage;
mod deployment;
mod documents;
mod files;
mod format;
mod modules;
mod names;
mod pages;
mod sources;
