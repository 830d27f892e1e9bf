//! The registry: every replicated table, once.
//!
//! A line gives a table its name and its record. Rows, changes, digest, loading, the census and
//! the deadlines follow from it.

use crate::cluster::level::LevelRecord;
use crate::cluster::nodes::NodeRecord;
use crate::cluster::restoration::RestorationRecord;
use crate::cluster::settings::{Clock, Counter, Settings};
use crate::context::ApplyContext;
use crate::deadlines::{Deadlines, Expiring};
use crate::layouts::LayoutRecord;
use crate::level::Level;
use crate::row::{Row, RowChange, RowError};
use crate::sequences::grants::SequenceRecord;
use crate::table::{Count, Record, Table};
use crate::workers::leases::WorkerRecord;

/// Makes the registry. The prefixes of the records rise from line to line, so that all rows come in
/// the order of their keys.
macro_rules! tables {
    (
        expiring [$($expiring:ident),*]
        $($(#[$about:meta])* $table:ident: $record:ty,)*
    ) => {
        /// All replicated tables.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct Tables {
            $($(#[$about])* pub(crate) $table: Table<$record>,)*
        }

        impl Tables {
            /// All rows, in the order of their keys.
            pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
                std::iter::empty()$(.chain(self.$table.rows()))*
            }

            /// Appends the rows that changed since this was last called.
            pub(crate) fn drain(&mut self, changes: &mut Vec<RowChange>) {
                $(self.$table.drain(changes);)*
            }

            /// The sum of the hashes of all rows.
            pub(crate) fn hash_sum(&self) -> u128 {
                0u128$(.wrapping_add(self.$table.hash_sum()))*
            }

            /// Puts back a row, whose hash the caller has.
            pub(crate) fn restore(
                &mut self,
                key: &[u8],
                value: &[u8],
                hash: u128,
            ) -> Result<(), RowError> {
                match key.first().copied() {
                    $(Some(<$record>::PREFIX) => self.$table.restore(key, value, hash),)*
                    _ => Err(RowError::UnknownKey { key: key.to_vec() }),
                }
            }

            /// Whether rows with this prefix are of a table that has at most one.
            pub(crate) fn is_single(prefix: u8) -> bool {
                match prefix {
                    $(<$record>::PREFIX => <$record>::IS_SINGLE,)*
                    _ => false,
                }
            }

            /// Each table's name, with how many records it has that are there, and that are kept
            /// of what is gone.
            pub(crate) fn counts(&self) -> Vec<(&'static str, Count)> {
                vec![$((stringify!($table), Count::of(&self.$table)),)*]
            }

            /// Writes the rows that are touched from here on as this level does.
            pub(crate) fn set_level(&mut self, level: Level) {
                $(self.$table.set_level(level);)*
            }

            /// Works the deadlines out from the records.
            pub(crate) fn deadlines(&self, given: &ApplyContext<'_>) -> Deadlines {
                let mut deadlines = Deadlines::default();
                $(for (key, record) in self.$expiring.iter() {
                    if let Some(at) = record.deadline(key, given) {
                        deadlines.insert_of(&self.$expiring, at, key);
                    }
                })*
                deadlines
            }

            /// Hands the key of a row whose deadline has passed to its table.
            pub(crate) fn expire(&mut self, row_key: &[u8]) {
                $(if self.$expiring.expire(row_key) {
                    return;
                })*
            }
        }
    };
}

tables! {
    expiring [workers]
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
    workers: WorkerRecord,
}
