//! The reasons why a node stops: the single table of each reason's code and exit code. The messages
//! are in the code that raises the errors.
//!
//! An error is classified where it occurs, by its kind and the error number of the system, never by
//! its text.

use std::fmt;
use std::io;
use std::path::Path;

use seqd_wal::{FailedStep, WalError, WalFailure};

use crate::disk_errors::{is_newer, is_of_the_kernel, is_out_of_handles};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    Stopped,
    /// The folder of a member has lost its log or its identity.
    WipedVoter,
    /// The folder does not belong to seqd, or belongs to another cluster or node.
    ForeignFolder,
    /// The folder is an older copy of the node's folder.
    StaleFolder,
    NodeRemoved,
    /// A newer version of seqd wrote the data.
    NewerFormat,
    FolderInUse,
    /// The cluster was restored elsewhere with another identity.
    Superseded,
    FsyncFailed,
    DiskFull,
    /// The data on the disk differs from the data that was written.
    Corrupt,
    /// The process is in an impossible state, or the system lacks a required resource.
    Invariant,
    /// The node could not start: a port, a permission or a thread was not available.
    StartFailed,
}

impl StopReason {
    pub const ALL: [Self; 13] = [
        Self::Stopped,
        Self::WipedVoter,
        Self::ForeignFolder,
        Self::StaleFolder,
        Self::NodeRemoved,
        Self::NewerFormat,
        Self::FolderInUse,
        Self::Superseded,
        Self::FsyncFailed,
        Self::DiskFull,
        Self::Corrupt,
        Self::Invariant,
        Self::StartFailed,
    ];

    /// Returns the word after `code=` on the last line of stderr, and the exit code of the process:
    /// 9 if a restart does not help, 10 if the node failed.
    const fn row(self) -> (&'static str, u8) {
        match self {
            Self::Stopped => ("stopped", 0),
            Self::WipedVoter => ("wiped-voter", 9),
            Self::ForeignFolder => ("foreign-folder", 9),
            Self::StaleFolder => ("stale-folder", 9),
            Self::NodeRemoved => ("node-removed", 9),
            Self::NewerFormat => ("newer-format", 9),
            Self::FolderInUse => ("folder-in-use", 9),
            Self::Superseded => ("superseded", 9),
            Self::FsyncFailed => ("fsync-failed", 10),
            Self::DiskFull => ("disk-full", 10),
            Self::Corrupt => ("corrupt", 10),
            Self::Invariant => ("invariant", 10),
            Self::StartFailed => ("start-failed", 1),
        }
    }

    pub const fn code(self) -> &'static str {
        self.row().0
    }

    pub const fn exit(self) -> u8 {
        self.row().1
    }

    /// Returns whether the folder is marked, so that no later start contacts the peers again.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::NodeRemoved | Self::StaleFolder | Self::Superseded
        )
    }

    pub fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }
}

/// The complete reason why this node stops. The process prints the message and exits with the code
/// of the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    pub reason: StopReason,
    pub message: String,
}

impl Stop {
    pub fn new(reason: StopReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    pub const fn code(&self) -> &'static str {
        self.reason.code()
    }

    pub const fn exit(&self) -> u8 {
        self.reason.exit()
    }

    pub fn invariant(what: impl Into<String>) -> Self {
        Self::new(StopReason::Invariant, what)
    }

    /// A stop for an error of the system.
    pub fn of_io(what: &str, error: &io::Error) -> Self {
        let (reason, way_out) = cause_of(error);
        Self::new(reason, format!("{what}: {error}; {way_out}"))
    }

    /// Like `of_io`, for a node whose folder was open: its last writes are in doubt, even if the
    /// error is a missing permission.
    pub fn of_io_while_running(what: &str, error: &io::Error) -> Self {
        let (reason, way_out) = cause_while_running(error);
        Self::new(reason, format!("{what}: {error}; {way_out}"))
    }

    /// A stop for a file or folder that the system does not let the node use.
    pub fn unusable(path: &Path, error: &io::Error) -> Self {
        Self::of_io(&format!("cannot use {}", path.display()), error)
    }

