//! What is derived from the locks: their numbers, and the waits that the last entry ended.

use super::record::LockRecord;
use crate::table::Table;
use crate::waits::Wait;

/// How many there are, and how often what happened since this state was made or loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockCounts {
    /// Records: locks that are held, waited for or delayed.
    pub locks: u64,
    pub holders: u64,
    pub waiters: u64,
    pub granted: u64,
    /// Holds that ran out.
    pub expired: u64,
}

/// Follows from the rows, but for the ended waits, which are those of the last entry, and for what
/// happened.
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

    /// The claims of one lock changed from as many holders and waiters to as many.
    pub(crate) fn moved(&mut self, before: (u64, u64), after: (u64, u64)) {
        let counts = &mut self.counts;
        counts.holders = counts.holders.saturating_sub(before.0) + after.0;
        counts.waiters = counts.waiters.saturating_sub(before.1) + after.1;
    }
}
