//! Consensus: openraft over the write-ahead log, with sled checkpoints, snapshots and peers.
//!
//! The rest of seqd sees one handle, [`Raft`], and no openraft or sled type.

pub use seqd_state as state;
pub use seqd_store::stop::{Stop, StopReason};

pub use crate::clocks::{Clocks, MemberClock};
pub use crate::export::{Export, Pieces, SnapshotError};
pub use crate::handle::{
    ChangeOfMembers, MAY_BE_BEHIND, MemberError, MemberStatus, Options, Peer, Phase, ProposeError,
    Report, Role, Settings, Status, StorageStats,
};
pub use crate::levels::LevelRange;
pub use crate::pool::{Part, Pool};
pub use crate::raft::Raft;
pub use crate::round_robin::RoundRobin;
pub use crate::turns::{Turn, Turns};
pub use crate::wire::dialer::{peer_transport, secure_peer_transport};
#[cfg(any(test, fuzzing))]
pub use crate::wire::fuzz;
pub use crate::wire::route::Route;
pub use crate::wire::server::answer_without_tls;
pub use crate::wire::transport::{
    Answering, CallError, Limit, Link, Payload, Rejection, RejectionCode, Transport,
};

mod batch;
mod blocking;
mod bootstrap;
mod clocks;
mod contact;
mod context;
mod conversation;
mod export;
mod handle;
mod handshake;
#[cfg(test)]
#[path = "../../../fuzz/kept.rs"]
mod kept;
mod latency;
mod leadership;
mod levels;
mod membership;
mod network;
mod node;
mod openraft_config;
mod peer_stops;
mod peers;
mod platform;
mod pool;
mod proposer;
mod raft;
mod receive;
mod records;
mod replica;
mod round_robin;
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
mod watched;
mod wire;

#[cfg(test)]
mod tests;
