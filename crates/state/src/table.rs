//! A table of records in memory that tracks which of its rows changed.
//!
//! Reads and `apply` touch only maps. A changed row is encoded and hashed when it is drained, so a
//! sequence that is used a thousand times between two checkpoints is encoded once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Debug;
use std::ops::RangeBounds;

use crate::codec::{Versioned, encode_version, header};
use crate::level::Level;
use crate::newtypes::TableKey;
use crate::row::{Row, RowChange, RowError, Undrained, row_hash};
use crate::tenant::{Holdings, Tenant};

/// A value with a row of its own.
pub(crate) trait Record: Versioned + Clone + Debug {
    type Key: TableKey;
    /// The first byte of the rows' keys. Never reused.
    const PREFIX: u8;
    /// Returns whether a decoded record satisfies the rules of its type.
    fn is_sound(&self) -> bool {
        true
    }
    /// Calls `charge` with the tenant and the bytes of each item that a tenant holds with this
    /// record. If the charges of a record change, the caller uses `put` or `remove`, or passes the
    /// difference to `recharge`.
    fn charge(&self, _key: &Self::Key, _charge: &mut dyn FnMut(Tenant, u64)) {}
}

/// Implements [`Record`]. The key `()` is that of a table of at most one record. `sound` is the
/// function that checks the record's rules.
macro_rules! record {
    (
        $record:ty, kind $kind:literal, version $version:literal, prefix $prefix:literal,
        key $key:ty $(, sound $sound:expr)?
    ) => {
        impl $crate::codec::Versioned for $record {
            const KIND: u8 = $kind;
            const VERSION: u8 = $version;
        }

        impl $crate::table::Record for $record {
            type Key = $key;
            const PREFIX: u8 = $prefix;

            $(fn is_sound(&self) -> bool {
                $sound(self)
            })?
        }
    };
}
pub(crate) use record;

#[derive(Debug, Clone)]
struct RowSlot<R> {
    record: R,
    /// The version in which the row is encoded: the version in which it was loaded or, after a
    /// change, the version of the cluster's level at the change. The bytes therefore follow from
    /// the log, whichever program wrote them.
    version: u8,
    /// True if `Table::before` contains the row's hash before the change.
    touched: bool,
}

/// All records of one kind.
///
/// Invariant: the sum of the hashes of all rows is `sum` plus, for each touched row, its present
/// hash minus the hash in `before`.
#[derive(Debug, Clone)]
pub(crate) struct Table<R: Record> {
    /// Boxed, because a start inserts the keys in order, which leaves the map's nodes half empty.
    slots: BTreeMap<R::Key, Box<RowSlot<R>>>,
    /// The rows touched since the last drain, with their hashes before the change; 0 for a new row.
    before: BTreeMap<R::Key, u128>,
    /// The sum of the hashes of the rows at the last drain.
    sum: u128,
    /// The version in which touched rows are encoded.
    version: u8,
    /// The holdings of tenants in these records. Derived, so that checking a limit needs no pass
    /// over the records.
    held: Holdings,
    /// The holdings of tenants in the records that were put since the last drain.
    fresh: Holdings,
}

impl<R: Record> Default for Table<R> {
    fn default() -> Self {
        Self {
            slots: BTreeMap::new(),
            before: BTreeMap::new(),
            sum: 0,
            version: R::version_at(Level::FIRST),
            held: Holdings::default(),
            fresh: Holdings::default(),
        }
    }
}