    /// A stop for a damaged small file of the folder.
    pub fn damaged(path: &Path, why: &str) -> Self {
        Self::new(
            StopReason::Corrupt,
            format!(
                "{} is damaged ({why}); remove this member (`seqd member remove NAME`), empty its \
                 folder and add it again",
                path.display()
            ),
        )
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<&WalError> for Stop {
    fn from(error: &WalError) -> Self {
        match error {
            WalError::Corrupt { .. } => Self::new(StopReason::Corrupt, error.to_string()),
            WalError::NewerFormat { .. } => Self::new(StopReason::NewerFormat, error.to_string()),
            WalError::Option { .. } => Self::invariant(error.to_string()),
            WalError::Io {
                path,
                doing,
                source,
            } => Self::of_io(&format!("cannot {doing} {}", path.display()), source),
        }
    }
}

impl From<&WalFailure> for Stop {
    fn from(failure: &WalFailure) -> Self {
        let cause = failure.cause();
        let (reason, way_out) = match failure.step {
            FailedStep::Panic => FAULT_OF_SEQD,
            // The disk returned the error, although its kind is `Other`.
            FailedStep::Write | FailedStep::Sync if cause.kind() == io::ErrorKind::Other => {
                FAILED_WRITE
            }
            _ => cause_while_running(&cause),
        };
        let message = format!("the log could not be written: {failure}; {way_out}");
        Self::new(reason, message)
    }
}

type Cause = (StopReason, &'static str);

const FAULT_OF_SEQD: Cause = (
    StopReason::Invariant,
    "this is a fault of seqd and not of the disk: report it, and start seqd again",
);

const FAILED_WRITE: Cause = (
    StopReason::FsyncFailed,
    "check the disk; the next start uses its content as it is",
);

/// Like `cause_of`, for a node whose folder was open.
fn cause_while_running(error: &io::Error) -> Cause {
    match cause_of(error) {
        (StopReason::StartFailed, way_out) => (StopReason::FsyncFailed, way_out),
        cause => cause,
    }
}

/// Returns the meaning of a system error for the node, and the remedy.
fn cause_of(error: &io::Error) -> Cause {
    use io::ErrorKind;
    match error.kind() {
        _ if is_newer(error) => (
            StopReason::NewerFormat,
            "install the newer program again: the version of seqd that wrote it, or a later one",
        ),
        _ if is_out_of_handles(error) => (
            StopReason::Invariant,
            "the process or the system has too many files open: raise the limit (`ulimit -n`, \
             LimitNOFILE) and start seqd again; the disk is not at fault",
        ),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => (
            StopReason::DiskFull,
            "free space on its file system and start seqd again",
        ),
        ErrorKind::InvalidData => (
            StopReason::Corrupt,
            "remove this member and add the machine again with an empty folder",
        ),
        ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::NotADirectory => (
            StopReason::Corrupt,
            "a file or folder of seqd is missing, or something else has replaced it: restore it, \
             or remove this member and add the machine again with an empty folder",
        ),
        ErrorKind::OutOfMemory => (
            StopReason::Invariant,
            "the system has no memory left: add memory and start seqd again",
        ),
        ErrorKind::WouldBlock => (
            StopReason::Invariant,
            "the process or the system has too many threads: raise the limit (`ulimit -u`, \
             TasksMax) and start seqd again; the disk is not at fault",
        ),
        // The caller violated a rule of the store: a row or an entry that is too large, or a
        // checkpoint with a lower index.
        ErrorKind::InvalidInput if !is_of_the_kernel(error) => FAULT_OF_SEQD,
        // Errors of the kernel have another kind. This is a caught panic, or a thread that has
        // ended.
        ErrorKind::Other if !is_of_the_kernel(error) => FAULT_OF_SEQD,
        ErrorKind::PermissionDenied => (
            StopReason::StartFailed,
            "make the user that seqd runs as the owner of the folder and its content, and start \
             seqd again",
        ),
        ErrorKind::ReadOnlyFilesystem => (
            StopReason::FsyncFailed,
            "mount its file system for writing and start seqd again; if the system itself made it \
             read-only, check the disk first",
        ),
        _ => FAILED_WRITE,
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::checkpoint::guarded;
    use crate::disk_errors::{in_file, newer};

    #[test]
    fn every_reason_has_a_code_of_its_own() {
        for reason in StopReason::ALL {
            assert_eq!(StopReason::of_code(reason.code()), Some(reason));
        }
    }

    #[test]
    fn the_system_s_errors_have_the_reasons_that_they_mean() {
        let of = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        for (error, expected) in [
            (of(Errno::NOSPC), StopReason::DiskFull),
            (of(Errno::DQUOT), StopReason::DiskFull),
            (of(Errno::MFILE), StopReason::Invariant),
            (of(Errno::NFILE), StopReason::Invariant),
            (of(Errno::NOMEM), StopReason::Invariant),
            (of(Errno::AGAIN), StopReason::Invariant),
            (of(Errno::ISDIR), StopReason::Corrupt),
            (of(Errno::NOTDIR), StopReason::Corrupt),
            (of(Errno::NOENT), StopReason::Corrupt),
            (of(Errno::IO), StopReason::FsyncFailed),
            (of(Errno::ROFS), StopReason::FsyncFailed),
            (of(Errno::ACCESS), StopReason::StartFailed),
            (newer("version 9"), StopReason::NewerFormat),
            (of(Errno::INVAL), StopReason::FsyncFailed),
            (
                io::Error::new(io::ErrorKind::InvalidInput, "a row of 2 MiB"),
                StopReason::Invariant,
            ),
            (
                guarded::<()>("writing", || panic!("a page is gone")).unwrap_err(),
                StopReason::Invariant,
            ),
            (
                io::Error::other("the checkpoint thread has ended"),
                StopReason::Invariant,
            ),
            (
                io::Error::other(WalError::Io {
                    path: "/data/wal".into(),
                    doing: "sync",
                    source: of(Errno::IO),
                }),
                StopReason::FsyncFailed,
            ),
        ] {
            let named = in_file(Path::new("/data/wal/1.seg"), error);
            let stop = Stop::of_io("the log could not be written", &named);
            assert_eq!(stop.reason, expected, "{stop}");
            let running = Stop::of_io_while_running("the log could not be written", &named);
            let expected = match expected {
                StopReason::StartFailed => StopReason::FsyncFailed,
                reason => reason,
            };
            assert_eq!(running.reason, expected, "{running}");
            assert_eq!(running.message, stop.message);
        }
    }

    #[test]
    fn a_log_fails_for_the_reason_of_its_step_and_its_cause() {
        let of = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        let other = || io::Error::other("no number");
        for (step, cause, expected) in [
            (FailedStep::Write, of(Errno::IO), StopReason::FsyncFailed),
            (FailedStep::Sync, of(Errno::IO), StopReason::FsyncFailed),
            (FailedStep::Sync, of(Errno::NOSPC), StopReason::DiskFull),
            (FailedStep::Sync, of(Errno::MFILE), StopReason::Invariant),
            (FailedStep::Sync, other(), StopReason::FsyncFailed),
            (FailedStep::Write, other(), StopReason::FsyncFailed),
            (
                FailedStep::NewSegment,
                of(Errno::IO),
                StopReason::FsyncFailed,
            ),
            (
                FailedStep::NewSegment,
                of(Errno::MFILE),
                StopReason::Invariant,
            ),
            (
                FailedStep::NewSegment,
                of(Errno::ACCESS),
                StopReason::FsyncFailed,
            ),
            // The thread that prepares segments has ended, or no random seed could be drawn.
            (FailedStep::NewSegment, other(), StopReason::Invariant),
            (FailedStep::Panic, other(), StopReason::Invariant),
        ] {
            let failure = WalFailure {
                step,
                path: "/data/wal/1.seg".into(),
                kind: cause.kind(),
                errno: cause.raw_os_error(),
                message: cause.to_string(),
            };
            let stop = Stop::from(&failure);
            assert_eq!(stop.reason, expected, "{step:?}: {stop}");
        }
    }
}
