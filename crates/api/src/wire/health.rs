//! The endpoints by which a node describes itself: health, version, configuration and error codes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::Flag;
use crate::{ErrorCode, Request};

/// The response of `/livez`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Live {
    /// Always true.
    pub live: bool,
}

/// The options of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadyQuery {
    /// `ids` checks only whether the node can issue IDs. Everything is checked by default.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub for_what: Option<String>,
    /// If true, the response lists each check.
    #[serde(default, with = "Flag", skip_serializing_if = "Option::is_none")]
    pub verbose: Option<bool>,
}

impl Request for ReadyQuery {
    const FIELDS: &'static [&'static str] = &["for", "verbose"];
}

/// The response of `/readyz` if the node is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ready {
    /// Always true. A node that is not ready returns a problem.
    pub ready: bool,
    /// The node.
    pub node: String,
    /// Each check, if the request has `verbose`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

/// One check of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The name of the check.
    pub name: String,
    /// True if it passed.
    pub ok: bool,
    /// The error code of requests while it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Details of the result.
    #[serde(default)]
    pub detail: String,
    /// The end of the minting window, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// The response of `/version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The version, such as `0.1.0`.
    pub version: String,
    /// The revision of the source, if known.
    #[serde(default)]
    pub revision: Option<String>,
}

/// The response of `/v1/config`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigEntries {
    /// Every key, in the order of the documentation.
    pub items: Vec<ConfigEntry>,
}

/// One configuration key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigEntry {
    /// The key.
    pub key: String,
    /// The value in force. Null if there is none.
    pub value: Option<String>,
    /// The origin of the value.
    pub origin: String,
}

/// The response of `/problems/{code}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodePage {
    /// The path of this page.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code.
    pub code: String,
    /// Its short title.
    pub title: String,
    /// The HTTP status of responses with this code.
    pub status: u16,
    /// The exit code of a command that receives it.
    pub exit: u8,
    /// True if the request certainly had no effect and may be retried.
    pub retryable: bool,
    /// The condition under which it is returned.
    #[serde(default)]
    pub when: String,
    /// The remedy.
    #[serde(default)]
    pub what_to_do: String,
}

impl CodePage {
    /// The page of a code.
    #[must_use]
    pub fn of(code: ErrorCode) -> Self {
        let row = code.row();
        Self {
            kind: format!("/problems/{}", row.code),
            code: row.code.to_owned(),
            title: row.title.to_owned(),
            status: row.status,
            exit: row.exit,
            retryable: row.retryable,
            when: row.when.to_owned(),
            what_to_do: row.what_to_do.to_owned(),
        }
    }
}
