//! One-time tokens.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::Lenient;

requests! {
    /// A request for one-time tokens.
    IssueTokens {
        /// The lifetime in milliseconds: 86400000 (a day) by default.
        ttl_ms: u64 as "Lenient",
        /// The number of tokens, 1 to 1000. Without it, the response has one token instead of a
        /// list.
        count: u64 as "Lenient",
    }

    /// A selection of tokens.
    TokensQuery {
        /// Only tokens that are charged to this tenant: `operator`, `token:` and the ID of an
        /// access token, or `address:` and an address.
        tenant: String,
        /// Items on a page, or the number of tokens to delete: 1 to 1000, 100 by default.
        limit: u32 as "Lenient",
        /// The `next_cursor` of the previous page.
        cursor: String,
    }

    /// The use of a token.
    ConsumeToken {
        /// A text of at most 64 bytes. A retry with the same nonce succeeds again.
        nonce: String,
    }
}

/// Issued one-time tokens: one token, or a list if the request has a count. No later response
/// contains them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokensIssued {
    /// The token: 33 characters of `0-9A-Za-z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Vec<String>>,
    /// The lifetime, in milliseconds.
    pub expires_in_ms: u64,
}

impl TokensIssued {
    /// Returns all tokens.
    pub fn each(&self) -> impl Iterator<Item = &String> {
        self.token.iter().chain(self.tokens.iter().flatten())
    }
}

impl fmt::Debug for TokensIssued {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TokensIssued").finish_non_exhaustive()
    }
}

/// A token in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedToken {
    /// The first 11 characters. The others are secret and not stored.
    pub id: String,
    /// True if it was consumed.
    pub used: bool,
    /// The tenant that it is charged to: `operator`, `token:` and the ID of an access token, or
    /// `address:` and a hash of the address.
    pub tenant: String,
    /// The remaining lifetime, in milliseconds.
    pub expires_in_ms: u64,
}

/// A token that was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenDeleted {
    /// Its first 11 characters.
    pub id: String,
    /// Always true. The token can no longer be consumed.
    pub deleted: bool,
}

/// A token that the caller consumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenConsumed {
    /// Always true. Other requests receive `token-used`.
    pub consumed: bool,
}
