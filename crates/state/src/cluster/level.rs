//! The level of the cluster as a row, and when it may be raised.
//!
//! Whether every member can read what a level brings is asked outside of the log, so the answer is
//! one for the members that were there then. The command therefore carries the position of the
//! membership that was asked, and nothing is raised if another one is applied by the time that the
//! command is: a member that joined in between may be older.

use serde::{Deserialize, Serialize};

use super::commands::{ClusterOutcome, ClusterRefusal};
use crate::level::{Level, LogPosition};
use crate::table::{Table, singleton};

/// The level that was raised to. A cluster without the row is at [`Level::FIRST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LevelRecord {
    pub(crate) level: Level,
}

singleton!(LevelRecord, kind 17, version 1, prefix b'e');

impl Table<LevelRecord> {
    pub(crate) fn level(&self) -> Level {
        self.get(&()).map_or(Level::FIRST, |record| record.level)
    }

    /// Raises the level by one, if the members that were asked are those that there are.
    pub(crate) fn raise(
        &mut self,
        to: Level,
        asked: LogPosition,
        membership: Option<LogPosition>,
    ) -> Result<ClusterOutcome, ClusterRefusal> {
        let level = self.level();
        if membership != Some(asked) {
            return Err(ClusterRefusal::MembershipChanged { asked, membership });
        }
        if to != level.next() {
            return Err(ClusterRefusal::LevelOutOfOrder { to, level });
        }
        self.put((), LevelRecord { level: to });
        Ok(ClusterOutcome::LevelRaised { level: to })
    }
}
