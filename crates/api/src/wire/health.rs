//! What a node answers about itself: health, version, configuration, what an error code means.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::Flag;
use crate::{ErrorCode, Request};

/// What `/livez` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Live {
    /// Always true: a process that does not run answers nothing.
    pub live: bool,
}

/// What is asked of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadyQuery {
    /// `ids` checks minting alone; everything by default.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub for_what: Option<String>,
    /// Each check in the answer.
    #[serde(default, with = "Flag", skip_serializing_if = "Option::is_none")]
    pub verbose: Option<bool>,
}

impl Request for ReadyQuery {
    const FIELDS: &'static [&'static str] = &["for", "verbose"];
}

/// What `/readyz` answers when the node is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ready {
    /// Always true in a 200; a node that is not ready answers with a problem.
    pub ready: bool,
    /// The node.
    pub node: String,
    /// Each check, if asked for with `verbose`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

/// One check of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// Whether it is well.
    pub ok: bool,
    /// The error code that requests meet while it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What was seen.
    #[serde(default)]
    pub detail: String,
    /// Until when it holds, RFC 3339: the end of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// What `/version` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The version, such as `0.1.0`.
    pub version: String,
    /// The revision that it was built from, where known.
    #[serde(default)]
    pub revision: Option<String>,
}

/// What `/v1/config` answers.
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
    /// The value that is in force; null where none is.
    pub value: Option<String>,
    /// Where the value comes from.
    pub origin: String,
}

/// What `/problems/{code}` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodePage {
    /// The path of this page.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code.
    pub code: String,
    /// Its short title.
    pub title: String,
    /// The HTTP status of answers with it.
    pub status: u16,
    /// The exit code of commands that met it.
    pub exit: u8,
    /// Whether the request certainly had no effect and may be repeated.
    pub retryable: bool,
    /// When it is answered.
    #[serde(default)]
    pub when: String,
    /// What to do then.
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
