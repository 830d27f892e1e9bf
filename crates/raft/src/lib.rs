//! Consensus: openraft over the write-ahead log, with sled checkpoints, snapshots and peers.
//!
//! The rest of seqd uses one handle, [`Raft`], and no openraft or sled type.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `clocks`, `latency`, `leader_windows`, `pool`, `quorum`, `round_robin`, `rounds`, `transfers`,
//!   `turns`: shared values
//! - `handle`: the types of the handle
//! - `platform`, `peer_stops`: tasks and random numbers, and stops that a peer's reply causes
//! - `blocking`, `types`: blocking calls, and the types with which openraft is instantiated
//! - `batch`, `contact`, `draining`, `records`, `space`: limits and records of the data that passes
//!   openraft, and marks of a node
//! - `messages`, `storage`: the messages between nodes, and a replica's storage
//! - `diagnosis`, `disk_health`, `other_cluster`: the state of a node's links and of its disk, and
//!   the existing cluster that it has met
//! - `context`, `openraft_config`: the state that every module may read; it excludes the replica
//! - `handshake`: the exchange of hellos between two starts
//! - `conversation`: messages between nodes that have introduced themselves
//! - `network`: openraft's messages to peers
//! - `replica`: openraft on all of these
//! - `bootstrap`, `confirm`, `leadership`, `node`, `stopping_together`: the parts of a node around
//!   its replica, and confirmations of its leadership
//! - `proposer`, `draws`, `status`: proposals and reads, and the status that a node reports
//! - `doctor_facts`, `export`, `membership`: backups, and changes of the members
//! - `tasks`: the background tasks of a running node
//! - `receive`: the peers' port
//! - `start`: the order of a start
//! - `raft`: the handle

pub use seqd_peers::levels::LevelRange;
pub use seqd_peers::wire::dialer::{peer_transport, secure_peer_transport};
pub use seqd_peers::wire::server::answer_without_tls;
pub use seqd_peers::wire::transport::Transport;
pub use seqd_state as state;
pub use seqd_store::stop::{Stop, StopReason};

pub use crate::clocks::{Clocks, MemberClock};
pub use crate::diagnosis::FactsSource;
pub use crate::draws::DrawError;
pub use crate::export::{Export, Pieces, SnapshotError};
pub use crate::handle::{
    ChangeOfMembers, LinkStatus, MAY_BE_BEHIND, MemberError, MemberStatus, NodeReport, Options,
    Peer, Phase, ProposeError, Role, Settings, Status, StorageStats,
};
#[cfg(any(test, fuzzing))]
pub use crate::messages::fuzz;
pub use crate::pool::{Part, Pool};
pub use crate::proposer::route::wait_until;
pub use crate::raft::Raft;
pub use crate::round_robin::RoundRobin;
pub use crate::turns::{Turn, Turns};

mod batch;
mod blocking;
mod bootstrap;
mod clocks;
mod confirm;
mod contact;
mod context;
mod conversation;
mod diagnosis;
mod disk_health;
mod doctor_facts;
mod draining;
mod draws;
mod export;
mod handle;
mod handshake;
#[cfg(test)]
#[path = "../../../tests/fuzz/kept.rs"]
mod kept;
mod latency;
mod leader_windows;
mod leadership;
mod membership;
mod messages;
mod network;
mod node;
mod openraft_config;
mod other_cluster;
mod peer_stops;
mod platform;
mod pool;
mod proposer;
mod quorum;
mod raft;
mod receive;
mod records;
mod replica;
mod round_robin;
mod rounds;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod simulated_cluster;
#[cfg(test)]
mod simulation;
mod space;
mod start;
mod status;
mod stopping_together;
mod storage;
mod tasks;
mod transfers;
mod turns;
mod types;

#[cfg(test)]
mod tests;
