//! The commands that begin, complete and abandon a key, their outcomes and their refusals.

use std::slice;

use serde::{Deserialize, Serialize};

use super::record::{
    KeyClaim, KeyName, MAX_ANSWER_BYTES, MAX_FINGERPRINT_BYTES, MAX_KEY_BYTES, MAX_NONCE_BYTES,
    MAX_RESULT_BYTES, is_text,
};
use crate::codec::Bytes;
use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::newtypes::ClusterMs;
use crate::tenant::Tenant;

/// The shortest lifetime of a key and of a one-time token. A shorter one would protect no retry.
pub const MIN_TTL_MS: u64 = 1_000;

/// The longest lifetime of a key and of a one-time token: 30 days. Few queues deliver a message
/// again later than that, and one key per request of a month is as many as a cluster can keep.
pub const MAX_TTL_MS: u64 = 30 * 86_400_000;

/// The shortest lifetime of a claim: a few round trips.
pub const MIN_CLAIM_TTL_MS: u64 = 100;

/// The longest lifetime of a claim: a day. Other callers wait this long for a holder that has died.
pub const MAX_CLAIM_TTL_MS: u64 = 86_400_000;

/// The maximum number of keys, expired ones included. At about 500 bytes each, including the index,
/// they take 2 GB of a node's memory. A node's own limit (`limits.keys`) is far lower.
pub const MAX_KEYS: usize = 4_000_000;

/// The maximum size of all keys together, in bytes. They are held in memory and in each snapshot. A
/// node's own limit (`limits.key_bytes`) is lower.
pub const MAX_KEY_BYTES_IN_ALL: u64 = 1 << 30;

/// The maximum number of keys, or one-time tokens, that one command removes. Such a command is
/// applied in a few milliseconds, and with the longest keys it has a quarter of the maximum size of
/// a command.
pub const MAX_REMOVED: usize = 1000;

/// Begins an idempotency key. Returns a claim if the caller is the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginKey {
    pub name: KeyName,
    /// The tenant to which the key is charged if this request takes the claim.
    pub tenant: Tenant,
    pub ttl_ms: u64,
    pub claim_ttl_ms: u64,
    /// Identifies the operation; may be empty.
    pub fingerprint: String,
    /// The same in every retry of a request; empty for no nonce.
    pub nonce: String,
}

/// A change of the keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyCommand {
    Begin(BeginKey),
    /// Stores the result of the claim holder's operation.
    Complete {
        name: KeyName,
        claim: KeyClaim,
        result: Bytes,
    },
    /// Ends a claim without a result.
    Abandon {
        name: KeyName,
        claim: KeyClaim,
    },
    /// Removes keys together with their claims and results, on behalf of an operator.
    Remove {
        names: Vec<KeyName>,
    },
}

/// The result of a [`KeyCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyOutcome {
    /// The caller performs the operation and completes the key with this claim.
    First {
        claim: KeyClaim,
        /// Above 1 if an earlier claim ended without a result.
        attempt: u64,
        claim_until: ClusterMs,
        until: ClusterMs,
        /// The cluster time of the response.
        now: ClusterMs,
    },
    /// Another caller holds the claim.
    InProgress {
        attempt: u64,
        claim_until: ClusterMs,
        /// The cluster time of the response.
        now: ClusterMs,
    },
    /// There is a result. It stays in the record, because the outcomes of thousands of commands
    /// travel in one message between nodes.
    Done {
        attempt: u64,
    },
    /// The key was begun with another fingerprint.
    Mismatch,
    Completed,
    Abandoned {
        attempt: u64,
    },
    /// The number of keys that existed.
    Removed {
        count: u64,
    },
}

