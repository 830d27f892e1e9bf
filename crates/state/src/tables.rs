//! The registry of the replicated tables. Rows, changes, the digest, loading and deadlines all
//! follow from one line per table.

use seqd_idgen::WallMs;

use crate::access::AccessRecord;
use crate::cluster::level::LevelRecord;
use crate::cluster::nodes::NodeRecord;
use crate::cluster::resets::ResetRecord;
use crate::cluster::restoration::RestorationRecord;
use crate::cluster::secret::Secret;
use crate::cluster::settings::{Clock, Counter, Settings};
use crate::cluster::timestamps::{MAX_TIMESTAMPS_AHEAD_MS, TimestampBound};
use crate::context::ApplyContext;
use crate::deadlines::{Deadlines, Expiring, Passing, key_of};
use crate::keys::record::KeyRecord;
use crate::layouts::LayoutRecord;
use crate::level::Level;
use crate::locks::record::LockRecord;
use crate::locks::tally::LockTally;
use crate::newtypes::TableKey;
use crate::row::{Row, RowChange, RowError, Undrained};
use crate::sequences::record::SequenceRecord;
use crate::table::{Record, Table};
use crate::tenant::Tenant;
use crate::tokens::record::OneTimeRecord;
use crate::workers::past::{PastLease, PastStart};
use crate::workers::record::WorkerRecord;

/// The prefixes increase from line to line, so that all rows come in the order of their keys. `as
/// expiring` marks a record that implements [`crate::deadlines::Expiring`].
macro_rules! tables {
    ($(
        $(#[doc = $about:literal])*
        $(#[cfg($($when:tt)*)])?
        $table:ident: $record:ty $(as $expiring:ident)?,
    )*) => {
        #[derive(Debug, Clone, Default)]
        pub(crate) struct Tables {
            $($(#[doc = $about])* $(#[cfg($($when)*)])? pub(crate) $table: Table<$record>,)*
        }

        impl Tables {
            #[cfg(test)]
            const PREFIXES: &[u8] = &[$($(#[cfg($($when)*)])? <$record as Record>::PREFIX,)*];

            pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
                let rows = std::iter::empty();
                $($(#[cfg($($when)*)])? let rows = rows.chain(self.$table.rows());)*
                rows
            }

            pub(crate) fn drain(&mut self, changes: &mut Vec<RowChange>) {
                $($(#[cfg($($when)*)])? self.$table.drain(changes);)*
            }

            pub(crate) fn undrained(&self, tenant: Tenant) -> Undrained {
                let mut sum = Undrained::default();
                $($(#[cfg($($when)*)])? self.$table.add_undrained(tenant, &mut sum);)*
                sum
            }

            pub(crate) fn hash_sum(&self) -> u128 {
                let sum = 0u128;
                $($(#[cfg($($when)*)])? let sum = sum.wrapping_add(self.$table.hash_sum());)*
                sum
            }

            pub(crate) fn restore(
                &mut self,
                key: &[u8],
                value: &[u8],
                hash: u128,
            ) -> Result<(), RowError> {
                match key.first().copied() {
                    $(
                        $(#[cfg($($when)*)])?
                        Some(<$record>::PREFIX) => self.$table.restore(key, value, hash),
                    )*
                    _ => Err(RowError::UnknownKey { key: key.to_vec() }),
                }
            }

            pub(crate) fn is_single(prefix: u8) -> bool {
                match prefix {
                    $(
                        $(#[cfg($($when)*)])?
                        <$record>::PREFIX => <$record as Record>::Key::IS_SINGLE,
                    )*
                    _ => false,
                }
            }

            pub(crate) fn set_level(&mut self, level: Level) {
                $($(#[cfg($($when)*)])? self.$table.set_level(level);)*
            }

            pub(crate) fn deadlines(&self, context: &ApplyContext<'_>) -> Deadlines {
                let mut deadlines = Deadlines::default();
                $($(#[cfg($($when)*)])? {
                    $(
                        let $expiring = &self.$table;
                        deadlines.insert_all($expiring, context);
                    )?
                })*
                deadlines
            }

            /// Passes the deadline of a row in any table.
            pub(crate) fn pass(
                &mut self,
                row_key: &[u8],
                deadlines: &mut Deadlines,
                tally: &mut LockTally,
            ) {
                let clock = self.clock.get(&()).copied().unwrap_or_default();
                let passing = Passing {
                    stamp_wall_ms: WallMs(clock.wall_ms),
                    cluster_ms: clock.cluster_ms,
                    counter: &mut self.counter,
                    deadlines,
                    tally,
                };
                $($(#[cfg($($when)*)])? {
                    $(
                        let $expiring = &mut self.$table;
                        if let Some(key) = key_of::<$record>(row_key) {
                            return Expiring::pass($expiring, &key, passing);
                        }
                    )?
                })*
            }
        }
    };
}

tables! {
    settings: Settings,
    clock: Clock,
    counter: Counter,
    restoration: RestorationRecord,
    level: LevelRecord,
    past_leases: PastLease,
    past_start: PastStart,
    secret: Secret,
    layouts: LayoutRecord,
    locks: LockRecord as expiring,
    nodes: NodeRecord,
    keys: KeyRecord as expiring,
    resets: ResetRecord,
    sequences: SequenceRecord,
    timestamps: TimestampBound,
    one_time: OneTimeRecord as expiring,
    workers: WorkerRecord as expiring,
    access: AccessRecord,
    /// The example of `docs/internals/EXTENDING.md`.
    #[cfg(feature = "test-next-level")]
    notes: crate::notes::NoteRecord as expiring,
}

impl Tables {
    /// The last millisecond that a leader may have used. In a restored cluster, that includes the
    /// leaders of the old one, whose processes had ended when the restoration was stamped.
    pub(crate) fn timestamp_bound(&self) -> WallMs {
        let skew_ms = (self.settings.get(&())).map_or(0, |settings| settings.max_peer_skew_ms);
        let ahead_ms = MAX_TIMESTAMPS_AHEAD_MS.saturating_add(2 * skew_ms);
        let restored = self.restoration.get(&());
        let floor_ms = restored.map_or(0, |record| {
            record.stamped_wall_ms.0.saturating_add(ahead_ms)
        });
        self.timestamps.bound().max(WallMs(floor_ms))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// An older program that loads rows reads the level before the rows of tables that the level
    /// introduced. It then stops because of the newer level, and does not report the rows as
    /// damaged.
    #[test]
    fn tables_of_a_level_sort_after_the_level() {
        let of_level_1 = b"abcdehiklmnoqrstwx";
        let brought = Tables::PREFIXES
            .iter()
            .filter(|of| !of_level_1.contains(of));
        for prefix in brought {
            assert!(*prefix >= LevelRecord::PREFIX, "{}", char::from(*prefix));
        }
        let distinct: BTreeSet<_> = Tables::PREFIXES.iter().collect();
        assert_eq!(distinct.len(), Tables::PREFIXES.len());
    }
}
