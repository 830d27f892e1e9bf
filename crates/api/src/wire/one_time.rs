//! One-time tokens.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::number_text::lenient;
use crate::request::Request;

requests! {
    /// One-time tokens that are wanted.
    IssueTokens {
        /// How long they live, in milliseconds: a day by default.
        ttl_ms: u64 as "lenient",
        /// How many, 1 to 1000. Without it one is answered, not a list.
        count: u64 as "lenient",
    }

    /// The use of a token.
    ConsumeToken {
        /// The same in each repetition of this request, at most 64 bytes: who consumed the token is
        /// told so again.
        nonce: String,
    }
}

/// One-time tokens, shown in this answer alone: one, or a list where a count was asked for.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// A token that the caller consumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenConsumed {
    /// Always true: whoever else asks is answered `token-used`.
    pub consumed: bool,
}