/// The reason why a [`KeyCommand`] changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum KeyRefusal {
    #[error(
        "the key {name} does not have this claim: another caller took over the key, the key was \
         completed or expired, or the claim is wrong"
    )]
    ClaimLost { name: KeyName },
    #[error("there are {MAX_KEYS} keys, which is the maximum of a cluster")]
    TooManyKeys,
    #[error(
        "the keys and their results have {MAX_KEY_BYTES_IN_ALL} bytes, which is the maximum of a \
         cluster"
    )]
    TooManyBytes,
    #[error("a key has 1 to {MAX_KEY_BYTES} printable ASCII characters")]
    InvalidKey,
    #[error("the ttl of a key must be {MIN_TTL_MS} to {MAX_TTL_MS} ms, not {ttl_ms}")]
    InvalidTtl { ttl_ms: u64 },
    #[error("the ttl of a claim must be {MIN_CLAIM_TTL_MS} to {MAX_CLAIM_TTL_MS} ms, not {ttl_ms}")]
    InvalidClaimTtl { ttl_ms: u64 },
    #[error(
        "a fingerprint has at most {MAX_FINGERPRINT_BYTES} bytes and a nonce {MAX_NONCE_BYTES}"
    )]
    InvalidText,
    #[error(
        "a result is a text of at most {limit} bytes ({MAX_RESULT_BYTES} of a user's key, \
         {MAX_ANSWER_BYTES} of a request's)"
    )]
    InvalidResult { limit: u64 },
    #[error("1 to {MAX_REMOVED} keys can be removed at once, not {count}")]
    InvalidCount { count: u64 },
}

impl FrameTable for KeyCommand {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0801), // Begin
        row(0x0802), // Complete
        row(0x0803), // Abandon
        row(0x0804), // Remove
    ];
}

impl FrameTable for KeyOutcome {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0841), // First
        row(0x0842), // InProgress
        row(0x0843), // Done
        row(0x0844), // Mismatch
        row(0x0845), // Completed
        row(0x0846), // Abandoned
        row(0x0847), // Removed
    ];
}

impl FrameTable for KeyRefusal {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0881), // ClaimLost
        row(0x0882), // TooManyKeys
        row(0x0883), // TooManyBytes
        row(0x0884), // InvalidKey
        row(0x0885), // InvalidTtl
        row(0x0886), // InvalidClaimTtl
        row(0x0887), // InvalidText
        row(0x0888), // InvalidResult
        row(0x0889), // InvalidCount
    ];
}

impl KeyCommand {
    fn names(&self) -> &[KeyName] {
        match self {
            Self::Begin(begin) => slice::from_ref(&begin.name),
            Self::Complete { name, .. } | Self::Abandon { name, .. } => slice::from_ref(name),
            Self::Remove { names } => names,
        }
    }

    /// Refuses a command that is invalid in every state.
    pub(crate) fn check(&self) -> Result<(), KeyRefusal> {
        if !self.names().iter().all(KeyName::is_valid) {
            return Err(KeyRefusal::InvalidKey);
        }
        match self {
            Self::Begin(begin) => begin.check(),
            Self::Complete { name, result, .. } => {
                let limit = name.space.max_result_bytes();
                let is_fit = is_text(result, limit);
                let limit = limit as u64;
                is_fit
                    .then_some(())
                    .ok_or(KeyRefusal::InvalidResult { limit })
            }
            Self::Abandon { .. } => Ok(()),
            Self::Remove { names } if (1..=MAX_REMOVED).contains(&names.len()) => Ok(()),
            Self::Remove { names } => Err(KeyRefusal::InvalidCount {
                count: names.len() as u64,
            }),
        }
    }
}

impl BeginKey {
    fn check(&self) -> Result<(), KeyRefusal> {
        let ttl_ms = self.ttl_ms;
        if !(MIN_TTL_MS..=MAX_TTL_MS).contains(&ttl_ms) {
            return Err(KeyRefusal::InvalidTtl { ttl_ms });
        }
        let ttl_ms = self.claim_ttl_ms;
        if !(MIN_CLAIM_TTL_MS..=MAX_CLAIM_TTL_MS).contains(&ttl_ms) {
            return Err(KeyRefusal::InvalidClaimTtl { ttl_ms });
        }
        if self.fingerprint.len() > MAX_FINGERPRINT_BYTES || self.nonce.len() > MAX_NONCE_BYTES {
            return Err(KeyRefusal::InvalidText);
        }
        Ok(())
    }
}
