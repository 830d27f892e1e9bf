//! Idempotency keys: who is told to go on, and what came of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json_text::JsonText;
use crate::number_text::{Flag, Lenient, OptionalDecimal};

/// The header with which a request that takes IDs or values is answered once.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";

/// Stands on an answer that was given before.
pub const REPLAYED_HEADER: &str = "idempotent-replayed";

requests! {
    /// Asks to be told to go on.
    BeginKey {
        /// How long the key lives, in milliseconds: 86400000 (a day) by default.
        ttl_ms: u64 as "Lenient",
        /// How long the claim is the caller's alone, in milliseconds: 60000 by default. After that
        /// another caller can receive a claim.
        claim_ttl_ms: u64 as "Lenient",
        /// What is to be done, such as a hash of the request: at most 128 bytes. Another one under
        /// the same key is refused.
        fingerprint: String,
        /// Drawn at random for this request, at most 64 bytes: a repeated request returns the same
        /// claim. Keep it secret.
        nonce: String,
    }

    /// What came of it.
    CompleteKey {
        /// The claim, from the response to begin.
        claim: String,
        /// Any JSON, at most 16 KiB; null by default.
        result: Value,
    }

    /// Ends a claim without a result.
    AbandonKey {
        /// The claim, from the response to begin.
        claim: String,
    }

    /// Which keys are listed or deleted.
    KeysQuery {
        /// Only keys that begin with this.
        prefix: String,
        /// Only keys that are charged to this tenant: `operator`, `token:` and the ID of an access
        /// token, or `address:` and an address.
        tenant: String,
        /// The keys of requests with an `Idempotency-Key`, in place of those that were begun.
        requests: bool as "Flag",
        /// Items on a page, or keys that are deleted: 1 to 1000, 100 by default.
        limit: u32 as "Lenient",
        /// `next_cursor` of the page before.
        cursor: String,
    }

    /// How a key is read.
    GetKeyQuery {
        /// From the answering node's own state, which may be behind.
        stale: bool as "Flag",
    }
}

impl BeginKey {
    /// A day.
    pub const DEFAULT_TTL_MS: u64 = 86_400_000;

    /// A minute.
    pub const DEFAULT_CLAIM_TTL_MS: u64 = 60_000;
}

/// How a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyState {
    /// The caller goes on, and completes the key with the claim.
    First,
    /// Another caller goes on.
    InProgress,
    /// Nobody goes on: the claim was abandoned or is over. The next who begins is told to.
    Abandoned,
    /// There is a result.
    Done,
}

impl KeyState {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::InProgress => "in-progress",
            Self::Abandoned => "abandoned",
            Self::Done => "done",
        }
    }
}

/// The answer to who begins a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyBegun {
    /// The key.
    pub key: String,
    /// `first` or `done`.
    pub state: KeyState,
    /// The secret that completes or abandons the key; where the caller goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The fencing token of the claim, greater than that of every claim before it; where the caller
    /// goes on.
    #[serde(
        default,
        with = "OptionalDecimal",
        skip_serializing_if = "Option::is_none"
    )]
    pub token: Option<u64>,
    /// 1, and one more each time that a claim ended without a result.
    pub attempt: u64,
    /// For how long the claim is the caller's alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_expires_in_ms: Option<u64>,
    /// For how long the key is known.
    pub expires_in_ms: u64,
    /// What came of it; where it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<JsonText>,
}

/// A key as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// The key.
    pub key: String,
    /// `in-progress`, `abandoned` or `done`.
    pub state: KeyState,
    /// 1, and one more each time that a claim ended without a result.
    pub attempt: u64,
    /// What is done under it; empty if none was given.
    pub fingerprint: String,
    /// For how long the key is known.
    pub expires_in_ms: u64,
    /// For how long the claim is one caller's alone; while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_expires_in_ms: Option<u64>,
    /// What came of it; where it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<JsonText>,
}

/// A key in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedKey {
    /// The key.
    pub key: String,
    /// `in-progress`, `abandoned` or `done`.
    pub state: KeyState,
    /// Whom it is charged to: `operator`, `token:` and the ID of an access token, or `address:` and
    /// a hash of the address.
    pub tenant: String,
    /// 1, and one more each time that a claim ended without a result.
    pub attempt: u64,
    /// What it is charged, its result included.
    pub bytes: u64,
    /// For how long it is known.
    pub expires_in_ms: u64,
}

/// A key that was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyDeleted {
    /// The key.
    pub key: String,
    /// Always true: it can be begun anew, and a claim of it is lost.
    pub deleted: bool,
}

/// A key that was completed or abandoned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyEnded {
    /// The key.
    pub key: String,
    /// `done` or `abandoned`.
    pub state: KeyState,
}
