//! Consensus: openraft over the write-ahead log, with sled checkpoints, snapshots and peers.
//!
//! The rest of seqd sees one handle, [`Raft`], and no openraft or sled type.

pub use seqd_state as state;

pub use crate::handle::{
    MemberError, MemberStatus, Options, Peer, Phase, ProposeError, Report, Role, Status, Stop,
    StorageStats,
};
pub use crate::raft::Raft;
pub use crate::storage::export::{Export, SnapshotError};

mod duties;
mod founding;
mod gatherer;
mod handle;
mod identity;
mod latency;
mod local;
mod members;
pub mod offline;
mod peers;
mod raft;
mod records;
mod replica;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
mod stamping;
mod status;
mod storage;
mod succession;
mod types;
mod wire;

#[cfg(test)]
mod tests;
