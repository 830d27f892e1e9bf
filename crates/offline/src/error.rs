//! The error of all tools.

use std::io;
use std::path::Path;

use seqd_store::faults::is_newer;
use seqd_store::stop::Stop;

/// Why a tool could not do its work, with a word for programs and a way out for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OfflineError {
    /// A word for programs, such as `folder-in-use` or `corrupt`.
    pub code: &'static str,
    pub message: String,
    /// What to do, where that is known.
    pub hint: Option<String>,
}

impl OfflineError {
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
        }
    }

    /// The same with a word on what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The disk's error at a file or a folder.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        let code = match error.kind() {
            io::ErrorKind::NotFound => "not-found",
            io::ErrorKind::InvalidData => "corrupt",
            _ if is_newer(error) => "newer-format",
            io::ErrorKind::StorageFull => "disk-full",
            _ => "failure",
        };
        let text = error.to_string();
        // The readers of files name them already.
        let name = path.display().to_string();
        if text.contains(&name) {
            Self::new(code, text)
        } else {
            Self::new(code, format!("{name}: {text}"))
        }
    }
}

pub(super) fn from_stop(stop: Stop) -> OfflineError {
    OfflineError::new(stop.code(), stop.message)
}

pub(super) fn from_io(path: &Path) -> impl Fn(io::Error) -> OfflineError + '_ {
    move |error| OfflineError::io(path, &error)
}
