//! One-time tokens.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::Lenient;

requests! {
    /// One-time tokens that are wanted.
    IssueTokens {
        /// How long they live, in milliseconds: a day by default.
        ttl_ms: u64 as "Lenient",
        /// How many, 1 to 1000. Without it one is answered, not a list.
        count: u64 as "Lenient",
    }

    /// Which tokens are listed or deleted.
    TokensQuery {
        /// Only tokens that are charged to this tenant: `operator`, `token:` and the ID of an access
        /// token, or `address:` and an address.
        tenant: String,
        /// Items on a page, or tokens that are deleted: 1 to 1000, 100 by default.
        limit: u32 as "Lenient",
        /// `next_cursor` of the page before.
        cursor: String,
    }

    /// The use of a token.
    ConsumeToken {
        /// The same in each repetition of this request, at most 64 bytes: who consumed the token is
        /// told so again.
        nonce: String,
    }
}

/// One-time tokens, shown in this answer alone: one, or a list where a count was asked for.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokensIssued {
    /// The token: 33 of `0-9A-Za-z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Vec<String>>,
    /// For how long they are known.
    pub expires_in_ms: u64,
}

impl TokensIssued {
    /// All of them.
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
    /// Its first 11 characters; the others are secret, and not kept.
    pub id: String,
    /// Whether it was consumed.
    pub used: bool,
    /// Whom it is charged to: `operator`, `token:` and the ID of an access token, or `address:` and
    /// a hash of the address.
    pub tenant: String,
    /// For how long it is known.
    pub expires_in_ms: u64,
}

/// A token that was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenDeleted {
    /// Its first 11 characters.
    pub id: String,
    /// Always true: nobody consumes it from then on.
    pub deleted: bool,
}

/// A token that the caller consumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenConsumed {
    /// Always true: whoever else asks is answered `token-used`.
    pub consumed: bool,
}
