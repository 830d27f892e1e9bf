//! Tools over what a stopped node left on its disk, and over snapshot files.
//!
//! They use the same readers as a start does, so that what they say is what a start would find. A
//! tool that only looks never writes: it repairs nothing, makes no file, and works on a read-only
//! mount. Nothing here talks to a running node.
//!
//! Invariants:
//! - A folder is looked at under its lock, so that no node writes meanwhile. Where the lock cannot
//!   be taken because there is none, that is said.
//! - Of a damaged folder as much is said as can be read, and where it is damaged.

mod checkpoint;
mod inspect;
mod lock;
mod recover;
mod remains;
mod replay;
mod reports;
mod restore;
mod snapshot;
mod takeover;
#[cfg(test)]
mod tests;
mod verify;

use std::io;
use std::path::Path;

pub use inspect::inspect_folder;
pub use lock::{FolderLock, LockError};
pub use recover::{Recovering, Recovery, RecoveryOptions, Unfinished};
pub use reports::{
    CheckpointReport, EntryId, FolderReport, IdentityReport, LogReport, MemberReport, PeerReport,
    Problem, RefusedReport, SegmentSummary, Sizes, SnapshotSummary, Torn, VoteReport,
};
pub use restore::{Restore, RestoreOptions};
pub use seqd_store::records::Member;
pub use snapshot::{Records, SnapshotReport, read_snapshot};
pub use takeover::{SequenceTakeover, Takeover, Wishes};
pub use verify::{Check, Verdict, verify_folder};

use seqd_store::faults::is_newer;

/// Why a tool could not do its work, with a word for programs and a way out for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OfflineError {
    /// A word for programs, such as `folder-in-use` or `corrupt`.
    pub code: &'static str,
    pub message: String,
    /// What to do, where there is more to say.
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

    /// What the disk said of a file or a folder.
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

impl From<LockError> for OfflineError {
    fn from(error: LockError) -> Self {
        let message = error.to_string();
        match error {
            LockError::InUse { .. } => Self::new("folder-in-use", message)
                .with_hint("stop the node that uses it; a tool works on a stopped node's folder"),
            LockError::Missing { .. } => Self::new("not-found", message),
            LockError::Io { .. } => Self::new("failure", message),
        }
    }
}
