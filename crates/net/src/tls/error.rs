//! Errors of files and certificates, as messages for an operator.

/// A sentence that states the error and, if there is one, the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(pub(crate) String);

impl TlsError {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}
