//! A table of records in memory that knows which of its rows changed.
//!
//! Reads and `apply` touch maps alone. What a checkpoint needs, the changed rows and the digest
//! after them, is remembered at the first touch of a row and worked out when it is asked for: a
//! sequence that is used a thousand times between two checkpoints is encoded once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Debug;
use std::ops::RangeBounds;

use crate::codec::{Versioned, decode, encode};
use crate::rows::{Row, RowChange, RowError, row_hash};

/// A value that is kept in rows of its own.
pub(crate) trait Record: Versioned + Clone + Debug {
    /// What tells the rows of this kind apart.
    type Key: Ord + Clone + Debug;
    /// The first byte of their keys. Never given to another kind.
    const PREFIX: u8;
    /// Appends what follows the prefix in a row's key. Keys sort as their bytes do.
    fn write_key(key: &Self::Key, bytes: &mut Vec<u8>);
    /// The key that `write_key` wrote.
    fn read_key(bytes: &[u8]) -> Option<Self::Key>;
    /// Whether the record keeps the rules of its type.
    fn is_sound(&self) -> bool {
        true
    }
}

/// A record that there is at most one of.
macro_rules! singleton {
    ($record:ty, kind $kind:literal, version $version:literal, prefix $prefix:literal) => {
        impl $crate::codec::Versioned for $record {
            const KIND: u8 = $kind;
            const VERSION: u8 = $version;
        }

        impl $crate::table::Record for $record {
            type Key = ();
            const PREFIX: u8 = $prefix;

            fn write_key(_: &(), _: &mut Vec<u8>) {}

            fn read_key(bytes: &[u8]) -> Option<()> {
                bytes.is_empty().then_some(())
            }
        }
    };
}
pub(crate) use singleton;

#[derive(Debug, Clone)]
struct Slot<R> {
    record: R,
    /// Whether the row's hash before the change is remembered in `Table::before`.
    touched: bool,
}

/// All records of one kind.
///
/// Invariant: `sum` plus, for each touched row, its hash less the one in `before`, is the sum of
/// the hashes of all rows.
#[derive(Debug, Clone)]
pub(crate) struct Table<R: Record> {
    /// In boxes: the map's nodes are partly empty, half empty after a start, which fills them in the
    /// order of their keys.
    slots: BTreeMap<R::Key, Box<Slot<R>>>,
    /// The rows touched since the last drain, with their hashes before it; 0 for a new row.
    before: BTreeMap<R::Key, u128>,
    /// The sum of the rows' hashes at the last drain.
    sum: u128,
}

impl<R: Record> Default for Table<R> {
    fn default() -> Self {
        Self {
            slots: BTreeMap::new(),
            before: BTreeMap::new(),
            sum: 0,
        }
    }
}

impl<R: Record> Table<R> {
    pub(crate) fn get(&self, key: &R::Key) -> Option<&R> {
        self.slots.get(key).map(|slot| &slot.record)
    }

    pub(crate) fn get_key_value(&self, key: &R::Key) -> Option<(&R::Key, &R)> {
        self.slots
            .get_key_value(key)
            .map(|(key, slot)| (key, &slot.record))
    }

    /// The record, for a change.
    pub(crate) fn get_mut(&mut self, key: &R::Key) -> Option<&mut R> {
        let slot = self.slots.get_mut(key)?;
        if !slot.touched {
            slot.touched = true;
            let (key_bytes, value) = row_of(key, &slot.record);
            self.before
                .insert(key.clone(), row_hash(&key_bytes, &value));
        }
        Some(&mut slot.record)
    }

    /// The record, for a change; a new one if there is none.
    pub(crate) fn entry(&mut self, key: R::Key, new: impl FnOnce() -> R) -> &mut R {
        if self.get_mut(&key).is_none() {
            self.before.insert(key.clone(), 0);
        }
        let slot = self.slots.entry(key);
        &mut slot
            .or_insert_with(|| {
                Box::new(Slot {
                    record: new(),
                    touched: true,
                })
            })
            .record
    }

    /// Puts the record there, whatever was there before.
    pub(crate) fn put(&mut self, key: R::Key, record: R) {
        if let Some(place) = self.get_mut(&key) {
            *place = record;
            return;
        }
        self.before.insert(key.clone(), 0);
        let touched = true;
        self.slots.insert(key, Box::new(Slot { record, touched }));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&R::Key, &R)> {
        self.slots.iter().map(|(key, slot)| (key, &slot.record))
    }

    pub(crate) fn range<Q>(&self, range: impl RangeBounds<Q>) -> impl Iterator<Item = (&R::Key, &R)>
    where
        R::Key: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.slots
            .range(range)
            .map(|(key, slot)| (key, &slot.record))
    }

    /// All rows, in the order of their keys.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        self.iter().map(|(key, record)| row_of(key, record))
    }

    /// The sum of the hashes of all rows, touched ones included.
    pub(crate) fn hash_sum(&self) -> u128 {
        let mut sum = self.sum;
        for (key, before) in &self.before {
            if let Some(record) = self.get(key) {
                let (key_bytes, value) = row_of(key, record);
                sum = sum
                    .wrapping_sub(*before)
                    .wrapping_add(row_hash(&key_bytes, &value));
            }
        }
        sum
    }

    /// Appends the touched rows to `changes` and forgets that they were touched.
    pub(crate) fn drain(&mut self, changes: &mut Vec<RowChange>) {
        for (key, before) in std::mem::take(&mut self.before) {
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.touched = false;
                let (key_bytes, value) = row_of(&key, &slot.record);
                let hash = row_hash(&key_bytes, &value);
                self.sum = self.sum.wrapping_sub(before).wrapping_add(hash);
                changes.push((key_bytes, Some(value)));
            }
        }
    }

    /// Puts back a row that [`Table::rows`] gave. `row_key` has the prefix of this table, and `hash`
    /// is the row's.
    pub(crate) fn restore(
        &mut self,
        row_key: &[u8],
        value: &[u8],
        hash: u128,
    ) -> Result<(), RowError> {
        let named = || row_key.to_vec();
        let key = row_key
            .get(1..)
            .and_then(R::read_key)
            .ok_or_else(|| RowError::UnknownKey { key: named() })?;
        let record: R = decode(value).map_err(|source| RowError::Value {
            key: named(),
            source,
        })?;
        if !record.is_sound() {
            return Err(RowError::Unsound { key: named() });
        }
        match self.slots.entry(key) {
            Entry::Occupied(_) => return Err(RowError::Repeated { key: named() }),
            Entry::Vacant(place) => place.insert(Box::new(Slot {
                record,
                touched: false,
            })),
        };
        self.sum = self.sum.wrapping_add(hash);
        Ok(())
    }
}

fn row_of<R: Record>(key: &R::Key, record: &R) -> Row {
    let mut key_bytes = vec![R::PREFIX];
    R::write_key(key, &mut key_bytes);
    #[expect(
        clippy::expect_used,
        reason = "apply bounds each text and list in a record, so none nears the codec's limit"
    )]
    let value = encode(record).expect("a record is far smaller than the codec's limit");
    (key_bytes, value)
}
