//! The errors of the log: at open ([`WalError`]) and while running ([`WalFailure`]).
//!
//! Both contain the path of the file and distinguish a full disk, a failed sync and damaged bytes,
//! because the remedies differ.

use std::io;
use std::path::{Path, PathBuf};

/// The remedy for an unusable log. Other nodes have the data.
const REMEDY: &str = "restore this node: remove it from the cluster and add it again with an \
                       empty data folder; do not delete or edit log files by hand: acknowledged \
                       writes would be lost";

/// The reason why a log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum WalError {
    /// Synced bytes have changed. A restart does not help.
    #[error("the log is corrupt: {} at byte {offset}: {what}; {REMEDY}", path.display())]
    Corrupt {
        /// The damaged or missing file.
        path: PathBuf,
        /// The offset in the file, in bytes.
        offset: u64,
        /// The reason why it cannot be the tail of an interrupted write.
        what: String,
    },
    #[error(
        "{} has log format {found}, this program supports up to {known}; start the newer version",
        path.display()
    )]
    NewerFormat {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    /// An error of the operating system. The bytes were not checked.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        path: PathBuf,
        doing: &'static str,
        source: io::Error,
    },
    #[error("log option {name}: {why}")]
    Option {
        /// The invalid field of `WalOptions`.
        name: &'static str,
        why: String,
    },
}

impl WalError {
    pub(crate) fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        Self::Io {
            path: path.to_path_buf(),
            doing,
            source,
        }
    }

    pub(crate) fn from_failure(failure: &WalFailure) -> Self {
        let doing = match failure.step {
            FailedStep::Write => "write",
            FailedStep::Sync => SYNC,
            FailedStep::NewSegment | FailedStep::Panic => "create",
        };
        Self::io(&failure.path, doing, failure.cause())
    }

    pub(crate) fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.to_path_buf(),
            offset,
            what: what.into(),
        }
    }
}

/// The `doing` of [`WalError::Io`] for a sync.
pub(crate) const SYNC: &str = "sync";

/// The step in which a running log failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedStep {
    /// Writing a batch. No part of it was acknowledged.
    Write,
    /// `fdatasync` or `fsync`. It is never retried: the kernel may have discarded the pages, and a
    /// second call would return `Ok` for lost bytes.
    Sync,
    NewSegment,
    /// The writer thread panicked, in its own code or in a callback.
    Panic,
}

/// The reason why a running log stopped permanently. Every waiting and every later callback
/// receives it, as the inner error of an [`io::Error`] of the same kind.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the log stopped: {} of {} failed: {message}", self.step_name(), path.display())]
pub struct WalFailure {
    pub step: FailedStep,
    pub path: PathBuf,
    pub kind: io::ErrorKind,
    /// The error number of the system, if any. Not every number has an error kind.
    pub errno: Option<i32>,
    pub message: String,
}

impl WalFailure {
    pub(crate) fn new(step: FailedStep, path: &Path, source: &io::Error) -> Self {
        Self {
            step,
            path: path.to_path_buf(),
            kind: source.kind(),
            errno: source.raw_os_error(),
            message: source.to_string(),
        }
    }

    /// Returns the error of the system. Its number distinguishes errors that share a kind, such as
    /// too many open files.
    pub fn cause(&self) -> io::Error {
        match self.errno {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::new(self.kind, self.message.clone()),
        }
    }

    pub fn to_io_error(&self) -> io::Error {
        io::Error::new(self.kind, self.clone())
    }

    fn step_name(&self) -> &'static str {
        match self.step {
            FailedStep::Write => "a write",
            FailedStep::Sync => "a sync",
            FailedStep::NewSegment => "the preparation",
            FailedStep::Panic => "the writer thread",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_while_the_log_is_made_keeps_the_number_of_its_cause() {
        // Too many open files, an I/O error, and a full disk.
        for errno in [24, 5, 28] {
            let cause = io::Error::from_raw_os_error(errno);
            let failure = WalFailure::new(FailedStep::NewSegment, Path::new("1.seg"), &cause);
            let WalError::Io { source, .. } = WalError::from_failure(&failure) else {
                panic!("it is an error of the system")
            };
            assert_eq!(source.raw_os_error(), Some(errno));
            assert_eq!(source.to_string(), cause.to_string());
        }
    }
}
