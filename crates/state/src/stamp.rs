//! The two timestamps of an entry.
//!
//! `apply` reads no clock: the leader stamps every entry, so all replicas see the same times.
//! Fences are compared with `wall_ms`, the leader's wall clock. Leases expire by `cluster_ms`, a
//! clock that exists only in the cluster, so that no step of a wall clock can end or freeze a
//! lease.

use seqd_idgen::WallMs;
use serde::{Deserialize, Serialize};

use crate::newtypes::ClusterMs;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stamp {
    /// The leader's wall clock, in Unix milliseconds.
    #[serde(with = "crate::foreign::WallMsDef")]
    pub wall_ms: WallMs,
    /// The cluster's own clock. `apply` takes the maximum, so it never decreases.
    pub cluster_ms: ClusterMs,
}
