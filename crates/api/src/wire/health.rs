//! Health and version.

use serde::{Deserialize, Serialize};

/// What `/readyz` answers when the node is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The version, such as `0.1.0`.
    pub version: String,
    /// The revision that it was built from, where known.
    #[serde(default)]
    pub revision: Option<String>,
}
