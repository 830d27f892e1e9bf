//! A key, the claim of the caller that performs the operation, and the result.
//!
//! Invariants:
//! - A key exists while the cluster time is below its end, whether or not its row has been dropped.
//! - A result never changes while the key exists.
//! - Each claim of a key is larger than the previous one and has its own attempt number.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::codec::{Bytes, Versioned};
use crate::context::ApplyContext;
use crate::deadlines::{Expiring, Passing};
use crate::newtypes::{ClusterMs, TableKey, numbers};
use crate::table::{Record, Table};
use crate::tenant::Tenant;

/// The maximum length of a key, in bytes: the length of a path segment that users and programs
/// still choose.
pub const MAX_KEY_BYTES: usize = 255;

/// The maximum length of a fingerprint, in bytes: two SHA-256 in hexadecimal.
pub const MAX_FINGERPRINT_BYTES: usize = 128;

/// The maximum length of a nonce of a key or of a one-time token, in bytes: SHA-256 in hexadecimal.
pub const MAX_NONCE_BYTES: usize = 64;

/// The maximum length of the result of a user's key, in bytes. A result is a reference to the
/// outcome of the operation, with room for a small document.
pub const MAX_RESULT_BYTES: usize = 16 << 10;

/// The maximum length of a response that is stored for a request with a key, in bytes. The largest
/// such request returns a thousand IDs, which take 200,000 bytes in the widest form.
pub const MAX_ANSWER_BYTES: usize = 256 << 10;

/// The cost of each key in addition to its texts, in bytes: its record, its places in the table and
/// in the index of deadlines, and its row.
pub(crate) const KEY_OVERHEAD_BYTES: usize = 384;

/// The cost of the result while a key has none, in bytes. A result up to this length can be stored
/// whatever else was stored since the key was begun.
pub const RESERVED_RESULT_BYTES: usize = 256;

/// The owner of a key. The same key in two spaces is two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeySpace {
    /// Keys that users begin and complete themselves.
    Users,
    /// Keys of requests to the cluster, with the ID of the access token of the request, or 0
    /// without a token. Keys of two tenants are therefore separate.
    Requests { access: u64 },
}

impl KeySpace {
    /// Returns the maximum length of a result, in bytes.
    #[must_use]
    pub const fn max_result_bytes(self) -> usize {
        match self {
            Self::Users => MAX_RESULT_BYTES,
            Self::Requests { .. } => MAX_ANSWER_BYTES,
        }
    }
}

/// A key and its space.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyName {
    pub space: KeySpace,
    pub key: String,
}

impl KeyName {
    /// Returns whether the key has 1 to 255 printable ASCII characters.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let printable = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        (1..=MAX_KEY_BYTES).contains(&self.key.len()) && self.key.bytes().all(printable)
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)
    }
}

numbers! {
    /// The right to complete a key. Drawn from the cluster's counter, so each claim is larger than
    /// all previous ones.
    KeyClaim;
}

/// A key. Its name is the row's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// The tenant that took the latest claim. The key is charged to it.
    pub tenant: Tenant,
    /// Identifies the caller's operation; the same key with another fingerprint is refused.
    pub fingerprint: String,
    /// 1 for the first claim, and incremented for each later one.
    pub attempt: u64,
    /// The latest claim; `None` after it was abandoned.
    pub claim: Option<KeyClaim>,
    /// From this time on, another caller can take over the key.
    pub claim_until: ClusterMs,
    /// The nonce of the request that took the claim; empty for none.
    pub nonce: String,
    /// The time at which the key expires.
    pub until: ClusterMs,
    /// `None` while the key is in progress.
    pub result: Option<Bytes>,
}

impl KeyRecord {
    /// Returns whether a caller holds a claim and may still perform the operation.
    #[must_use]
    pub fn is_claimed(&self, now: ClusterMs) -> bool {
        self.result.is_none() && self.claim.is_some() && now < self.claim_until
    }

    /// Returns the cost in memory, in bytes. The name is counted twice: in the table and in the
    /// index of deadlines.
    #[must_use]
    pub fn cost(&self, name: &KeyName) -> u64 {
        let texts = 2 * name.key.len() + self.fingerprint.len() + self.nonce.len();
        let result = (self.result.as_ref()).map_or(RESERVED_RESULT_BYTES, |result| result.0.len());
        (KEY_OVERHEAD_BYTES + texts + result) as u64
    }

    /// Returns whether the key has expired at this time.
    pub(crate) fn is_ended(&self, now: ClusterMs) -> bool {
        self.until <= now
    }
}

impl Versioned for KeyRecord {
    const KIND: u8 = 24;
    const VERSION: u8 = 1;
}

const USERS: u8 = 0;
const REQUESTS: u8 = 1;

impl TableKey for KeyName {
    fn write(&self, bytes: &mut Vec<u8>) {
        match self.space {
            KeySpace::Users => bytes.push(USERS),
            KeySpace::Requests { access } => {
                bytes.push(REQUESTS);
                bytes.extend_from_slice(&access.to_be_bytes());
            }
        }
        bytes.extend_from_slice(self.key.as_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (space, key) = match bytes.split_first()? {
            (&USERS, key) => (KeySpace::Users, key),
            (&REQUESTS, rest) => {
                let (access, key) = rest.split_first_chunk::<8>()?;
                let access = u64::from_be_bytes(*access);
                (KeySpace::Requests { access }, key)
            }
            _ => return None,
        };
        let key = std::str::from_utf8(key).ok()?.to_owned();
        Some(Self { space, key }).filter(Self::is_valid)
    }
}

impl Record for KeyRecord {
    type Key = KeyName;
    const PREFIX: u8 = b'q';

    fn is_sound(&self) -> bool {
        self.attempt > 0
            && self.fingerprint.len() <= MAX_FINGERPRINT_BYTES
            && self.nonce.len() <= MAX_NONCE_BYTES
            && (self.result.as_ref()).is_none_or(|result| is_text(result, MAX_ANSWER_BYTES))
    }

    fn charge(&self, key: &KeyName, charge: &mut dyn FnMut(Tenant, u64)) {
        charge(self.tenant, self.cost(key));
    }
}

/// Returns whether the bytes are a UTF-8 text of at most `most` bytes.
pub(crate) fn is_text(bytes: &Bytes, most: usize) -> bool {
    bytes.0.len() <= most && std::str::from_utf8(&bytes.0).is_ok()
}

impl Expiring for KeyRecord {
    fn deadline(&self, _: &KeyName, _: &ApplyContext<'_>) -> Option<ClusterMs> {
        Some(self.until)
    }

    fn pass(table: &mut Table<Self>, key: &KeyName, passing: Passing<'_>) {
        let is_ended = |record: &Self| record.is_ended(passing.cluster_ms);
        if table.get(key).is_some_and(is_ended) {
            table.remove(key);
        }
    }
}
