//! A row of the state: a key and a value, its hash, and why it may be no row at all.

use crate::codec::CodecError;
use crate::level::Level;
use crate::newtypes::Digest;

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
    /// A newer program raised the cluster's level.
    #[error("the rows are those of level {found}: this program knows levels up to {known}")]
    NewerLevel {
        /// The cluster's level.
        found: Level,
        /// The highest one that this program can be part of.
        known: Level,
    },
    /// The key came twice.
    #[error("row {}: the key came twice", hex(.key))]
    Repeated {
        /// The row's key.
        key: Vec<u8>,
    },
}

impl RowError {
    /// Whether a newer program wrote the rows: nothing is damaged, and putting that program back is
    /// the way out.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        match self {
            Self::NewerLevel { .. } => true,
            Self::Value { source, .. } => source.is_newer(),
            _ => false,
        }
    }
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
