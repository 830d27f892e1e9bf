//! The state as rows of bytes: what a checkpoint stores, a snapshot carries, and a digest covers.
//!
//! A row's key begins with a byte that names the kind of record; its value is the record in the
//! crate's codec. No record is split over rows, so a row is written whole or not at all.

use crate::codec::CodecError;
use crate::workers::leases::WorkerRecord;
use crate::newtypes::Digest;
use crate::cluster::nodes::NodeRecord;
use crate::cluster::restoration::RestorationRecord;
use crate::sequences::SequenceRecord;
use crate::cluster::settings::{Clock, Counter, Settings};
use crate::state::State;
use crate::table::Record;

/// A key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// A key and its new value; without one, the row is gone.
pub type RowChange = (Vec<u8>, Option<Vec<u8>>);

/// What changed since the last time that changes were taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The rows, each once.
    pub rows: Vec<RowChange>,
    /// The digest of all rows after these changes.
    pub digest: Digest,
}

/// Why rows are not a state. Keys are shown in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// No kind of record has such a key.
    #[error("row {}: no record has such a key", hex(.key))]
    UnknownKey {
        /// The row's key.
        key: Vec<u8>,
    },
    /// The value is not a record of the kind that the key names.
    #[error("row {}: {source}", hex(.key))]
    Value {
        /// The row's key.
        key: Vec<u8>,
        /// What is wrong with the value.
        source: CodecError,
    },
    /// The record breaks a rule of its type.
    #[error("row {}: the record breaks a rule of its type", hex(.key))]
    Unsound {
        /// The row's key.
        key: Vec<u8>,
    },
    /// The key came twice.
    #[error("row {}: the key came twice", hex(.key))]
    Repeated {
        /// The row's key.
        key: Vec<u8>,
    },
}

/// The hash of one row. A digest is the sum of all rows' hashes, modulo 2^128.
///
/// The key's length comes first, so that no byte can pass from key to value unnoticed.
#[must_use]
pub fn row_hash(key: &[u8], value: &[u8]) -> u128 {
    let mut bytes = Vec::with_capacity(8 + key.len() + value.len());
    bytes.extend_from_slice(&(key.len() as u64).to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    xxhash_rust::xxh3::xxh3_128(&bytes)
}

impl State {
    /// All rows, in the order of their keys.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        // The prefixes rise in this order.
        let fixed = self
            .settings
            .rows()
            .chain(self.clock.rows())
            .chain(self.counter.rows())
            .chain(self.restoration.rows());
        fixed
            .chain(self.nodes.table.rows())
            .chain(self.sequences.table.rows())
            .chain(self.leases.table.rows())
    }

    /// The rows that changed since this was last called, and the digest after them.
    pub fn drain_changes(&mut self) -> Changes {
        let mut rows = Vec::new();
        self.settings.drain(&mut rows);
        self.clock.drain(&mut rows);
        self.counter.drain(&mut rows);
        self.restoration.drain(&mut rows);
        self.nodes.table.drain(&mut rows);
        self.sequences.table.drain(&mut rows);
        self.leases.table.drain(&mut rows);
        Changes {
            rows,
            digest: self.digest(),
        }
    }

    /// The digest of all rows, changes that were not taken yet included.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let sums = [
            self.settings.hash_sum(),
            self.clock.hash_sum(),
            self.counter.hash_sum(),
            self.restoration.hash_sum(),
            self.nodes.table.hash_sum(),
            self.sequences.table.hash_sum(),
            self.leases.table.hash_sum(),
        ];
        Digest(sums.into_iter().fold(0, u128::wrapping_add))
    }

    /// The state that [`State::rows`] gave the rows of, in whatever order they come. All of its
    /// changes count as taken.
    ///
    /// # Errors
    /// [`RowError`] at the first row that does not belong to a state. That no row is missing is
    /// for the caller to check, by the digest.
    pub fn from_rows(rows: impl IntoIterator<Item = Row>) -> Result<Self, RowError> {
        let mut loader = StateLoader::default();
        for (key, value) in rows {
            loader.row(&key, &value)?;
        }
        Ok(loader.finish())
    }
}

/// Builds a state from its rows, one at a time: nothing but the state itself takes memory.
#[derive(Debug, Default)]
pub struct StateLoader {
    state: State,
}

impl StateLoader {
    /// Takes one of the rows that [`State::rows`] gave, in whatever order.
    ///
    /// # Errors
    /// [`RowError`] if it does not belong to a state; the loader is of no use then.
    pub fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), RowError> {
        self.hashed_row(key, value, row_hash(key, value))
    }

    /// [`StateLoader::row`] for who has the row's [`row_hash`] already.
    ///
    /// # Errors
    /// As [`StateLoader::row`].
    pub fn hashed_row(&mut self, key: &[u8], value: &[u8], hash: u128) -> Result<(), RowError> {
        let state = &mut self.state;
        match key.first().copied() {
            Some(Settings::PREFIX) => state.settings.restore(key, value, hash),
            Some(Clock::PREFIX) => state.clock.restore(key, value, hash),
            Some(Counter::PREFIX) => state.counter.restore(key, value, hash),
            Some(RestorationRecord::PREFIX) => state.restoration.restore(key, value, hash),
            Some(NodeRecord::PREFIX) => state.nodes.table.restore(key, value, hash),
            Some(SequenceRecord::PREFIX) => state.sequences.table.restore(key, value, hash),
            Some(WorkerRecord::PREFIX) => state.leases.table.restore(key, value, hash),
            _ => Err(RowError::UnknownKey { key: key.to_vec() }),
        }
    }

    /// The state. All of its changes count as taken.
    #[must_use]
    pub fn finish(mut self) -> State {
        self.state.find_deadlines();
        self.state
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
