//! Idempotency keys: claims and results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json_text::JsonText;
use crate::number_text::{Flag, Lenient, OptionalDecimal};

/// The header that carries the idempotency key of a request for IDs or values.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";

/// The header of a replayed response.
pub const REPLAYED_HEADER: &str = "idempotent-replayed";

requests! {
    /// A request to begin an idempotency key. It returns a claim if the caller is the first.
    BeginKey {
        /// The lifetime of the key in milliseconds: 86400000 (a day) by default.
        ttl_ms: u64 as "Lenient",
        /// The time in milliseconds during which no other caller can receive a claim: 60000 by
        /// default.
        claim_ttl_ms: u64 as "Lenient",
        /// Identifies the work, such as a hash of the request: at most 128 bytes. Another
        /// fingerprint for the same key is refused.
        fingerprint: String,
        /// A random text for this request, at most 64 bytes. A retry with the same nonce receives
        /// the same claim. Keep it secret.
        nonce: String,
    }

    /// The result of the work.
    CompleteKey {
        /// The claim, from the response to begin.
        claim: String,
        /// Any JSON, at most 16 KiB; null by default.
        result: Value,
    }

    /// The end of a claim without a result.
    AbandonKey {
        /// The claim, from the response to begin.
        claim: String,
    }

    /// A selection of keys.
    KeysQuery {
        /// Only keys with this prefix.
        prefix: String,
        /// Only keys that are charged to this tenant: `operator`, `token:` and the ID of an access
        /// token, or `address:` and an address.
        tenant: String,
        /// If true, selects the keys of requests with an `Idempotency-Key` instead of begun keys.
        requests: bool as "Flag",
        /// Items on a page, or the number of keys to delete: 1 to 1000, 100 by default.
        limit: u32 as "Lenient",
        /// The `next_cursor` of the previous page.
        cursor: String,
    }

    /// Options of a read.
    GetKeyQuery {
        /// If true, the node responds from its own state, which may be outdated, without contacting
        /// the leader.
        stale: bool as "Flag",
    }
}

impl BeginKey {
    /// One day.
    pub const DEFAULT_TTL_MS: u64 = 86_400_000;

    /// One minute.
    pub const DEFAULT_CLAIM_TTL_MS: u64 = 60_000;
}

/// The state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyState {
    /// The caller is the first. It completes the key with the claim.
    First,
    /// Another caller has the claim.
    InProgress,
    /// The claim was abandoned or expired. The next caller that begins the key is the first.
    Abandoned,
    /// The key has a result.
    Done,
}

impl KeyState {
    /// The name of the state.
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

/// The response to a caller that begins a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyBegun {
    /// The key.
    pub key: String,
    /// `first` or `done`.
    pub state: KeyState,
    /// The secret that completes or abandons the key. Only if the caller is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The fencing token of the claim, greater than that of every earlier claim. Only if the caller
    /// is the first.
    #[serde(
        default,
        with = "OptionalDecimal",
        skip_serializing_if = "Option::is_none"
    )]
    pub token: Option<u64>,
    /// The number of the attempt: 1 plus the number of claims that ended without a result.
    pub attempt: u64,
    /// The remaining time of the claim, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_expires_in_ms: Option<u64>,
    /// The remaining lifetime of the key, in milliseconds.
    pub expires_in_ms: u64,
    /// The result, if the key is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<JsonText>,
}

/// The state of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// The key.
    pub key: String,
    /// `in-progress`, `abandoned` or `done`.
    pub state: KeyState,
    /// The number of the attempt: 1 plus the number of claims that ended without a result.
    pub attempt: u64,
    /// The fingerprint. Empty if none was given.
    pub fingerprint: String,
    /// The remaining lifetime of the key, in milliseconds.
    pub expires_in_ms: u64,
    /// The remaining time of the claim in milliseconds, while the key is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_expires_in_ms: Option<u64>,
    /// The result, if the key is done.
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
    /// The tenant that it is charged to: `operator`, `token:` and the ID of an access token, or
    /// `address:` and a hash of the address.
    pub tenant: String,
    /// The number of the attempt: 1 plus the number of claims that ended without a result.
    pub attempt: u64,
    /// The charged size in bytes, including the result.
    pub bytes: u64,
    /// The remaining lifetime, in milliseconds.
    pub expires_in_ms: u64,
}

/// A key that was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyDeleted {
    /// The key.
    pub key: String,
    /// Always true. The key can be begun again, and an earlier claim is no longer valid.
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