impl<R: Record> Table<R> {
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&R>
    where
        R::Key: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.slots.get(key).map(|slot| &slot.record)
    }

    pub(crate) fn get_mut(&mut self, key: &R::Key) -> Option<&mut R> {
        let slot = self.slots.get_mut(key)?;
        if !slot.touched {
            slot.touched = true;
            let (key_bytes, value) = row_of(key, slot);
            // The entry exists if the row was removed and put again since the last drain.
            let hash = || row_hash(&key_bytes, &value);
            self.before.entry(key.clone()).or_insert_with(hash);
        }
        slot.version = self.version;
        Some(&mut slot.record)
    }

    pub(crate) fn entry(&mut self, key: R::Key, new: impl FnOnce() -> R) -> &mut R {
        if self.get_mut(&key).is_none() {
            self.before.entry(key.clone()).or_insert(0);
        }
        let version = self.version;
        let slot = self.slots.entry(key).or_insert_with(|| {
            Box::new(RowSlot {
                record: new(),
                version,
                touched: true,
            })
        });
        &mut slot.record
    }

    pub(crate) fn put(&mut self, key: R::Key, record: R) {
        record.charge(&key, &mut |tenant, bytes| {
            self.held.add(tenant, bytes);
            self.fresh.add(tenant, bytes);
        });
        if let Some(place) = self.get_mut(&key) {
            let before = std::mem::replace(place, record);
            before.charge(&key, &mut |tenant, bytes| self.held.sub(tenant, bytes));
            return;
        }
        self.before.entry(key.clone()).or_insert(0);
        let slot = RowSlot {
            record,
            version: self.version,
            touched: true,
        };
        self.slots.insert(key, Box::new(slot));
    }

    pub(crate) fn remove(&mut self, key: &R::Key) -> Option<R> {
        self.get_mut(key)?;
        let record = self.slots.remove(key).map(|slot| slot.record)?;
        record.charge(key, &mut |tenant, bytes| self.held.sub(tenant, bytes));
        Some(record)
    }

    /// Returns the holdings of tenants in these records.
    pub(crate) fn holdings(&self) -> &Holdings {
        &self.held
    }

    /// Corrects the holdings after a record was changed in place: each tenant in `less` loses a
    /// charge, and each tenant in `more` gets one.
    pub(crate) fn recharge(&mut self, less: &[Tenant], more: &[Tenant]) {
        less.iter().for_each(|tenant| self.held.sub(*tenant, 0));
        for tenant in more {
            self.held.add(*tenant, 0);
            self.fresh.add(*tenant, 0);
        }
    }

    pub(crate) fn clear(&mut self) {
        let keys: Vec<R::Key> = self.slots.keys().cloned().collect();
        for key in keys {
            self.remove(&key);
        }
    }

    /// Encodes rows that are touched from this call on in the version of this level.
    pub(crate) fn set_level(&mut self, level: Level) {
        self.version = R::version_at(level);
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
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

    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        self.slots.iter().map(|(key, slot)| row_of(key, slot))
    }

    pub(crate) fn hash_sum(&self) -> u128 {
        let mut sum = self.sum;
        for (key, before) in &self.before {
            sum = sum.wrapping_sub(*before);
            if let Some(slot) = self.slots.get(key) {
                let (key_bytes, value) = row_of(key, slot);
                sum = sum.wrapping_add(row_hash(&key_bytes, &value));
            }
        }
        sum
    }

    /// Adds the size of the changes since the last drain, and separately the part of `tenant`.
    pub(crate) fn add_undrained(&self, tenant: Tenant, sum: &mut Undrained) {
        let (own, all) = (self.fresh.of(tenant), self.fresh.all());
        sum.rows += self.before.len() as u64;
        sum.bytes += all.bytes;
        sum.own_rows += own.count;
        sum.own_bytes += own.bytes;
    }

    /// Moves the touched rows to `changes`.
    pub(crate) fn drain(&mut self, changes: &mut Vec<RowChange>) {
        self.fresh = Holdings::default();
        for (key, before) in std::mem::take(&mut self.before) {
            self.sum = self.sum.wrapping_sub(before);
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.touched = false;
                let (key_bytes, value) = row_of(&key, slot);
                self.sum = self.sum.wrapping_add(row_hash(&key_bytes, &value));
                changes.push((key_bytes, Some(value)));
            } else if before != 0 {
                changes.push((row_key::<R>(&key), None));
            }
        }
    }

    /// Loads a row. `row_key` includes the prefix of this table, and `hash` is the hash of the row.
    pub(crate) fn restore(
        &mut self,
        row_key: &[u8],
        value: &[u8],
        hash: u128,
    ) -> Result<(), RowError> {
        let named = || row_key.to_vec();
        let key = row_key
            .get(1..)
            .and_then(R::Key::read)
            .ok_or_else(|| RowError::UnknownKey { key: named() })?;
        let bad = |source| RowError::Value {
            key: named(),
            source,
        };
        let (version, body) = header::<R>(value).map_err(bad)?;
        let record = R::decode_body(version, body).map_err(bad)?;
        if !record.is_sound() {
            return Err(RowError::Unsound { key: named() });
        }
        record.charge(&key, &mut |tenant, bytes| self.held.add(tenant, bytes));
        match self.slots.entry(key) {
            Entry::Occupied(_) => return Err(RowError::Repeated { key: named() }),
            Entry::Vacant(place) => place.insert(Box::new(RowSlot {
                record,
                version,
                touched: false,
            })),
        };
        self.sum = self.sum.wrapping_add(hash);
        Ok(())
    }
}

pub(crate) fn row_key<R: Record>(key: &R::Key) -> Vec<u8> {
    let mut bytes = vec![R::PREFIX];
    key.write(&mut bytes);
    bytes
}

