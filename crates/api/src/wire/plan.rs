//! What a change would do, without its effect.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Layout, Sequence};

/// The answer to `?dry_run=1`: the server checked the request as it checks the real one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Always true: nothing was changed.
    pub dry_run: bool,
    /// The effect of the request, for people.
    pub effect: String,
    /// The resulting sequence. Null if it would be deleted, or for other requests.
    #[serde(default)]
    pub sequence: Option<Sequence>,
    /// The resulting layout. Null for other requests.
    #[serde(default)]
    pub layout: Option<Layout>,
}

impl Plan {
    /// A plan with this effect.
    #[must_use]
    pub fn new(effect: String, sequence: Option<Sequence>) -> Self {
        Self {
            dry_run: true,
            effect,
            sequence,
            layout: None,
        }
    }
}
