//! Tools for the data folder of a stopped node, and for snapshot files.
//!
//! They use the readers of a start, so that they report what a start would find. `inspect` and
//! `verify` write nothing and work on a read-only mount. No tool contacts a running node.
//!
//! Invariants:
//! - A folder is read under its lock, so that no node writes to it in the meantime. If there is no
//!   lock to take, the report contains the reason.
//! - The report on a damaged folder contains everything readable and the position of the damage.
//!
//! Layers, lowest first. A module imports only from its own layer and from those below it:
//!
//! - `error`, `files`, `private_folder`, `replay`, `reports`: reading files, and the reports
//! - `checkpoint`, `lock`, `snapshot`, `takeover`: one part of a folder each
//! - `inspect`, `remains`, `restore`: the content of a folder, and a new folder from a snapshot
//! - `recover`, `verify`: the commands that need all of these

mod checkpoint;
mod error;
mod files;
mod inspect;
mod lock;
mod private_folder;
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

pub use error::OfflineError;
pub use inspect::inspect_folder;
pub use recover::{Recovering, Recovery, RecoveryOptions, Unfinished};
pub use reports::{
    Check, CheckResult, CheckpointReport, EntryId, FolderReport, IdentityReport, LogReport,
    MemberReport, PeerReport, Problem, RefusedReport, SegmentSummary, Sizes, SnapshotSummary, Torn,
    VoteReport, unreadable_code,
};
pub use restore::{Restore, RestoreOptions};
pub use seqd_store::records::Member;
pub use snapshot::{SnapshotReport, read_snapshot};
pub use takeover::{SequenceTakeover, Takeover, TakeoverOptions};
pub use verify::verify_folder;
