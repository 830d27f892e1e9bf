//! The error type of all tools.

use std::io;
use std::path::Path;

use seqd_store::disk_errors::is_newer;
use seqd_store::stop::Stop;

/// The reason why a tool failed, with a code for programs and a remedy for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OfflineError {
    /// A code for programs, such as `folder-in-use` or `corrupt`.
    pub code: &'static str,
    pub message: String,
    /// The remedy, if it is known.
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

    /// Adds a hint about the remedy.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// An error of the disk for a file or a folder.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        let code = match error.kind() {
            io::ErrorKind::NotFound => "not-found",
            io::ErrorKind::InvalidData => "corrupt",
            _ if is_newer(error) => "newer-format",
            io::ErrorKind::StorageFull => "disk-full",
            _ => "failure",
        };
        let text = error.to_string();
        // The readers of files already include the path.
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
