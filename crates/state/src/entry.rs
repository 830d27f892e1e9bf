//! The times that an entry carries, and the entry itself.
//!
//! `apply` reads no clock: the leader stamps every entry with two times, and all replicas see the
//! same. `wall_ms` is the leader's wall clock; fences are judged by it, and dates shown to people
//! come from it. `cluster_ms` is a clock that only the cluster has; leases expire by it, so that no
//! step of a wall clock can end or freeze one.

use seqd_idgen::WallMs;
use serde::{Deserialize, Serialize};

use crate::codec::Versioned;
use crate::command::Command;
use crate::newtypes::ClusterMs;

/// The most commands in one entry.
///
/// Commands are gathered while the entry before is on its way; four thousand of them take a few
/// milliseconds to apply, so a single entry never delays its followers noticeably.
pub const MAX_COMMANDS_PER_ENTRY: usize = 4096;

/// Both times, as the leader saw them when it proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stamp {
    /// The leader's wall clock, in Unix milliseconds.
    #[serde(with = "crate::foreign::wall_ms")]
    pub wall_ms: WallMs,
    /// The cluster's own clock; `apply` takes the maximum, so it never falls.
    pub cluster_ms: ClusterMs,
}

/// What one log entry asks of the state. Without commands it only brings the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was proposed.
    pub stamp: Stamp,
    /// What to do, in order.
    pub commands: Vec<Command>,
}

impl Versioned for Entry {
    const KIND: u8 = 1;
    const VERSION: u8 = 1;
}
