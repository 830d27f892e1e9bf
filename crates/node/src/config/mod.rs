//! The configuration: typed, checked, and each value with its origin.
//!
//! Flag over environment over file over default, for every key. [`Layers`] merges texts;
//! `checks` turns the merged texts into the typed [`Config`] and refuses what cannot work, with
//! what is allowed. Nothing here reads a file or a variable by itself: the caller hands them in.

mod checks;
pub mod keys;
mod layers;
mod take;
#[cfg(test)]
mod tests;
mod write;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use layers::{Entry, Layers, Origin, Resolved};
pub use write::{founding_file, show};

/// Everything that a node is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[node]`
    pub node: NodeSection,
    /// `[http]`
    pub http: HttpSection,
    /// `[peer]`
    pub peer: PeerSection,
    /// `[raft]`
    pub raft: RaftSection,
    /// `[clock]`
    pub clock: ClockSection,
    /// `[segment]`
    pub segment: SegmentSection,
    /// `[log]`
    pub log: LogSection,
    /// All keys with values and origins, for `/v1/config`.
    pub entries: Vec<Entry>,
}

/// `[node]`: who this node is.
#[derive(Clone, Debug)]
pub struct NodeSection {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub data_dir: PathBuf,
    /// Its datacenter, for layouts that have one.
    pub datacenter: u32,
    /// Worker threads; 0 is one per core.
    pub threads: usize,
}

/// `[http]`: the clients' side.
#[derive(Clone, Debug)]
pub struct HttpSection {
    /// Where clients are served.
    pub listen: SocketAddr,
    /// `http://HOST:PORT` as clients reach it.
    pub advertise: String,
    /// Most IDs per request.
    pub max_count: u32,
    /// How long a request may take.
    pub request_timeout: Duration,
}

/// `[peer]`: the other nodes' side.
#[derive(Clone, Debug)]
pub struct PeerSection {
    /// Where peers are heard.
    pub listen: SocketAddr,
    /// `HOST:PORT` as peers reach it.
    pub advertise: String,
    /// The founding nodes as (name, `HOST:PORT`).
    pub peers: Vec<(String, String)>,
}

/// `[raft]`: consensus.
#[derive(Clone, Debug)]
pub struct RaftSection {
    /// Time between heartbeats.
    pub heartbeat: Duration,
    /// Shortest and longest election timeout.
    pub election: (Duration, Duration),
    /// Entries between two snapshots.
    pub snapshot_every: u64,
}

/// `[clock]`: minting and time.
#[derive(Clone, Debug)]
pub struct ClockSection {
    /// Length of a minting window. Replicated at founding; the replicated one counts.
    pub window: Duration,
    /// Rollbacks up to this are waited for.
    pub max_backward_wait: Duration,
    /// Whether a longer rollback goes on in logical time, inside the window.
    pub continue_on_rollback: bool,
    /// Jumps beyond this are not believed.
    pub max_forward_jump: Duration,
    /// Largest tolerated difference of two clocks. Replicated at founding.
    pub max_peer_skew: Duration,
}

/// `[segment]`: what a sequence gets whose definition says nothing else.
#[derive(Clone, Debug)]
pub struct SegmentSection {
    /// How long a segment should last.
    pub target: Duration,
    /// Smallest segment.
    pub min: u64,
    /// Largest segment.
    pub max: u64,
}

/// `[log]`: what is written to stderr.
#[derive(Clone, Debug)]
pub struct LogSection {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: String,
    /// How lines are written.
    pub format: LogFormat,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// Text.
    Text,
    /// JSON.
    Json,
}

/// Why a configuration is refused; the message says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file is not TOML.
    #[error("{path}: {detail}")]
    NotToml {
        /// The file.
        path: String,
        /// Where and why.
        detail: String,
    },
    /// No such key.
    #[error("{origin}: unknown key {key}{hint}")]
    UnknownKey {
        /// Where it was given.
        origin: String,
        /// What was given.
        key: String,
        /// The nearest key, as a sentence; may be empty.
        hint: String,
    },
    /// A value that cannot be used.
    #[error("{key} = {value} ({origin}): {allowed}")]
    Value {
        /// The key.
        key: &'static str,
        /// What was given.
        value: String,
        /// Where it was given.
        origin: String,
        /// What is allowed.
        allowed: String,
    },
    /// A key that has to be given.
    #[error("{key} is not set: {how}")]
    Missing {
        /// The key.
        key: &'static str,
        /// How to set it.
        how: String,
    },
}
