//! Access tokens: the table of tokens with the permissions of each.
//!
//! Invariants:
//! - The table never contains a token itself, only the hash of its secret.
//! - A revoked token never becomes valid again: a restored cluster has no tokens.
//!
//! The reader decides by its own wall clock whether a token has expired, as with a certificate. An
//! expired token stays in the table until it is revoked, so that it appears in lists.

use std::fmt;

use seqd_idgen::WallMs;
use serde::{Deserialize, Serialize};

use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::newtypes::AccessId;
use crate::table::record;

/// The maximum number of tokens. All of them are held in memory, and at maximum size they take 6
/// MiB of a snapshot.
pub const MAX_TOKENS: usize = 1000;

/// The maximum number of permissions of one token: more than a service has prefixes.
pub const MAX_PERMISSIONS: usize = 16;

/// The maximum length of a prefix, in bytes: no name is longer.
pub const MAX_PREFIX_BYTES: usize = 255;

/// The highest limit that can be set, in requests per second.
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

/// The permitted operations. Each scope includes the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    Read,
    Allocate,
    Admin,
}

/// A scope, for the names that begin with a prefix. The empty prefix covers all names and the
/// cluster itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Permission {
    pub scope: Scope,
    pub prefix: String,
}

impl Permission {
    /// Returns whether the permission covers the whole cluster.
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
    /// Shown to users only.
    pub description: String,
    /// The wall clock of the entry that created the token.
    #[serde(with = "crate::foreign::WallMsDef")]
    pub created: WallMs,
    /// The time in Unix milliseconds from which the token is refused.
    pub expires_ms: Option<u64>,
    /// The number of requests per second that each node serves.
    pub per_second: Option<u32>,
}

impl AccessRecord {
    #[must_use]
    pub fn is_expired(&self, now: WallMs) -> bool {
        self.expires_ms.is_some_and(|expires| now.0 >= expires)
    }
}

record!(AccessRecord, kind 20, version 1, prefix b'x', key AccessId);

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

/// The result of an [`AccessCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessOutcome {
    Created { id: AccessId },
    Revoked { id: AccessId },
}

/// The reason why an [`AccessCommand`] changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum AccessRefusal {
    #[error("there is no token {id}")]
    NotFound { id: AccessId },
    #[error("token {id} already exists")]
    Exists { id: AccessId },
    #[error("there are {MAX_TOKENS} tokens, the maximum of a cluster: revoke some of them")]
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
