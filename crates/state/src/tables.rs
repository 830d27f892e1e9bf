//! The registry: every replicated table, once.
//!
//! A line gives a table its name and its record. Rows, changes, digest, loading, the census and
//! the deadlines follow from it.

use crate::cluster::level::LevelRecord;
use crate::cluster::nodes::NodeRecord;
use crate::cluster::restoration::RestorationRecord;
use crate::cluster::settings::{Clock, Counter, Settings};
use crate::context::ApplyContext;
use crate::deadlines::Deadlines;
use crate::layouts::LayoutRecord;
use crate::level::Level;
use crate::row::{Row, RowChange, RowError};
use crate::sequences::grants::SequenceRecord;
use crate::table::{Count, Record, Table};
use crate::workers::leases::WorkerRecord;

/// Makes the registry. The prefixes of the records rise from line to line, so that all rows come in
/// the order of their keys. `as expiring` stands behind a record that is [`crate::deadlines::Expiring`].
macro_rules! tables {
    ($(
        $(#[doc = $about:literal])*
        $(#[cfg($($when:tt)*)])?
        $table:ident: $record:ty $(as $expiring:ident)?,
    )*) => {
        /// All replicated tables.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct Tables {
            $($(#[doc = $about])* $(#[cfg($($when)*)])? pub(crate) $table: Table<$record>,)*
        }

        impl Tables {
            /// All rows, in the order of their keys.
            pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
                let rows = std::iter::empty();
                $($(#[cfg($($when)*)])? let rows = rows.chain(self.$table.rows());)*
                rows
            }

            /// Appends the rows that changed since this was last called.
            pub(crate) fn drain(&mut self, changes: &mut Vec<RowChange>) {
                $($(#[cfg($($when)*)])? self.$table.drain(changes);)*
            }

            /// The sum of the hashes of all rows.
            pub(crate) fn hash_sum(&self) -> u128 {
                let sum = 0u128;
                $($(#[cfg($($when)*)])? let sum = sum.wrapping_add(self.$table.hash_sum());)*
                sum
            }

            /// Puts back a row, whose hash the caller has.
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

            /// Whether rows with this prefix are of a table that has at most one.
            pub(crate) fn is_single(prefix: u8) -> bool {
                match prefix {
                    $($(#[cfg($($when)*)])? <$record>::PREFIX => <$record>::IS_SINGLE,)*
                    _ => false,
                }
            }

            /// Each table's name, with how many records it has that are there, and that are kept
            /// of what is gone.
            pub(crate) fn counts(&self) -> Vec<(&'static str, Count)> {
                vec![$($(#[cfg($($when)*)])? (stringify!($table), Count::of(&self.$table)),)*]
            }

            /// Writes the rows that are touched from here on as this level does.
            pub(crate) fn set_level(&mut self, level: Level) {
                $($(#[cfg($($when)*)])? self.$table.set_level(level);)*
            }

            /// Works the deadlines out from the records.
            pub(crate) fn deadlines(&self, given: &ApplyContext<'_>) -> Deadlines {
                let mut deadlines = Deadlines::default();
                $($(#[cfg($($when)*)])? {
                    $(
                        let $expiring = &self.$table;
                        deadlines.insert_all($expiring, given);
                    )?
                })*
                deadlines
            }

            /// Hands the key of a row whose deadline has passed to its table.
            pub(crate) fn expire(&mut self, row_key: &[u8]) {
                $($(#[cfg($($when)*)])? {
                    $(
                        let $expiring = &mut self.$table;
                        if $expiring.expire(row_key) {
                            return;
                        }
                    )?
                })*
            }
        }
    };
}

tables! {
    /// What was agreed when the cluster began.
    settings: Settings,
    /// The latest times.
    clock: Clock,
    /// The last number that was given.
    counter: Counter,
    /// How the state was restored.
    restoration: RestorationRecord,
    /// Up to where the formats have come.
    level: LevelRecord,
    /// The layouts.
    layouts: LayoutRecord,
    /// The members.
    nodes: NodeRecord,
    /// The sequences.
    sequences: SequenceRecord,
    /// The workers.
    workers: WorkerRecord as expiring,
    /// The table of `docs/EXTENDING.md`.
    #[cfg(any(test, feature = "test-next-level"))]
    notes: crate::notes::NoteRecord as expiring,
}
