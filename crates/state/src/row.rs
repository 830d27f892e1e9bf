//! A row of the state: a key and a value, its hash, and its errors.

use crate::codec::CodecError;
use crate::level::Level;
use crate::newtypes::Digest;

pub type Row = (Vec<u8>, Vec<u8>);

/// A key and its new value; without one, the row is gone.
pub type RowChange = (Vec<u8>, Option<Vec<u8>>);

/// What changed since the last drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    pub rows: Vec<RowChange>,
    pub digest: Digest,
}

/// What changed since the last drain, and what one tenant's records are of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Undrained {
    pub rows: u64,
    /// Bytes that tenants hold with the records.
    pub bytes: u64,
    pub own_rows: u64,
    pub own_bytes: u64,
}

/// Why rows cannot be loaded. Keys are shown in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    #[error("row {}: no record has such a key", hex(.key))]
    UnknownKey { key: Vec<u8> },
    #[error("row {}: {source}", hex(.key))]
    Value { key: Vec<u8>, source: CodecError },
    #[error("row {}: the record breaks a rule of its type", hex(.key))]
    Unsound { key: Vec<u8> },
    #[error("the rows are those of level {found}: this program knows levels up to {known}")]
    NewerLevel { found: Level, known: Level },
    #[error("row {}: the key came twice", hex(.key))]
    Repeated { key: Vec<u8> },
}

impl RowError {
    /// Whether a newer program wrote the rows: nothing is damaged, and the remedy is to start that
    /// program again.
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
/// The key's length comes first, so that no byte can move between key and value unnoticed.
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
