//! Consensus: openraft over the write-ahead log, with sled checkpoints, snapshots and peers.
//!
//! The rest of seqd sees one handle, [`Raft`], and no openraft or sled type.

pub use seqd_state as state;

pub use crate::export::{Export, SnapshotError};
pub use crate::handle::{
    MemberError, MemberStatus, Options, Peer, Phase, ProposeError, Report, Role, Status, Stop,
    StorageStats,
};
pub use crate::raft::Raft;

mod checkpoint;
mod checkpointer;
mod disk_watch;
mod duties;
mod export;
mod folder;
mod founding;
mod gatherer;
mod handle;
mod hello;
mod identity;
mod latency;
mod local;
mod log_store;
mod machine;
mod members;
mod messages;
mod network;
pub mod offline;
mod paths;
mod peer_server;
mod peers;
mod raft;
mod records;
mod replica;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
mod snapshot_file;
mod staging;
mod stamping;
mod status;
mod storage;
mod succession;
mod transport;
mod types;

#[cfg(test)]
mod tests;
