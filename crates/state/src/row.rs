//! A row of the state: a key and a value, its hash, and its errors.

use crate::codec::CodecError;
use crate::level::Level;
use crate::newtypes::Digest;

pub type Row = (Vec<u8>, Vec<u8>);

/// A key and its new value, or `None` if the row was removed.
pub type RowChange = (Vec<u8>, Option<Vec<u8>>);

/// The changes since the last drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    pub rows: Vec<RowChange>,
    pub digest: Digest,
}

/// The size of the changes since the last drain, in all and for one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Undrained {
    pub rows: u64,
    /// Bytes charged to tenants for the changed records.
    pub bytes: u64,
    pub own_rows: u64,
    pub own_bytes: u64,
}

/// The reason why rows cannot be loaded. Keys are shown in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    #[error("row {}: unknown key", hex(.key))]
    UnknownKey { key: Vec<u8> },
    #[error("row {}: {source}", hex(.key))]
    Value { key: Vec<u8>, source: CodecError },
    #[error("row {}: the record breaks a rule of its type", hex(.key))]
    Unsound { key: Vec<u8> },
    #[error("the rows have level {found}: this program supports levels up to {known}")]
    NewerLevel { found: Level, known: Level },
    #[error("row {}: duplicate key", hex(.key))]
    Repeated { key: Vec<u8> },
}

impl RowError {
    /// Returns whether a newer program wrote the rows. Nothing is damaged then; the remedy is to
    /// start the newer program again.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        match self {
            Self::NewerLevel { .. } => true,
            Self::Value { source, .. } => source.is_newer(),
            _ => false,
        }
    }
}

/// Returns the hash of one row. A digest is the sum of the hashes of all rows, modulo 2^128.
///
/// The key's length is hashed first, so moving a byte between key and value changes the hash.
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
