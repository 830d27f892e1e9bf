//! An error on the wire: RFC 9457 problem details with a stable code.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::code::ErrorCode;
use crate::exit;

/// The media type of every error response.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The member of a problem that is `true` in the response of a port that requires TLS to a request
/// without it. Nothing of that request was processed.
pub const TLS_REQUIRED: &str = "tls_required";

/// The default time after which a retryable request should be sent again.
const RETRY_AFTER_MS: u32 = 1000;

/// The reason why a request was not served: the body of every error response.
///
/// Its texts are `Box<str>` so that a `Result` that contains it stays small.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// `/problems/{code}`, the path of a page that explains the code.
    #[serde(rename = "type", default)]
    pub kind: Box<str>,
    /// The short title of the code.
    #[serde(default)]
    pub title: Box<str>,
    /// The HTTP status.
    pub status: u16,
    /// The stable code. It is a string because a newer server may send a code that this version
    /// does not define.
    pub code: Box<str>,
    /// A description of this occurrence.
    #[serde(default)]
    pub detail: Box<str>,
    /// True if the request certainly had no effect and may be retried.
    #[serde(default)]
    pub retryable: bool,
    /// The time after which a retry can succeed, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u32>,
    /// The remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Box<str>>,
    /// Members that are specific to a code, such as the holder of a lock.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Problem {
    /// Returns whether the problem has this code.
    #[must_use]
    pub fn is(&self, code: ErrorCode) -> bool {
        *self.code == *code.as_str()
    }

    /// Creates a problem with this code. The status, the title and the retryability come from the
    /// table. A problem with the status 429 or 503 suggests a retry after one second.
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

    /// Adds a hint about the remedy.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into_boxed_str());
        self
    }

    /// Sets the time after which a retry can succeed.
    #[must_use]
    pub fn with_retry_after_ms(mut self, retry_after_ms: u32) -> Self {
        self.retry_after_ms = Some(retry_after_ms);
        self
    }

    /// Adds a member that is specific to this code.
    #[must_use]
    pub fn with_extra(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
        self
    }

    /// Returns the code if this version defines it.
    #[must_use]
    pub fn error_code(&self) -> Option<ErrorCode> {
        ErrorCode::of(&self.code)
    }

    /// Returns the exit code of a command that receives this problem.
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
