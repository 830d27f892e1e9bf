//! When records expire: one index for all tables whose records do.
//!
//! The index follows from the records, so it is not stored. Whether a record is live is decided by
//! its own time alone, never by whether the index still has it: so a state that was read back from
//! its rows behaves as the one that wrote them.
//!
//! Each table has an order of its own and drops a bounded number at an entry (see `most_passed` of `apply`).
//! For a table that removes its expired records this is a part of the replicated state: what it has
//! in the index are exactly its records, so every replica drops the same ones at the same entry.

use std::collections::{BTreeMap, BTreeSet};

use seqd_idgen::WallMs;

use crate::cluster::settings::Counter;
use crate::context::ApplyContext;
use crate::locks::tally::LockTally;
use crate::newtypes::ClusterMs;
use crate::table::{Record, Table, row_key};

/// The most deadlines of one table that an entry passes which makes fewer records than that.
///
/// A million keys may end in the same millisecond, and an entry that dropped them all would hold up
/// every reply behind it. With what is written behind them so many take two milliseconds of a
/// processor; the entries that follow pass the rest, one after each pause of ten milliseconds where
/// there are no others.
pub(crate) const PASSED_PER_ENTRY: usize = 256;

/// A record that ends at some cluster time.
pub(crate) trait Expiring: Record {
    /// `None` if the record has no end, or has ended and stays.
    fn deadline(&self, key: &Self::Key, context: &ApplyContext<'_>) -> Option<ClusterMs>;

    /// What becomes of a record whose deadline has passed. Decided by the record's own times: the index
    /// may have a deadline of one that was overwritten.
    fn pass(table: &mut Table<Self>, key: &Self::Key, passing: Passing<'_>);
}

/// What is at hand where a deadline passes, beside the table whose record it is of.
pub(crate) struct Passing<'a> {
    /// The wall clock of the entry.
    pub(crate) stamp_wall_ms: WallMs,
    /// The applied cluster time.
    pub(crate) cluster_ms: ClusterMs,
    pub(crate) counter: &'a mut Table<Counter>,
    pub(crate) deadlines: &'a mut Deadlines,
    pub(crate) tally: &'a mut LockTally,
}

/// The key of a row, if it is one of this record's table.
pub(crate) fn key_of<R: Expiring>(row_key: &[u8]) -> Option<R::Key> {
    row_key.strip_prefix(&[R::PREFIX]).and_then(R::read_key)
}

/// The deadlines of all tables, each by its rows' keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deadlines {
    tables: BTreeMap<u8, BTreeSet<(ClusterMs, Vec<u8>)>>,
}

impl Deadlines {
    pub(crate) fn insert<R: Expiring>(&mut self, at: ClusterMs, key: &R::Key) {
        let table = self.tables.entry(R::PREFIX).or_default();
        table.insert((at, row_key::<R>(key)));
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
            table.remove(&(at, row_key::<R>(key)));
        }
    }

    pub(crate) fn clear<R: Expiring>(&mut self) {
        self.tables.remove(&R::PREFIX);
    }

    pub(crate) fn next(&self) -> Option<ClusterMs> {
        let firsts = self.tables.values().filter_map(BTreeSet::first);
        firsts.map(|(at, _)| *at).min()
    }

    /// Removes deadlines up to `now` and returns their rows' keys: of each table the earliest first,
    /// and so many at most.
    pub(crate) fn pass(&mut self, now: ClusterMs, most: usize) -> Vec<Vec<u8>> {
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
        assert_eq!(deadlines.pass(ClusterMs(4), 10), Vec::<Vec<u8>>::new());
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
            [key(2), key(1)].map(|key| row_key::<WorkerRecord>(&key))
        );
        assert_eq!(deadlines.next(), None);
    }
}
