//! The record of a restored cluster, and the stamp of its start. See `restore`.

use seqd_guards::is_out;
use seqd_idgen::{Layout, Tick, WallMs};
use serde::{Deserialize, Serialize};

use super::commands::{ClusterOutcome, ClusterRefusal};
use super::settings::{Counter, Settings};
use crate::table::{Table, record};

/// More draws from the counter than any cluster makes in a millisecond, as a power of two. A wall
/// clock multiplied by it is therefore above every number drawn until then.
const DRAWS_PER_MS_BITS: u32 = 20;

/// The latest wall clock that can be stamped, in Unix milliseconds: the year 2248. It leaves half
/// of the counter's range, so that an absurd clock cannot use up the rest.
pub(crate) const MAX_STAMP_MS: u64 = (1 << (63 - DRAWS_PER_MS_BITS)) - 1;

/// The record of a restored cluster. Never removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestorationRecord {
    pub from_cluster: String,
    /// The clusters that this one replaces. Empty for a rehearsal.
    pub ancestors: Vec<String>,
    /// The wall clock of the last entry in the backup.
    #[serde(with = "crate::foreign::WallMsDef")]
    pub backup_wall_ms: WallMs,
    pub stamped: bool,
    /// The windows of all workers begin one window and four skews after this time. 0 before the
    /// first stamp.
    #[serde(with = "crate::foreign::WallMsDef")]
    pub stamped_wall_ms: WallMs,
}

record!(RestorationRecord, kind 16, version 1, prefix b'd', key ());

impl RestorationRecord {
    /// Returns the first tick of this layout's windows, which is past every fence that the old
    /// cluster can have granted.
    #[must_use]
    pub fn windows_from(&self, settings: &Settings, layout: &Layout) -> Tick {
        let reach_ms = settings.window_ms_for(layout) + 4 * settings.max_peer_skew_ms;
        layout.fence_at(WallMs(self.stamped_wall_ms.0.saturating_add(reach_ms)))
    }
}

impl Table<RestorationRecord> {
    /// Stamps the start time. A repeated stamp changes nothing.
    pub(crate) fn stamp(
        &mut self,
        counter: &mut Table<Counter>,
        skew_ms: u64,
        wall_ms: WallMs,
    ) -> Result<ClusterOutcome, ClusterRefusal> {
        let Some(record) = self.get_mut(&()) else {
            return Err(ClusterRefusal::NotRestored);
        };
        if record.stamped {
            let wall_ms = record.stamped_wall_ms;
            return Ok(ClusterOutcome::RestorationStamped { wall_ms });
        }
        let from = record.backup_wall_ms.max(record.stamped_wall_ms);
        if wall_ms < from || wall_ms.0 > MAX_STAMP_MS {
            let to = WallMs(MAX_STAMP_MS);
            return Err(ClusterRefusal::StampOutOfRange { wall_ms, from, to });
        }
        let since_ms = wall_ms.0 - record.backup_wall_ms.0;
        record.stamped = true;
        record.stamped_wall_ms = wall_ms;
        // All numbers that the old cluster drew are below its clock in milliseconds times the draws
        // per millisecond. A cluster that was itself restored started from such a number, so its
        // draws since then are added.
        let counter = counter.entry((), Counter::default);
        let drawn_since = (since_ms + 4 * skew_ms).saturating_mul(1 << DRAWS_PER_MS_BITS);
        if !is_out!(RestorationRaisesTokens) {
            counter.last =
                (counter.last.saturating_add(drawn_since)).max(wall_ms.0 << DRAWS_PER_MS_BITS);
        }
        Ok(ClusterOutcome::RestorationStamped { wall_ms })
    }
}
