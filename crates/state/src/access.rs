//! Who may use the cluster: a table of tokens with what each permits.
//!
//! Invariants:
//! - A token itself is never here: only the hash of its secret.
//! - A token that was revoked is never valid again: a restored cluster has none.
//!
//! When a token expires is for the reader to judge, by its own wall clock, as with a certificate:
//! an expired one stays in the table until it is revoked, so that a list shows it.

use std::fmt;

use seqd_idgen::WallMs;
use serde::{Deserialize, Serialize};

use crate::codec::Versioned;
use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::newtypes::AccessId;
use crate::table::Record;

/// The most tokens: each is held in memory, and at their largest all of them take 6 MiB of a
/// snapshot.
pub const MAX_TOKENS: usize = 1000;

/// The most permissions of one token: more than a service has prefixes.
pub const MAX_PERMISSIONS: usize = 16;

/// The most bytes of a prefix: no name is longer.
pub const MAX_PREFIX_BYTES: usize = 255;

/// The most requests a second that a limit can allow.
pub const MAX_PER_SECOND: u32 = 1_000_000;

/// SHA-256 of a token's secret.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenHash(pub [u8; 32]);

impl fmt::Debug for TokenHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TokenHash(..)")
    }
}

/// What may be done. Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    Read,
    Allocate,
    Admin,
}

/// A scope, for the names that begin with a prefix. An empty one is that of all names, and of the
/// cluster itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Permission {
    pub scope: Scope,
    pub prefix: String,
}

impl Permission {
    /// Whether it covers the whole cluster.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.prefix.is_empty()
    }
}

/// A token. Its ID is the row's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRecord {
    pub hash: TokenHash,
    pub permissions: Vec<Permission>,
    /// For people.
    pub description: String,
    /// Wall clock of the entry that created it.
    #[serde(with = "crate::foreign::wall_ms")]
    pub created: WallMs,
    /// From then on it is refused, in Unix milliseconds.
    pub expires_ms: Option<u64>,
    /// Requests that each node serves in a second.
    pub per_second: Option<u32>,
}

impl AccessRecord {
    #[must_use]
    pub fn is_expired(&self, now: WallMs) -> bool {
        self.expires_ms.is_some_and(|expires| now.0 >= expires)
    }
}

impl Versioned for AccessRecord {
    const KIND: u8 = 20;
    const VERSION: u8 = 1;
}

impl Record for AccessRecord {
    type Key = AccessId;
    const PREFIX: u8 = b'x';

    fn write_key(key: &AccessId, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&key.0.to_be_bytes());
    }

    fn read_key(bytes: &[u8]) -> Option<AccessId> {
        Some(AccessId(u64::from_be_bytes(bytes.try_into().ok()?)))
    }
}

/// A change of the tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessCommand {
    Create {
        id: AccessId,
        hash: TokenHash,
        permissions: Vec<Permission>,
        description: String,
        expires_ms: Option<u64>,
        per_second: Option<u32>,
    },
    Revoke {
        id: AccessId,
    },
}

/// What became of an [`AccessCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessOutcome {
    Created { id: AccessId },
    Revoked { id: AccessId },
}

/// Why an [`AccessCommand`] changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum AccessRefusal {
    #[error("there is no token {id}")]
    NotFound { id: AccessId },
    #[error("there is a token {id} already")]
    Exists { id: AccessId },
    #[error("there are {MAX_TOKENS} tokens, the most that a cluster keeps: revoke some")]
    TooMany,
    #[error(
        "a token has 1 to {MAX_PERMISSIONS} permissions, each with a prefix of at most \
         {MAX_PREFIX_BYTES} printable ASCII characters"
    )]
    InvalidPermissions,
    #[error("a token serves 1 to {MAX_PER_SECOND} requests a second")]
    InvalidRate,
}

impl FrameTable for AccessCommand {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0501), // Create
        row(0x0502), // Revoke
    ];
}

impl FrameTable for AccessOutcome {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0541), // Created
        row(0x0542), // Revoked
    ];
}

impl FrameTable for AccessRefusal {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0581), // NotFound
        row(0x0582), // Exists
        row(0x0583), // TooMany
        row(0x0584), // InvalidPermissions
        row(0x0585), // InvalidRate
    ];
}
