//! A key, the claim of the caller who was told to go on, and the result once there is one.
//!
//! Invariants:
//! - A key is there while the cluster time is below its end, whether or not its row was dropped yet.
//! - A result never changes while the key is there.
//! - Each claim of a key is larger than the one before it, and has an attempt number of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::codec::{Bytes, Versioned};
use crate::context::ApplyContext;
use crate::deadlines::{Expiring, Passing};
use crate::newtypes::ClusterMs;
use crate::table::{Record, Table};
use crate::tenant::Tenant;

/// The most bytes of a key: that of a path's part which people and programs still make up.
pub const MAX_KEY_BYTES: usize = 255;

/// The most bytes of a fingerprint: two SHA-256 in hexadecimal.
pub const MAX_FINGERPRINT_BYTES: usize = 128;

/// The most bytes of a nonce, of a key's and of a one-time token's: SHA-256 in hexadecimal.
pub const MAX_NONCE_BYTES: usize = 64;

/// The most bytes of a result of a users' key: a result is a reference to what was done, with
/// room for a small document.
pub const MAX_RESULT_BYTES: usize = 16 << 10;

/// The most bytes of an answer that is kept for a request with a key: a thousand IDs of the widest
/// form, the most that such a request may ask for, are 200,000.
pub const MAX_ANSWER_BYTES: usize = 256 << 10;

/// What each key costs beside its texts, in bytes: its record, its places in the table and in the
/// index of deadlines, and its row.
pub(crate) const KEY_OVERHEAD_BYTES: usize = 384;

/// What a key without a result is charged for it, in bytes: a result up to this length can be kept
/// whatever else was kept since the key was begun.
pub const RESERVED_RESULT_BYTES: usize = 256;

/// Whose keys they are. One key in two spaces is two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeySpace {
    /// Keys that users begin and complete themselves.
    Users,
    /// Keys of requests to the cluster, with the ID of the access token that they came with, 0 for
    /// none: two tenants' keys do not meet.
    Requests { access: u64 },
}

impl KeySpace {
    /// The most bytes of a result.
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
    /// Whether the key has 1 to 255 printable ASCII characters.
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

/// The right to complete a key. Drawn from the cluster's counter, so each is larger than all before.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct KeyClaim(pub u64);

impl fmt::Display for KeyClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key. Its name is the row's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// Who began it.
    pub tenant: Tenant,
    /// What the caller wants done; another one under the same key is refused.
    pub fingerprint: String,
    /// 1 for the first claim, one more for each that followed it.
    pub attempt: u64,
    /// The latest claim; `None` once it was abandoned.
    pub claim: Option<KeyClaim>,
    /// From then on another caller is told to go on.
    pub claim_until: ClusterMs,
    /// Of the request that took the claim; empty for none.
    pub nonce: String,
    /// The key's end.
    pub until: ClusterMs,
    /// `None` while the key is in progress.
    pub result: Option<Bytes>,
}

impl KeyRecord {
    /// Whether somebody was told to go on and may still be at it.
    #[must_use]
    pub fn is_claimed(&self, now: ClusterMs) -> bool {
        self.result.is_none() && self.claim.is_some() && now < self.claim_until
    }

    /// What it costs in memory, in bytes. Its name stands in the table and in the index of
    /// deadlines.
    #[must_use]
    pub fn cost(&self, name: &KeyName) -> u64 {
        let texts = 2 * name.key.len() + self.fingerprint.len() + self.nonce.len();
        let result = (self.result.as_ref()).map_or(RESERVED_RESULT_BYTES, |result| result.0.len());
        (KEY_OVERHEAD_BYTES + texts + result) as u64
    }

    /// Whether the key is unknown at this time.
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

impl Record for KeyRecord {
    type Key = KeyName;
    const PREFIX: u8 = b'q';

    fn write_key(key: &KeyName, bytes: &mut Vec<u8>) {
        match key.space {
            KeySpace::Users => bytes.push(USERS),
            KeySpace::Requests { access } => {
                bytes.push(REQUESTS);
                bytes.extend_from_slice(&access.to_be_bytes());
            }
        }
        bytes.extend_from_slice(key.key.as_bytes());
    }

    fn read_key(bytes: &[u8]) -> Option<KeyName> {
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
        Some(KeyName { space, key }).filter(KeyName::is_valid)
    }

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

/// Whether bytes are a text of at most so many.
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
