//! Data derived from the locks: counts, and the waits that the last entry ended.

use super::record::LockRecord;
use crate::table::Table;
use crate::waits::Wait;

/// The numbers of locks and claims, and counts of events since this state was created or loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockCounts {
    /// Records: locks that are held, waited for or delayed.
    pub locks: u64,
    pub holders: u64,
    pub waiters: u64,
    pub granted: u64,
    /// Expired holds.
    pub expired: u64,
}

/// Derived from the rows, except the waits, which the last entry ended, and the counts of events.
#[derive(Debug, Clone, Default)]
pub(crate) struct LockTally {
    pub(crate) counts: LockCounts,
    pub(crate) ended: Vec<Wait>,
}

impl LockTally {
    pub(crate) fn of(locks: &Table<LockRecord>) -> Self {
        let mut tally = Self::default();
        for (_, record) in locks.iter() {
            tally.counts.locks += 1;
            tally.counts.holders += record.holders.len() as u64;
            tally.counts.waiters += record.waiters.len() as u64;
        }
        tally
    }

    /// Updates the counts after the claims of one lock changed. The pairs are (holders, waiters).
    pub(crate) fn moved(&mut self, before: (u64, u64), after: (u64, u64)) {
        let counts = &mut self.counts;
        counts.holders = counts.holders.saturating_sub(before.0) + after.0;
        counts.waiters = counts.waiters.saturating_sub(before.1) + after.1;
    }
}
