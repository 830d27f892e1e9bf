//! The deadlines of expiring records: one index for all tables.
//!
//! The index is derived from the records, so it is not stored. Only a record's own time decides
//! whether the record is live, never its presence in the index. A state that was loaded from its
//! rows therefore behaves like the state that wrote them.
//!
//! Each table has its own order, and an entry passes a bounded number of deadlines of each table
//! (see `most_passed` of `apply`). For a table that removes its expired records, this bound is part
//! of the replicated state: the index has exactly the records of the table, so every replica drops
//! the same records at the same entry.

use std::collections::{BTreeMap, BTreeSet};

use seqd_idgen::WallMs;

use crate::cluster::settings::Counter;
use crate::context::ApplyContext;
use crate::locks::tally::LockTally;
use crate::newtypes::{ClusterMs, TableKey};
use crate::table::{Record, Table, row_key};

/// The maximum number of deadlines per table that an entry passes, unless the entry creates more
/// records than this.
///
/// A million keys may expire in the same millisecond, and an entry that dropped all of them would
/// delay every later reply. Dropping this many, with the resulting writes, takes two milliseconds
/// of processor time. The following entries pass the rest; if no others are proposed, one follows
/// after each pause of ten milliseconds.
pub(crate) const PASSED_PER_ENTRY: usize = 256;

/// A record that expires at a cluster time.
pub(crate) trait Expiring: Record {
    /// Returns `None` if the record does not expire, or has expired and stays in the table.
    fn deadline(&self, key: &Self::Key, context: &ApplyContext<'_>) -> Option<ClusterMs>;

    /// Handles a record whose deadline has passed. The record's own times decide, because the index
    /// may contain the deadline of a record that was overwritten.
    fn pass(table: &mut Table<Self>, key: &Self::Key, passing: Passing<'_>);
}

/// The state that is available when a deadline passes, in addition to the table of the record.
pub(crate) struct Passing<'a> {
    /// The wall clock of the entry's stamp.
    pub(crate) stamp_wall_ms: WallMs,
    /// The applied cluster time.
    pub(crate) cluster_ms: ClusterMs,
    pub(crate) counter: &'a mut Table<Counter>,
    pub(crate) deadlines: &'a mut Deadlines,
    pub(crate) tally: &'a mut LockTally,
}

/// Returns the key of a row if the row belongs to this record's table.
pub(crate) fn key_of<R: Expiring>(row_key: &[u8]) -> Option<R::Key> {
    row_key.strip_prefix(&[R::PREFIX]).and_then(R::Key::read)
}

/// The key of a row, without spare capacity: the index may have millions.
type RowKey = Box<[u8]>;

/// The deadlines of each table, with the keys of their rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deadlines {
    tables: BTreeMap<u8, BTreeSet<(ClusterMs, RowKey)>>,
}

impl Deadlines {
    pub(crate) fn insert<R: Expiring>(&mut self, at: ClusterMs, key: &R::Key) {
        let table = self.tables.entry(R::PREFIX).or_default();
        table.insert((at, row_key::<R>(key).into()));
    }

    pub(crate) fn insert_all<R: Expiring>(&mut self, table: &Table<R>, context: &ApplyContext<'_>) {
        for (key, record) in table.iter() {
            if let Some(at) = record.deadline(key, context) {
                self.insert::<R>(at, key);
            }
        }
    }

    pub(crate) fn remove<R: Expiring>(&mut self, at: ClusterMs, key: &R::Key) {
        if let Some(table) = self.tables.get_mut(&R::PREFIX) {
            table.remove(&(at, row_key::<R>(key).into()));
        }
    }

    pub(crate) fn clear<R: Expiring>(&mut self) {
        self.tables.remove(&R::PREFIX);
    }

    pub(crate) fn next(&self) -> Option<ClusterMs> {
        let firsts = self.tables.values().filter_map(BTreeSet::first);
        firsts.map(|(at, _)| *at).min()
    }

    /// Removes deadlines up to `now` and returns the keys of their rows: for each table the
    /// earliest ones, at most `most`.
    pub(crate) fn pass(&mut self, now: ClusterMs, most: usize) -> Vec<RowKey> {
        let mut passed = Vec::new();
        for table in self.tables.values_mut() {
            for _ in 0..most {
                if table.first().is_none_or(|(at, _)| *at > now) {
                    break;
                }
                passed.extend(table.pop_first().map(|(_, key)| key));
            }
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::record::{WorkerKey, WorkerRecord};
    use seqd_idgen::WorkerId;

    fn key(worker: u32) -> WorkerKey {
        WorkerKey {
            layout: "default".to_owned(),
            worker: WorkerId(worker),
        }
    }

    #[test]
    fn an_entry_passes_a_bounded_number_and_the_next_one_the_rest() {
        let mut deadlines = Deadlines::default();
        for worker in 0..13 {
            deadlines.insert::<WorkerRecord>(ClusterMs(5), &key(worker));
        }
        deadlines.insert::<WorkerRecord>(ClusterMs(7), &key(0));
        assert_eq!(deadlines.pass(ClusterMs(4), 10), Vec::<RowKey>::new());
        assert_eq!(deadlines.pass(ClusterMs(6), 10).len(), 10);
        assert_eq!(
            deadlines.next(),
            Some(ClusterMs(5)),
            "the rest is due at once"
        );
        assert_eq!(deadlines.pass(ClusterMs(6), 10).len(), 3);
        assert_eq!(deadlines.next(), Some(ClusterMs(7)));
    }

    #[test]
    fn the_earliest_passes_first_and_a_removed_one_not_at_all() {
        let mut deadlines = Deadlines::default();
        for (at, worker) in [(9, 1), (3, 2), (6, 3)] {
            deadlines.insert::<WorkerRecord>(ClusterMs(at), &key(worker));
        }
        deadlines.remove::<WorkerRecord>(ClusterMs(6), &key(3));
        let passed = deadlines.pass(ClusterMs(9), 10);
        assert_eq!(
            passed,
            [key(2), key(1)].map(|key| row_key::<WorkerRecord>(&key).into())
        );
        assert_eq!(deadlines.next(), None);
    }
}
