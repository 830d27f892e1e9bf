//! Dry runs: the effect that a change would have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Layout, Sequence};

/// The response to a request with `?dry_run=1`. The server checks it like a real request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Always true. Nothing was changed.
    pub dry_run: bool,
    /// The effect of the request, for people.
    pub effect: String,
    /// The resulting sequence. Null for other requests, or if the sequence would be deleted.
    #[serde(default)]
    pub sequence: Option<Sequence>,
    /// The resulting layout. Null for other requests.
    #[serde(default)]
    pub layout: Option<Layout>,
    /// True if the request deletes one page of the selected objects, and others may remain.
    #[serde(default)]
    pub more: bool,
}

impl Plan {
    /// Returns a plan with this effect.
    #[must_use]
    pub fn new(effect: String, sequence: Option<Sequence>) -> Self {
        Self {
            dry_run: true,
            effect,
            sequence,
            layout: None,
            more: false,
        }
    }
}