fn row_of<R: Record>(key: &R::Key, slot: &RowSlot<R>) -> Row {
    #[expect(
        clippy::expect_used,
        reason = "apply bounds each text and list in a record, so none nears the codec's limit, and \
                  the version is one that this program read or that belongs to a level it supports"
    )]
    let value = encode_version(&slot.record, slot.version).expect("a record that can be written");
    (row_key::<R>(key), value)
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::cluster::nodes::NodeRecord;
    use crate::codec::{CodecError, from_body, never_written, to_body};
    use crate::newtypes::NodeId;

    fn node(name: &str) -> NodeRecord {
        NodeRecord::new(name.to_owned(), None)
    }

    fn sum_of_rows(table: &Table<NodeRecord>) -> u128 {
        let hashes = table.rows().map(|(key, value)| row_hash(&key, &value));
        hashes.fold(0, u128::wrapping_add)
    }

    fn drained(table: &mut Table<NodeRecord>) -> Vec<(u64, bool)> {
        let mut changes = Vec::new();
        table.drain(&mut changes);
        assert_eq!(table.hash_sum(), sum_of_rows(table));
        let id = |key: &[u8]| NodeId::read(&key[1..]).unwrap().0;
        let changes = changes.iter();
        changes
            .map(|(key, value)| (id(key), value.is_some()))
            .collect()
    }

    #[test]
    fn a_record_that_is_taken_out_is_a_change_and_leaves_the_digest() {
        let mut table = Table::default();
        table.put(NodeId(1), node("a"));
        table.put(NodeId(2), node("b"));
        drained(&mut table);
        assert_eq!(table.remove(&NodeId(1)), Some(node("a")));
        assert_eq!(table.remove(&NodeId(1)), None);
        assert_eq!(table.hash_sum(), sum_of_rows(&table));
        assert_eq!(drained(&mut table), [(1, false)]);
        // A row that was never drained leaves no trace.
        table.put(NodeId(3), node("c"));
        table.remove(&NodeId(3));
        assert_eq!(drained(&mut table), []);
    }

    #[test]
    fn a_record_that_comes_back_between_two_drains_is_one_change() {
        let mut table = Table::default();
        table.put(NodeId(1), node("a"));
        drained(&mut table);
        table.remove(&NodeId(1));
        table.put(NodeId(1), node("b"));
        assert_eq!(table.hash_sum(), sum_of_rows(&table));
        assert_eq!(drained(&mut table), [(1, true)]);
        table.remove(&NodeId(1));
        table.entry(NodeId(1), || node("c"));
        table.remove(&NodeId(1));
        assert_eq!(drained(&mut table), [(1, false)]);
    }

    /// A record whose second version has an additional field, from the level above the first on.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Room {
        seats: u8,
        floor: Option<u8>,
    }

    /// The record in version 1. Frozen, because its bytes are stored.
    #[derive(Serialize, Deserialize)]
    struct RoomV1 {
        seats: u8,
    }

    impl From<RoomV1> for Room {
        fn from(record: RoomV1) -> Self {
            Self {
                seats: record.seats,
                floor: None,
            }
        }
    }

    impl Versioned for Room {
        const KIND: u8 = 61;
        const VERSION: u8 = 2;

        fn version_at(level: Level) -> u8 {
            if level < Level::FIRST.next() { 1 } else { 2 }
        }

        fn decode_body(version: u8, body: &[u8]) -> Result<Self, CodecError> {
            let kind = Self::KIND.into();
            match version {
                1 => from_body::<RoomV1>(kind, body, Self::MAX_BYTES).map(Into::into),
                2 => from_body(kind, body, Self::MAX_BYTES),
                _ => Err(never_written(kind, version)),
            }
        }

        fn encode_body(&self, version: u8, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
            let (kind, seats) = (Self::KIND.into(), self.seats);
            match version {
                1 => to_body(kind, &RoomV1 { seats }, bytes),
                2 => to_body(kind, self, bytes),
                _ => Err(CodecError::NotInVersion { kind, version }),
            }
        }
    }

    impl Record for Room {
        type Key = NodeId;
        const PREFIX: u8 = b'~';
    }

    #[test]
    fn a_row_takes_its_new_version_at_the_first_touch_after_the_level_rose() {
        let room = |seats| Room { seats, floor: None };
        let versions =
            |table: &Table<Room>| -> Vec<u8> { table.rows().map(|(_, value)| value[1]).collect() };
        let mut table = Table::default();
        table.put(NodeId(1), room(10));
        table.put(NodeId(2), room(20));
        assert_eq!(versions(&table), [1, 1]);
        table.set_level(Level::FIRST.next());
        assert_eq!(versions(&table), [1, 1]);
        table.get_mut(&NodeId(1)).unwrap().floor = Some(4);
        assert_eq!(versions(&table), [2, 1]);

        let mut read_back = Table::<Room>::default();
        for (key, value) in table.rows() {
            let hash = row_hash(&key, &value);
            read_back.restore(&key, &value, hash).unwrap();
        }
        assert!(read_back.rows().eq(table.rows()), "each in its own version");
        assert_eq!(read_back.hash_sum(), table.hash_sum());
        assert_eq!(read_back.get(&NodeId(1)).unwrap().floor, Some(4));
        assert_eq!(read_back.get(&NodeId(2)), Some(&room(20)));
    }
}
