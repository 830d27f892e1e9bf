//! Access tokens of programs and people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::Lenient;
use crate::scope::Permission;

/// A token in a list, without its secret part, which is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessToken {
    /// Its public part, 16 hexadecimal digits.
    pub id: String,
    /// The scopes, such as `read` and `allocate:order.`.
    pub scopes: Vec<String>,
    /// A description for people.
    pub description: String,
    /// The time of creation, RFC 3339.
    pub created: String,
    /// The time of its expiry, RFC 3339. Null if it never expires.
    pub expires: Option<String>,
    /// True if it has expired by the clock of the answering node.
    pub expired: bool,
    /// Requests per second that each node serves for it. Null for no limit.
    pub per_second: Option<u32>,
}

/// A new token. No other response contains it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessCreated {
    /// The token, for the header `Authorization: Bearer`. No later response contains it.
    pub token: String,
    /// Its entry in the list.
    #[serde(flatten)]
    pub listed: AccessToken,
    /// Members that have not confirmed it and may still refuse it.
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

/// The result of a revocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessRevoked {
    /// Its public part.
    pub id: String,
    /// Always true. Each node refuses the token after it has applied the revocation.
    pub revoked: bool,
    /// Members that have not confirmed the revocation. A disconnected member accepts the token
    /// until its window ends.
    #[serde(default)]
    pub unconfirmed: Vec<String>,
}

requests! {
    /// A new token.
    CreateAccess {
        /// The scopes: 1 to 16 of `read`, `allocate` or `admin`, each also with a prefix of names,
        /// such as `allocate:order.`.
        scopes: Vec<Permission>,
        /// A description for people, at most 1024 bytes.
        description: String,
        /// The lifetime in milliseconds. It never expires by default.
        ttl_ms: u64 as "Lenient",
        /// Requests per second that each node serves for it: 1 to 1000000. No limit by default.
        per_second: u32 as "Lenient",
    }
}
