//! Tokens of programs and people: what each permits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::Lenient;
use crate::scope::Permission;

/// A token as it is listed: everything but the token itself, which nobody keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessToken {
    /// Its public part, 16 hexadecimal digits.
    pub id: String,
    /// What it permits, such as `read` and `allocate:order.`.
    pub scopes: Vec<String>,
    /// For people.
    pub description: String,
    /// When it was created, RFC 3339.
    pub created: String,
    /// From when on it is refused, RFC 3339; null if it never expires.
    pub expires: Option<String>,
    /// Whether it is refused by the clock of the answering node.
    pub expired: bool,
    /// Requests that each node serves for it in a second; null for no limit.
    pub per_second: Option<u32>,
}

/// A new token: the one answer that shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessCreated {
    /// The token, for the header `Authorization: Bearer`. It is shown here and never again.
    pub token: String,
    /// What is listed of it.
    #[serde(flatten)]
    pub listed: AccessToken,
    /// Members that do not know it yet, as far as is known: they refuse it until they do.
    #[serde(default)]
    pub unconfirmed: Vec<String>,
}

impl std::fmt::Debug for AccessCreated {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("AccessCreated")
            .field("listed", &self.listed)
            .finish_non_exhaustive()
    }
}

/// A token that was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessRevoked {
    /// Its public part.
    pub id: String,
    /// Always true: each node refuses it from the moment on at which it has applied this.
    pub revoked: bool,
    /// Members that have not applied that yet, as far as is known: one that is cut off lets the
    /// token in until its window of time ends.
    #[serde(default)]
    pub unconfirmed: Vec<String>,
}

requests! {
    /// A token that is to be created.
    CreateAccess {
        /// What it permits: 1 to 16.
        scopes: Vec<Permission>,
        /// For people, at most 1024 bytes.
        description: String,
        /// How long it counts, in milliseconds; for ever by default.
        ttl_ms: u64 as "Lenient",
        /// Requests that each node serves for it in a second, 1 to 1000000; no limit by default.
        per_second: u32 as "Lenient",
    }
}
