//! An error on the wire: RFC 9457 problem details with a stable code.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::code::ErrorCode;
use crate::exit;

/// The media type of every error answer.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// When a request that may be repeated makes sense again, where nothing better is known.
const RETRY_AFTER_MS: u32 = 1000;

/// Why a request was not served, as it is sent and as a client reads it.
///
/// Its texts are `Box<str>` so that a `Result` that carries it stays small.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// `/problems/{code}`: a page that explains the code.
    #[serde(rename = "type", default)]
    pub kind: Box<str>,
    /// The short title of the code.
    #[serde(default)]
    pub title: Box<str>,
    /// The HTTP status.
    pub status: u16,
    /// The stable code; a string, since a newer server may send one that this version lacks.
    pub code: Box<str>,
    /// What happened this time.
    #[serde(default)]
    pub detail: Box<str>,
    /// Whether the request certainly had no effect and may be repeated.
    #[serde(default)]
    pub retryable: bool,
    /// When a repetition makes sense, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u32>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Box<str>>,
    /// Members that belong to one code alone, such as the holder of a lock.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Problem {
    /// A problem of this code; status, title and retryability come from the table. One of status 429 or
    /// 503 asks for a repetition after a second.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let row = code.row();
        Self {
            kind: format!("/problems/{}", row.code).into(),
            title: row.title.into(),
            status: row.status,
            code: row.code.into(),
            detail: detail.into().into_boxed_str(),
            retryable: row.retryable,
            retry_after_ms: matches!(row.status, 429 | 503).then_some(RETRY_AFTER_MS),
            hint: None,
            extra: Map::new(),
        }
    }

    /// The same with a hint about the way out.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into_boxed_str());
        self
    }

    /// The same with the time after which a repetition makes sense.
    #[must_use]
    pub fn with_retry_after_ms(mut self, retry_after_ms: u32) -> Self {
        self.retry_after_ms = Some(retry_after_ms);
        self
    }

    /// The same with one more member that belongs to this code.
    #[must_use]
    pub fn with_extra(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
        self
    }

    /// The code, if this version knows it.
    #[must_use]
    pub fn error_code(&self) -> Option<ErrorCode> {
        self.code.parse().ok()
    }

    /// The exit code of a command that met this problem.
    #[must_use]
    pub fn exit(&self) -> u8 {
        self.error_code()
            .map_or_else(|| exit::for_status(self.status), ErrorCode::exit)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.detail.is_empty() {
            &self.title
        } else {
            &self.detail
        };
        write!(f, "{}: {text}", self.code)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_written_as_published() {
        let problem = Problem::new(ErrorCode::NoQuorum, "seen 1 of 3")
            .with_retry_after_ms(1000)
            .with_hint("start another node");
        assert_eq!(
            serde_json::to_string(&problem).unwrap(),
            r#"{"type":"/problems/no-quorum","title":"No leader is in contact with a quorum","status":503,"code":"no-quorum","detail":"seen 1 of 3","retryable":true,"retry_after_ms":1000,"hint":"start another node"}"#
        );
    }

    #[test]
    fn a_problem_of_a_newer_server_is_read() {
        let problem: Problem = serde_json::from_str(
            r#"{"status":409,"code":"brand-new","retryable":false,"holder":{"owner":"a"}}"#,
        )
        .unwrap();
        assert_eq!(problem.error_code(), None);
        assert_eq!(problem.exit(), exit::CONFLICT);
        assert_eq!(problem.extra["holder"]["owner"], "a");
    }
}
