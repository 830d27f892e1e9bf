//! The server: assembles a node from its parts, reads the system clock and serves HTTP.
//!
//! [`Node::start`] is the only way to assemble a node. The binary, the demo and the tests all use
//! it. [`Ports`] contains everything that a test may replace.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `clock`, `clock_steps`, `config`, `connections`, `descriptors`, `durations`, `log_lines`,
//!   `metrics`, `times`: the environment, with clock, configuration, sockets and counters
//! - `access`, `admission`, `codes`, `http`, `ports`, `replica`, `tls`: authentication, the checks
//!   that every request passes, the parsing of requests, and consensus as a trait
//! - `places`, `sequences`, `minting`: IDs and segments from memory
//! - `drain`, `runs_out`, `services`, `trends`: each request, without HTTP
//! - `problems`: the errors of services as clients see them
//! - `handlers`, `protocols`, `report`: from HTTP and other protocols to services and back
//! - `node`: start and stop

mod access;
mod admission;
mod clock;
mod clock_steps;
mod codes;
pub mod config;
mod connections;
mod descriptors;
mod drain;
mod durations;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod handlers;
mod http;
#[cfg(test)]
#[path = "../../../tests/fuzz/kept.rs"]
mod kept;
mod log_lines;
mod metrics;
mod minting;
mod node;
mod places;
mod ports;
mod problems;
mod protocols;
mod replica;
mod report;
mod runs_out;
mod sequences;
mod services;
#[cfg(test)]
mod test_replica;
mod times;
mod tls;
mod trends;

/// The revision that this program was built from, if it is known.
pub const REVISION: Option<&str> = option_env!("SEQD_REVISION");

pub use access::{check_tokens, new_secret};
pub use clock::OsClock;
pub use config::{Config, ConfigError, Layers, Resolved};
pub use descriptors::Descriptors;
pub use minting::last_tick::last_minted_ms;
pub use node::{Node, Step};
pub use ports::{Ports, ProtocolListeners};
pub use seqd_raft::{Stop, StopReason};
pub use tls::Tls;
