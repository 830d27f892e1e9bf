//! What is wrong with a file or a certificate, in words for an operator.

/// A sentence that says what is wrong, and where it helps what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(pub(crate) String);

impl TlsError {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}
