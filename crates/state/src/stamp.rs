//! The two times that an entry carries.
//!
//! `apply` reads no clock: the leader stamps every entry, so all replicas see the same times. Fences
//! are compared with `wall_ms`, the leader's wall clock. Leases expire by `cluster_ms`, a clock that
//! only the cluster has, so that no step of a wall clock can end or freeze one.

use seqd_idgen::WallMs;
use serde::{Deserialize, Serialize};

use crate::newtypes::ClusterMs;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stamp {
    /// The leader's wall clock, in Unix milliseconds.
    #[serde(with = "crate::foreign::wall_ms")]
    pub wall_ms: WallMs,
    /// The cluster's own clock; `apply` takes the maximum, so it never falls.
    pub cluster_ms: ClusterMs,
}
