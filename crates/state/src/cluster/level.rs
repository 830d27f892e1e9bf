//! The level of the cluster as a row, and the conditions for raising it.
//!
//! The leader requests the supported levels from every member, outside of the log. The command
//! carries the position of the membership that was polled. It is refused if another membership has
//! been applied by then, because a member that joined in between may be older.

use seqd_guards::is_out;
use serde::{Deserialize, Serialize};

use super::commands::{ClusterOutcome, ClusterRefusal};
use crate::level::{Level, LogPosition};
use crate::table::{Table, record};

/// The row of the level. A cluster without the row is at [`Level::FIRST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LevelRecord {
    pub(crate) level: Level,
}

record!(LevelRecord, kind 17, version 1, prefix b'e', key ());

impl Table<LevelRecord> {
    pub(crate) fn level(&self) -> Level {
        self.get(&()).map_or(Level::FIRST, |record| record.level)
    }

    pub(crate) fn raise(
        &mut self,
        to: Level,
        asked: LogPosition,
        membership: Option<LogPosition>,
    ) -> Result<ClusterOutcome, ClusterRefusal> {
        let level = self.level();
        if membership != Some(asked) && !is_out!(LevelUnderMembership) {
            return Err(ClusterRefusal::MembershipChanged { asked, membership });
        }
        if to != level.next() {
            return Err(ClusterRefusal::LevelOutOfOrder { to, level });
        }
        self.put((), LevelRecord { level: to });
        Ok(ClusterOutcome::LevelRaised { level: to })
    }
}
