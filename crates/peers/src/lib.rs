//! Peers: framed connections between nodes, and the records that a node keeps about the starts of
//! other nodes.
//!
//! This crate does not depend on openraft: a message is bytes after an envelope, and its receiver
//! is a [`Handler`](wire::incoming::Handler).
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - [`watched`], [`tasks`], [`levels`]: a value that tasks wait for, how tasks start, the levels
//!   of format that a program supports
//! - [`clock`], [`table`]: a peer's clock, and the positions that each node has acknowledged
//! - [`starts`], [`file`](mod@file): the starts of peers that were introduced, and the file `peers`
//! - [`wire`]: envelopes, frames, connections, the peers' port

pub mod clock;
pub mod file;
#[cfg(test)]
#[path = "../../../tests/fuzz/kept.rs"]
mod kept;
pub mod levels;
pub mod starts;
pub mod table;
pub mod tasks;
pub mod watched;
pub mod wire;
